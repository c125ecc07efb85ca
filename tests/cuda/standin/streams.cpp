// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/standin/streams.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

#include "tests/cuda/standin/block.h"
#include "tests/cuda/standin/memory.h"

namespace standin {
namespace {

thread_local CUstream_st* own_stream = nullptr;  // of a worker

}  // namespace

Order order_at_start() {
  const char* text = std::getenv("QUADRILLE_STANDIN_STREAMS");
  if (text == nullptr || std::string_view(text) == "late") return Order::late;
  if (std::string_view(text) == "early") return Order::early;
  std::fprintf(stderr, "QUADRILLE_STANDIN_STREAMS is \"%s\": wanted late or early\n", text);
  std::exit(2);
}

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void run_work(Lock& lock, CUstream_st& stream, const Operation& operation) {
  lock.unlock();
  std::string fault;
  try {
    if (const std::string touched = touched_by(operation.work); !touched.empty())
      fault = operation.name + " " + touched;
    else if (const std::string broken = broken_guards(stream.device); !broken.empty())
      fault = operation.name + " " + broken;
  } catch (const std::exception& error) {
    fault = error.what();
  }
  lock.lock();
  if (!fault.empty()) fault_of(stream.device, fault);
}

void work(CUstream_st* stream) {
  own_stream = stream;
  Lock lock(state().mutex);
  for (;;) {
    state().changed.wait(lock, [stream] { return stream->ends || stream->done < stream->demanded; });
    if (stream->done >= stream->demanded) return;
    const Operation operation = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (const auto& mark = operation.waits_for; mark && !mark->reached) {
      demand(*mark->stream, mark->number);
      stream->waiting = mark.get();
      state().changed.notify_all();
      state().changed.wait(lock, [&mark] { return mark->reached; });
      stream->waiting = nullptr;
    }
    // A device that failed does nothing more; those who wait for it are told.
    if (operation.work && error_of(stream->device) == cudaSuccess) run_work(lock, *stream, operation);
    if (operation.reaches) {
      operation.reaches->seconds = seconds_now();
      operation.reaches->reached = true;
    }
    ++stream->done;
    if (operation.reaches || stream->done == stream->demanded) state().changed.notify_all();
  }
}

// Whether it goes on only when another host does something.
bool held_up(const CUstream_st& stream) {
  return stream.meeting || (stream.waiting != nullptr && !stream.waiting->reached && held_up(*stream.waiting->stream));
}

}  // namespace

State& state() {
  static State& all = *new State;  // never destroyed: streams may be used by anybody's destructor
  return all;
}

void demand(CUstream_st& stream, std::uint64_t number) {
  if (stream.demanded >= number) return;
  stream.demanded = number;
  state().changed.notify_all();
}

void push(CUstream_st& stream, Operation operation) {
  const bool meets = operation.meets_others;
  if (!stream.worker.joinable()) stream.worker = std::thread(work, &stream);
  stream.queue.push_back(std::move(operation));
  ++stream.pushed;
  if (meets) stream.last_meeting = stream.pushed;
  if (meets && state().meetings > 0) demand(stream, stream.pushed);
}

void wait_on_host(Lock& lock, CUstream_st& stream, std::uint64_t number) {
  if (stream.done >= number) return;
  if (state().order == Order::early) {
    const std::vector<CUstream_st*> all = state().streams;
    for (CUstream_st* other : all) {
      if (other == &stream || !exists(other) || other->device != stream.device) continue;
      const std::uint64_t target = other->pushed;
      demand(*other, target);
      state().changed.wait(lock,
                           [other, target] { return !exists(other) || other->done >= target || held_up(*other); });
    }
  }
  demand(stream, number);
  state().changed.wait(lock, [&stream, number] { return !exists(&stream) || stream.done >= number; });
}

bool exists(const CUstream_st* stream) {
  const auto& all = state().streams;
  return std::find(all.begin(), all.end(), stream) != all.end();
}

bool asked_long_enough(double& first_asked) {
  constexpr double kPatience = 0.1;
  if (first_asked == 0) first_asked = seconds_now();
  return seconds_now() - first_asked > kPatience;
}

void fault_of(int device, const std::string& what) {
  State::Device& d = state().devices[device];
  const std::string text = fmt::format("stand-in: {}", what);
  state().faults.push_back(text);
  std::fprintf(stderr, "%s\n", text.c_str());  // others may wait long for what this device does no more
  if (d.error != cudaSuccess) return;
  d.error = cudaErrorLaunchFailure;
  d.fault = text;
}

cudaError_t error_of(int device) { return state().devices[device].error; }

Meeting::Meeting() {
  const Lock lock(state().mutex);
  if (own_stream != nullptr) own_stream->meeting = true;
  if (++state().meetings == 1)
    for (CUstream_st* s : state().streams) demand(*s, s->last_meeting);
  state().changed.notify_all();
}

Meeting::~Meeting() {
  const Lock lock(state().mutex);
  if (own_stream != nullptr) own_stream->meeting = false;
  --state().meetings;
}

void run_streams(Order order) {
  const Lock lock(state().mutex);
  state().order = order;
}

Order stream_order() {
  const Lock lock(state().mutex);
  return state().order;
}

std::vector<std::string> forgive() {
  const Lock lock(state().mutex);
  for (State::Device& d : state().devices) d = {};
  return std::exchange(state().faults, {});
}

std::size_t bytes_allocated(int device) { return bytes_on(device); }
int device_of(cudaStream_t stream) { return stream->device; }
int device_of(const void* p) { return where_is(p).device; }
void fail(const std::string& what) { throw std::runtime_error(what); }

}  // namespace standin
