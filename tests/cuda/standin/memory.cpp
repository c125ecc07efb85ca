// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/standin/memory.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <span>
#include <stdexcept>

#include "tests/cuda/standin/block.h"
#include "tests/cuda/standin/standin.h"

namespace standin {
namespace {

constexpr std::size_t kRange = std::size_t{1} << 40;  // addresses of a device: enough never to use one twice
constexpr std::size_t kPage = 4096, kAlignment = 256;
constexpr std::ptrdiff_t kNear = 64 << 10;  // so far beside an allocation it is named in messages

std::size_t up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

// The allocation lies at the end of its pages, but for what its alignment asks for.
struct Allocation {
  std::byte *pages, *data;
  std::size_t page_bytes, bytes;
  bool live = true;
  std::span<std::byte> before() const { return {pages, static_cast<std::size_t>(data - pages)}; }
  std::span<std::byte> behind() const {
    return {data + bytes, static_cast<std::size_t>(pages + page_bytes - data) - bytes};
  }
};

struct Range {
  std::byte* begin = nullptr;
  std::size_t used = 0, live_bytes = 0;
  std::map<const std::byte*, Allocation> live, freed;  // by the beginning of their pages
  std::mutex mutex;

  void reserve() {
    if (begin != nullptr) return;
    void* p = mmap(nullptr, kRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("no addresses for a fake device");
    begin = static_cast<std::byte*>(p);
    used = kPage;
  }
  bool holds(const std::byte* p) const { return begin != nullptr && p >= begin && p < begin + kRange; }
};

// The devices' ranges; the last one is pinned memory.
std::array<Range, kDevices + 1>& ranges() {
  static std::array<Range, kDevices + 1> all;
  return all;
}
Range& range_of(int device) { return ranges()[static_cast<std::size_t>(device < 0 ? kDevices : device)]; }

// Large allocations are views of one file of poison, of which pages become their own when they are written: a slab that
// is hardly used costs nothing.
constexpr std::size_t kLarge = std::size_t{1} << 20, kFileBytes = std::size_t{16} << 20;
int poison_file() {
  static const int file = [] {
    const int fd = memfd_create("poison", MFD_CLOEXEC);
    void* p = fd < 0 || ftruncate(fd, kFileBytes) != 0
                  ? MAP_FAILED
                  : mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) throw std::runtime_error("no memory for what fresh memory of a fake device holds");
    poison({static_cast<std::byte*>(p), kFileBytes});
    munmap(p, kFileBytes);
    return fd;
  }();
  return file;
}

bool make_reachable(std::byte* pages, std::size_t bytes) {
  if (bytes < kLarge) {
    if (mprotect(pages, bytes, PROT_READ | PROT_WRITE) != 0) return false;
    poison({pages, bytes});
    return true;
  }
  for (std::size_t at = 0; at < bytes; at += kFileBytes)
    if (mmap(pages + at, std::min(bytes - at, kFileBytes), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, poison_file(), 0) == MAP_FAILED)
      return false;
  return true;
}

void make_unreachable(std::byte* pages, std::size_t bytes) {
  mmap(pages, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

std::byte* allocate(Range& range, std::size_t bytes) {
  const std::scoped_lock lock(range.mutex);
  range.reserve();
  const std::size_t page_bytes = up(up(bytes == 0 ? 1 : bytes, kAlignment), kPage);
  if (range.used + page_bytes + kPage > kRange) throw std::runtime_error("the addresses of a fake device are used up");
  std::byte* pages = range.begin + range.used;
  range.used += page_bytes + kPage;  // a page that is never reachable in between
  if (!make_reachable(pages, page_bytes)) return nullptr;
  const Allocation a{pages, pages + page_bytes - up(bytes, kAlignment), page_bytes, bytes};
  range.live.emplace(pages, a);
  range.live_bytes += bytes;
  return a.data;
}

// The last allocation at or below an address.
const Allocation* below(const std::map<const std::byte*, Allocation>& all, const std::byte* p) {
  auto next = all.upper_bound(p);
  return next == all.begin() ? nullptr : &std::prev(next)->second;
}

std::string owner(int device) { return device < 0 ? "pinned memory" : fmt::format("device {}", device); }

}  // namespace

std::byte* allocate_on(int device, std::size_t bytes) {
  if (bytes > kDeviceBytes - bytes_on(device)) return nullptr;
  return allocate(range_of(device), bytes);
}
std::byte* allocate_pinned(std::size_t bytes) { return allocate(range_of(-1), bytes); }

bool free_memory(void* p, int device) {
  Range& range = range_of(device);
  const std::scoped_lock lock(range.mutex);
  const Allocation* found = below(range.live, static_cast<std::byte*>(p));
  if (found == nullptr || found->data != p) return false;
  const Allocation a = *found;
  make_unreachable(a.pages, a.page_bytes);
  range.live.erase(a.pages);
  range.freed.emplace(a.pages, a);
  range.live_bytes -= a.bytes;
  return true;
}

std::size_t bytes_on(int device) {
  Range& range = range_of(device);
  const std::scoped_lock lock(range.mutex);
  return range.live_bytes;
}

Where where_is(const void* address, std::size_t bytes) {
  const auto* p = static_cast<const std::byte*>(address);
  for (int device = -1; device < kDevices; ++device) {
    Range& range = range_of(device);
    const std::scoped_lock lock(range.mutex);
    if (!range.holds(p)) continue;
    Where out{device < 0 ? Place::pinned : Place::device, device, false, {}};
    const Allocation* found = below(range.live, p);
    if (found != nullptr && p < found->pages + found->page_bytes) {
      out.block = {found->data, found->bytes};
      out.live = p >= found->data && p + bytes <= found->data + found->bytes;
    }
    return out;
  }
  return {};
}

std::string broken_guards(int device) {
  Range& range = range_of(device);
  const std::scoped_lock lock(range.mutex);
  std::string out;
  for (const auto& [pages, a] : range.live) {
    const bool before = !is_poison(a.before()), behind = !is_poison(a.behind());
    if (!before && !behind) continue;
    out = fmt::format("wrote {} an allocation of {} bytes of {}", before ? "before" : "behind", a.bytes, owner(device));
    poison(a.before());
    poison(a.behind());
  }
  return out;
}

std::string describe_address(const void* address) {
  const auto* p = static_cast<const std::byte*>(address);
  for (int device = -1; device < kDevices; ++device) {
    Range& range = range_of(device);
    const std::scoped_lock lock(range.mutex);
    if (!range.holds(p)) continue;
    const Allocation* freed = below(range.freed, p);
    if (freed != nullptr && p < freed->pages + freed->page_bytes)
      return fmt::format("touched freed memory of {}, an allocation of {} bytes", owner(device), freed->bytes);
    const Allocation* last = below(range.live, p);
    const auto next = range.live.upper_bound(p);
    const auto behind = last != nullptr ? p - last->data - static_cast<std::ptrdiff_t>(last->bytes) : PTRDIFF_MAX;
    const auto before = next != range.live.end() ? next->second.data - p : PTRDIFF_MAX;
    if (behind < before && behind <= kNear)
      return fmt::format("touched byte {} of an allocation of {} bytes of {}", p - last->data, last->bytes,
                         owner(device));
    if (before <= kNear)
      return fmt::format("touched {} bytes before an allocation of {} bytes of {}", before, next->second.bytes,
                         owner(device));
    return fmt::format("touched memory of {} that nobody allocated", owner(device));
  }
  return fmt::format("touched address {}, which is no memory of a device (or the thread's stack is full)", address);
}

}  // namespace standin
