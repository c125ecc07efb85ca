// SPDX-License-Identifier: Apache-2.0
// What all groups of one rank share: the device, the streams that messages travel on, and the watch over them. A second
// thread looks every few milliseconds whether messages get on, whether NCCL noticed an error, and whether the host's
// world has failed; if one is amiss, the world is failed and every communicator given up, so that kernels which wait
// for other ranks end and no host call stays blocked. Used by connection.h and group.cpp.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/device.h"
#include "core/ledger.h"
#include "core/tensor.h"
#include "parallelism/communicator.h"
#include "parallelism/message.h"

namespace quadrille::nccl {

class Connection;

// A point in a stream's order that can be asked after without waiting, with a time.
class Mark {
 public:
  explicit Mark(cudaStream_t);
  ~Mark();
  Mark(Mark&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Mark& operator=(Mark&&) = delete;
  bool reached() const;
  void hold_up(cudaStream_t) const;  // what the stream gets from now on comes after it
  static double seconds(const Mark& begin, const Mark& end);

 private:
  cudaEvent_t event_ = nullptr;
};

// A message under way. The watch looks at it until it is complete; then the rank's own thread books its seconds and
// lets go of what is left of its tensors.
struct Passage {
  Header header;
  std::string group;
  std::vector<Tensor> tensors;        // until somebody's stream is behind the message
  std::optional<Mark> begin, end;     // on its own stream
  std::optional<Mark> before, after;  // of the wait, on the consumer's stream
  std::weak_ptr<Ledger* const> account;
  std::optional<std::chrono::steady_clock::time_point> seen;  // when the watch found it begun
};

// A stream of messages, in order.
struct Lane {
  std::unique_ptr<Stream> stream;
  std::deque<std::shared_ptr<Passage>> under_way;  // guarded by the station
};

class Station {
 public:
  // `watch`: a group of the host's world that nobody else uses.
  Station(std::unique_ptr<Communicator> watch, Device&, double timeout_seconds);
  ~Station();
  Station(const Station&) = delete;
  Station& operator=(const Station&) = delete;

  Device& device() const { return device_; }
  double timeout_seconds() const { return timeout_seconds_; }
  void enter_device() const;  // this thread's calls go to it
  Lane& crossings() { return *crossings_; }
  Lane& bulk() { return *bulk_; }
  std::shared_ptr<Lane> add_lane(bool high_priority);

  void add(Connection&);
  void remove(Connection&) noexcept;
  void watch_over(Lane&, std::shared_ptr<Passage>);
  // On the rank's own thread: books what has been completed since the last time.
  void settle();

  void refuse_if_stopped();                        // throws Poisoned with the world's cause
  void stop(const std::string& message) noexcept;  // fails the host's world and gives everything up

 private:
  void look_around();
  void look();
  std::string trouble();
  void give_all_up() noexcept;
  static void book(const Passage&);

  std::unique_ptr<Communicator> watch_;
  Device& device_;
  const int index_;
  const double timeout_seconds_;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool ends_ = false;
  std::vector<std::weak_ptr<Lane>> lanes_;
  std::vector<Connection*> connections_;
  std::vector<std::shared_ptr<Passage>> complete_;
  std::shared_ptr<Lane> crossings_, bulk_;
  std::thread thread_;
};

}  // namespace quadrille::nccl
