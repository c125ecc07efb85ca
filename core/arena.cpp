// SPDX-License-Identifier: Apache-2.0
#include "core/arena.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "core/error.h"

namespace quadrille {

namespace {
constexpr std::int64_t kAlignment = 64;
std::int64_t rounded(std::int64_t bytes) {
  return (std::clamp<std::int64_t>(bytes, 1, Arena::kUnbounded) + kAlignment - 1) / kAlignment * kAlignment;
}
}  // namespace

// The slab and its holes, by first byte. The middle hole separates the two ends; low blocks lie below it, high ones
// above.
class Arena::Slab {
 public:
  Slab(Device& device, std::int64_t bytes) : capacity_(bytes / kAlignment * kAlignment) {
    const bool imaginary = !device.holds_numbers();
    require(imaginary || bytes < kUnbounded, "an arena on \"{}\" needs a capacity", device.name());
    if (imaginary)
      device_ = &device;
    else
      memory_ = device.empty({capacity_ / 4}, DType::i32), device_ = &memory_.device();
    holes_[0] = capacity_;
  }
  Device& device() { return *device_; }
  std::byte* base() const { return memory_ ? static_cast<std::byte*>(memory_.data()) : nullptr; }

  std::int64_t take(std::int64_t bytes, End end) {
    const std::lock_guard lock(mutex_);
    const auto hole = end == End::low ? lowest(bytes) : highest(bytes);
    if (hole == holes_.end()) fail_full(bytes, end);
    const std::int64_t first = hole->first, size = hole->second;
    holes_.erase(hole);
    const std::int64_t at = end == End::low ? first : first + size - bytes;
    if (at > first) holes_[first] = at - first;
    if (at + bytes < first + size) holes_[at + bytes] = first + size - at - bytes;
    now_ += bytes;
    (end == End::low ? low_ : high_)[at] = bytes;
    peak_ = std::max(peak_, extent());
    return at;
  }
  void give(std::int64_t at, std::int64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    now_ -= bytes;
    if (low_.erase(at) == 0) high_.erase(at);
    auto next = holes_.lower_bound(at);
    if (next != holes_.end() && next->first == at + bytes) {
      bytes += next->second;
      next = holes_.erase(next);
    }
    if (next != holes_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == at) {
        before->second += bytes;
        return;
      }
    }
    holes_[at] = bytes;
  }

  std::int64_t capacity() const { return capacity_; }
  std::int64_t now() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  std::int64_t peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  using Holes = std::map<std::int64_t, std::int64_t>;
  // Extent used by both ends together: what a slab without the middle hole would measure.
  std::int64_t extent() const {
    const std::int64_t low = low_.empty() ? 0 : low_.rbegin()->first + low_.rbegin()->second;
    const std::int64_t high = high_.empty() ? 0 : capacity_ - high_.begin()->first;
    return low + high;
  }
  // Each end keeps to its own side: a low block lies below the first high one and the other way round. Otherwise the
  // extents would overlap and no longer say what capacity the history needs.
  Holes::iterator lowest(std::int64_t bytes) {
    const std::int64_t limit = high_.empty() ? capacity_ : high_.begin()->first;
    const auto h = std::find_if(holes_.begin(), holes_.end(), [&](const auto& hole) { return hole.second >= bytes; });
    return h != holes_.end() && h->first < limit ? h : holes_.end();
  }
  Holes::iterator highest(std::int64_t bytes) {
    const std::int64_t limit = low_.empty() ? 0 : low_.rbegin()->first;
    for (auto h = holes_.end(); h != holes_.begin();)
      if ((--h)->second >= bytes) return h->first >= limit ? h : holes_.end();
    return holes_.end();
  }
  [[noreturn]] void fail_full(std::int64_t bytes, End end) const {
    std::int64_t largest = 0;
    for (const auto& [first, size] : holes_) largest = std::max(largest, size);
    fail("the arena is full: {} bytes wanted from the {} end, {} of {} in use, {} free in one piece; {}", bytes,
         end == End::low ? "low" : "high", now_, capacity_, largest, "its forecast was too small, please report it");
  }

  mutable std::mutex mutex_;  // a ticket may give a block back from another thread
  Tensor memory_;
  Device* device_ = nullptr;
  std::int64_t capacity_, now_ = 0, peak_ = 0;
  Holes holes_, low_, high_;
};

class Arena::Block : public Storage {
 public:
  Block(std::shared_ptr<Slab> slab, std::int64_t at, std::int64_t bytes)
      : Storage(slab->device(), slab->base() ? slab->base() + at : nullptr, bytes), slab_(std::move(slab)), at_(at) {}
  ~Block() override { slab_->give(at_, bytes()); }

 private:
  std::shared_ptr<Slab> slab_;
  std::int64_t at_;
};

Arena::Arena(Device& device, std::int64_t bytes) : slab_(std::make_shared<Slab>(device, bytes)) {}
Arena::~Arena() = default;
Arena::Arena(Arena&&) noexcept = default;
Arena& Arena::operator=(Arena&&) noexcept = default;

Tensor Arena::empty(const Shape& shape, DType dtype, End end) {
  const std::int64_t bytes = rounded(bytes_of(shape, dtype));
  const std::int64_t at = slab_->take(bytes, end);
  return Tensor(std::make_shared<Block>(slab_, at, bytes), shape, dtype);
}

std::int64_t Arena::capacity() const { return slab_->capacity(); }
std::int64_t Arena::bytes_now() const { return slab_->now(); }
std::int64_t Arena::bytes_peak() const { return slab_->peak(); }

}  // namespace quadrille
