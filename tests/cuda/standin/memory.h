// SPDX-License-Identifier: Apache-2.0
// The memory of the fake devices and pinned memory. Every device has a range of addresses of its own. An allocation
// ends at the end of a page and unreachable pages lie around it, so a kernel that leaves it stops at once; the few
// bytes between the allocation and its pages are filled and looked at after every operation. Freed addresses are never
// used again. Used by the streams and by block.cpp.
#pragma once

#include <cstddef>
#include <string>

namespace standin {

struct Block {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

enum class Place { pageable, pinned, device };
struct Where {
  Place place = Place::pageable;
  int device = -1;
  bool live = false;  // of device and pinned memory: within one allocation that exists
  Block block{};      // that allocation
};
Where where_is(const void*, std::size_t bytes = 1);

std::byte* allocate_on(int device, std::size_t bytes);  // filled with poison; null: no room
std::byte* allocate_pinned(std::size_t bytes);
bool free_memory(void*, int device);  // device -1: pinned. False: not the beginning of an allocation of that kind
std::size_t bytes_on(int device);
std::string broken_guards(int device);      // what was written outside the allocations; empty: nothing. Repairs them
std::string describe_address(const void*);  // "touched ..., 8 bytes behind an allocation of 40 bytes on device 0"

}  // namespace standin
