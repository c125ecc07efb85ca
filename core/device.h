// SPDX-License-Identifier: Apache-2.0
// Where numbers live, and in which order work happens. The host device and the counting device (which holds no numbers,
// only adds up their sizes) are here; others come from their own folders. One Device and its Streams belong to one
// rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace quadrille {

// A point in a stream's order of work.
class Event {
 public:
  virtual ~Event() = default;
  virtual void block_host() = 0;                                 // returns when the work before it is done
  virtual double seconds_since(const Event& earlier) const = 0;  // both must have been reached
};

// Work that a stream was given once and can do again, with the same addresses and the same options.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual void run() = 0;  // in the stream's order, like any other work
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() const = 0;
  virtual void copy(const Tensor& to, const Tensor& from) = 0;  // equal counts and types; host <-> device included;
                                                                // from one that holds no numbers: zeros
  virtual void zero(const Tensor&) = 0;
  virtual std::unique_ptr<Event> record() = 0;
  virtual void wait(const Event&) = 0;  // the stream waits, the host does not
  virtual void synchronize() = 0;
  // Names what the calling thread gives to the stream from here on, for a profiler's picture (NVTX on a GPU); ranges
  // nest, and nothing is done with them elsewhere.
  virtual void begin_range(const std::string& /*name*/) {}
  virtual void end_range() noexcept {}
  // What `work` gives to this stream is kept instead of done. It may neither make the host wait nor touch another
  // stream. Null, and `work` not called, where the device knows no such thing.
  virtual std::unique_ptr<Replay> keep_work(const std::function<void()>& work);
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  virtual bool holds_numbers() const = 0;  // false: shapes only, nothing may be read
  virtual bool on_host() const = 0;        // true: data() is an address of this process
  virtual std::unique_ptr<Stream> make_stream() = 0;
  // Host memory that this device's streams copy from and to without making the host wait (pinned, on a GPU). Numbers in
  // it may be changed only when the copies are done: see Stream::record.
  virtual std::unique_ptr<Device> host_side();
  Tensor empty(const Shape&, DType);  // uninitialised; throws Error when memory is short
  std::int64_t bytes_now() const { return bytes_now_; }
  std::int64_t bytes_peak() const { return bytes_peak_; }

 protected:
  virtual std::byte* allocate(std::int64_t bytes) = 0;  // 64-byte aligned at least
  virtual void release(std::byte*, std::int64_t bytes) noexcept = 0;

 private:
  friend class DeviceStorage;
  std::atomic<std::int64_t> bytes_now_ = 0, bytes_peak_ = 0;  // tickets of other threads may free
};

// One of the devices that this process may open, by its index among them.
struct DeviceFacts {
  std::string name;  // "NVIDIA H200"
  std::string id;    // the same for one device whatever process of the host asks
  std::int64_t bytes = 0, free_bytes = 0;
  std::string kind;  // "compute capability 9.0"
};

std::unique_ptr<Device> make_host_device();  // large blocks on huge pages where the system allows
std::unique_ptr<Device> make_counting_device();
// What a host device's streams are: work is done at once by the calling thread.
std::unique_ptr<Stream> make_host_stream(Device&);
void check_copy(const Tensor& to, const Tensor& from);  // what every Stream::copy demands; throws Error

}  // namespace quadrille
