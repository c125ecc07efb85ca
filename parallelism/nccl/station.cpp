// SPDX-License-Identifier: Apache-2.0
#include "parallelism/nccl/station.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/cuda/check.h"
#include "core/cuda/device.h"
#include "core/error.h"
#include "parallelism/nccl/connection.h"

namespace quadrille::nccl {

namespace {

// Short beside any deadline, long beside a look at the head of each lane.
constexpr auto kBetweenLooks = std::chrono::milliseconds(10);

}  // namespace

Mark::Mark(cudaStream_t stream) {
  check(cudaEventCreateWithFlags(&event_, cudaEventDefault));
  check(cudaEventRecord(event_, stream));
}

Mark::~Mark() {
  if (event_) check_quietly(cudaEventDestroy(event_));
}

bool Mark::reached() const {
  const cudaError_t now = cudaEventQuery(event_);
  if (now == cudaErrorNotReady) return false;
  check(now);
  return true;
}

void Mark::hold_up(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, event_, 0)); }

double Mark::seconds(const Mark& begin, const Mark& end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.event_, end.event_));
  return 1e-3 * static_cast<double>(milliseconds);
}

Station::Station(std::unique_ptr<Communicator> watch, Device& device, double timeout_seconds)
    : watch_(std::move(watch)),
      device_(device),
      index_(cuda_index(device)),
      timeout_seconds_(timeout_seconds),
      crossings_(add_lane(true)),
      bulk_(add_lane(false)),
      thread_([this] { look_around(); }) {}

Station::~Station() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Station::enter_device() const { check(cudaSetDevice(index_)); }

std::shared_ptr<Lane> Station::add_lane(bool high_priority) {
  auto lane = std::make_shared<Lane>();
  lane->stream = make_cuda_stream(device_, high_priority);
  const std::lock_guard lock(mutex_);
  std::erase_if(lanes_, [](const auto& known) { return known.expired(); });
  lanes_.push_back(lane);
  return lane;
}

void Station::add(Connection& connection) {
  const std::lock_guard lock(mutex_);
  connections_.push_back(&connection);
}

void Station::remove(Connection& connection) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(connections_, &connection);
}

void Station::watch_over(Lane& lane, std::shared_ptr<Passage> passage) {
  const std::lock_guard lock(mutex_);
  lane.under_way.push_back(std::move(passage));
}

// Seconds are known only when a message is through, so they are booked when the rank comes here next: those of the last
// messages of a step, in the step after it.
void Station::settle() {
  std::vector<std::shared_ptr<Passage>> complete;
  {
    const std::lock_guard lock(mutex_);
    complete.swap(complete_);
  }
  if (complete.empty()) return;
  enter_device();
  std::vector<std::shared_ptr<Passage>> later;
  for (const auto& passage : complete) {
    if (passage->after && !passage->after->reached())
      later.push_back(passage);  // the wait itself is still ahead
    else
      book(*passage);
  }
  const std::lock_guard lock(mutex_);
  complete_.insert(complete_.begin(), later.begin(), later.end());
}

void Station::book(const Passage& passage) {
  const auto account = passage.account.lock();
  if (!account || !*account) return;
  const double exposed = passage.after ? Mark::seconds(*passage.before, *passage.after) : 0;
  (*account)->message(kind_of(passage.header), passage.group,
                      {0, 0, 0, Mark::seconds(*passage.begin, *passage.end), exposed});
}

// An exchange in a failed world throws its cause.
void Station::refuse_if_stopped() {
  if (!stopped_) return;
  watch_->barrier();
  throw Poisoned("the world has failed");
}

void Station::stop(const std::string& message) noexcept {
  watch_->poison(message);
  give_all_up();
}

void Station::give_all_up() noexcept {
  stopped_ = true;
  const std::lock_guard lock(mutex_);
  for (Connection* connection : connections_) connection->give_up();
}

void Station::look_around() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kBetweenLooks, [this] { return ends_; })) {
    lock.unlock();
    look();
    lock.lock();
  }
}

void Station::look() {
  if (stopped_) return;
  try {
    enter_device();
    if (watch_->failed())
      give_all_up();
    else if (const std::string text = trouble(); !text.empty())
      stop(text);
  } catch (const std::exception& error) {
    stop(error.what());
  }
}

// What is amiss; empty: nothing. A message is late when it is not through so long after it could begin: after its own
// numbers were there and the message before it through.
std::string Station::trouble() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  for (const auto& known : lanes_) {
    const auto lane = known.lock();
    if (!lane) continue;
    while (!lane->under_way.empty()) {
      const auto& head = lane->under_way.front();
      if (!head->begin->reached()) break;
      if (head->end->reached()) {
        complete_.push_back(head);
        lane->under_way.pop_front();
        continue;
      }
      if (!head->seen) head->seen = now;
      if (now - *head->seen < std::chrono::duration<double>(timeout_seconds_)) break;
      return fmt::format(
          "{} in group {} over NCCL was not through {:g} s after it could begin: another rank has not come, or said "
          "another operation, count or type. If that work is only slow, raise --timeout",
          words(head->header), head->group, timeout_seconds_);
    }
  }
  for (Connection* connection : connections_)
    if (std::string text = connection->trouble(); !text.empty()) return text;
  return {};
}

}  // namespace quadrille::nccl
