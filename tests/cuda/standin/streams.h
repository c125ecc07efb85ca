// SPDX-License-Identifier: Apache-2.0
// The queues of the stand-in. A stream is a queue with a thread of its own, which runs nothing until somebody asks: the
// host waits, an event is waited for, or a partner of a collective meets. Everything here is under one mutex but the
// work itself. Used by runtime.cpp and capture.cpp.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/standin/standin.h"

namespace standin {

struct Capture;

// A point of a stream's order, as an event holds it.
struct Mark {
  CUstream_st* stream = nullptr;  // valid until the mark is reached
  std::uint64_t number = 0;
  bool reached = false;
  double seconds = 0;
  double first_asked = 0;            // when a host first asked after it without waiting
  std::shared_ptr<Capture> capture;  // recorded in a capture: nodes of that graph instead
  std::vector<std::size_t> nodes;
};

struct Operation {
  std::string name;
  std::function<void()> work;  // without the mutex
  std::shared_ptr<Mark> waits_for, reaches;
  bool meets_others = false;
};

Order order_at_start();

// One for the process.
struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<CUstream_st*> streams;
  int meetings = 0;
  Order order = order_at_start();
  struct Device {
    cudaError_t error = cudaSuccess;  // stays, as in the real runtime
    std::string fault;
  };
  Device devices[kDevices];
  std::vector<std::string> faults;
};
State& state();

using Lock = std::unique_lock<std::mutex>;

// All of these are called with the mutex held.
void push(CUstream_st&, Operation);  // to the queue, whatever is captured
void demand(CUstream_st&, std::uint64_t number);
void wait_on_host(Lock&, CUstream_st&, std::uint64_t number);  // in the order of stream_order
bool exists(const CUstream_st*);                               // other threads may destroy streams while one waits
// A host asks without waiting. Whoever asks again for some time is answered: else it would ask for ever. Before that
// nothing is set in motion, so that a watchman who looks in now and then does not make late work early.
bool asked_long_enough(double& first_asked);
void fault_of(int device, const std::string&);
cudaError_t error_of(int device);

}  // namespace standin

struct CUstream_st {
  int device = 0, priority = 0;
  std::deque<standin::Operation> queue;
  std::uint64_t pushed = 0, done = 0, demanded = 0;  // operations, counted
  std::uint64_t last_meeting = 0;                    // number of the last operation that meets others
  double first_asked = 0;                            // by cudaStreamQuery, since it was last found done
  std::uint64_t launches = 0;                        // kernels, for their seeds
  bool meeting = false;                              // its work waits for others just now
  const standin::Mark* waiting = nullptr;            // for this one
  bool ends = false;
  std::shared_ptr<standin::Capture> capture;
  std::thread worker;
};

struct CUevent_st {
  int device = 0;
  bool timed = true;
  std::shared_ptr<standin::Mark> mark;  // of the last record; null: none yet
};
