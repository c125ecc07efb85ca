// SPDX-License-Identifier: Apache-2.0
#include "core/device.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace quadrille {

// An allocation of its own, as opposed to a block of an arena.
class DeviceStorage : public Storage {
 public:
  DeviceStorage(Device& device, std::byte* data, std::int64_t bytes) : Storage(device, data, bytes) {
    const std::int64_t now = device.bytes_now_ += bytes;
    std::int64_t peak = device.bytes_peak_;
    while (now > peak && !device.bytes_peak_.compare_exchange_weak(peak, now)) {}
  }
  ~DeviceStorage() override {
    device().release(data(), bytes());
    device().bytes_now_ -= bytes();
  }
};

Tensor Device::empty(const Shape& shape, DType dtype) {
  const std::int64_t bytes = bytes_of(shape, dtype);
  return Tensor(std::make_shared<DeviceStorage>(*this, allocate(bytes), bytes), shape, dtype);
}

std::unique_ptr<Replay> Stream::keep_work(const std::function<void()>&) { return nullptr; }

std::unique_ptr<Device> Device::host_side() { return make_host_device(); }

namespace {

using Clock = std::chrono::steady_clock;

class HostEvent : public Event {
 public:
  void block_host() override {}
  double seconds_since(const Event& earlier) const override {
    return std::chrono::duration<double>(at_ - dynamic_cast<const HostEvent&>(earlier).at_).count();
  }

 private:
  Clock::time_point at_ = Clock::now();
};

void check_copy(const Tensor& to, const Tensor& from) {
  if (to.count() != from.count() || to.dtype() != from.dtype())
    fail("copy of {} {} into {} {}: counts and types must agree", from.shape().text(), name_of(from.dtype()),
         to.shape().text(), name_of(to.dtype()));
}

// Work is done at once by the calling thread, so there is nothing to wait for.
class HostStream : public Stream {
 public:
  explicit HostStream(Device& device) : device_(device) {}
  Device& device() const override { return device_; }
  void copy(const Tensor& to, const Tensor& from) override {
    check_copy(to, from);
    if (to.bytes() == 0 || !to.device().holds_numbers()) return;
    // Numbers that only were counted read as zero, so that a counting run is the same every time.
    if (!from.device().holds_numbers())
      std::memset(to.data(), 0, static_cast<std::size_t>(to.bytes()));
    else
      std::memmove(to.data(), from.data(), static_cast<std::size_t>(to.bytes()));
  }
  void zero(const Tensor& t) override {
    if (t.bytes() > 0 && t.device().holds_numbers()) std::memset(t.data(), 0, static_cast<std::size_t>(t.bytes()));
  }
  std::unique_ptr<Event> record() override { return std::make_unique<HostEvent>(); }
  void wait(const Event&) override {}
  void synchronize() override {}

 private:
  Device& device_;
};

class HostDevice : public Device {
 public:
  std::string_view name() const override { return "host"; }
  bool holds_numbers() const override { return true; }
  bool on_host() const override { return true; }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<HostStream>(*this); }

 protected:
  // First touch of fresh memory costs more than arithmetic: large blocks ask for huge pages.
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  std::byte* allocate(std::int64_t bytes) override {
    const std::size_t wanted = std::max<std::size_t>(static_cast<std::size_t>(bytes), 1);
    const std::size_t alignment = wanted >= kHugePage ? kHugePage : 64;
    void* p = std::aligned_alloc(alignment, (wanted + alignment - 1) / alignment * alignment);
    require(p != nullptr, "out of memory: {} bytes wanted on the host", bytes);
    if (wanted >= kHugePage) madvise(p, wanted, MADV_HUGEPAGE);  // a hint: no harm where it is refused
    return static_cast<std::byte*>(p);
  }
  void release(std::byte* p, std::int64_t) noexcept override { std::free(p); }
};

class CountingDevice : public Device {
 public:
  std::string_view name() const override { return "counting"; }
  bool holds_numbers() const override { return false; }
  bool on_host() const override { return false; }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<HostStream>(*this); }

 protected:
  std::byte* allocate(std::int64_t) override { return nullptr; }
  void release(std::byte*, std::int64_t) noexcept override {}
};

}  // namespace

std::unique_ptr<Device> make_host_device() { return std::make_unique<HostDevice>(); }
std::unique_ptr<Device> make_counting_device() { return std::make_unique<CountingDevice>(); }

}  // namespace quadrille
