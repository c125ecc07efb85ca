// SPDX-License-Identifier: Apache-2.0
// Counts the buffers that a program asks for. A file of its own: a compiler that saw these beside their uses would
// warn.
#include "tests/kernels/cpu_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> buffers = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes >= quadrille::kBufferBytes) ++buffers;
  if (void* p = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment)) return p;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace quadrille {
std::int64_t buffers_allocated() { return buffers; }
}  // namespace quadrille
