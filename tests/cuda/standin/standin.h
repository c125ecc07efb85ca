// SPDX-License-Identifier: Apache-2.0
// What tests and stand-ins of libraries (NCCL, the files of cuBLASLt and cuDNN) may ask of the stand-in runtime beyond
// CUDA's own names.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace standin {

inline constexpr int kDevices = 4;
inline constexpr std::size_t kDeviceBytes = std::size_t{8} << 30;

// In which order streams run when the host waits for one of them. Nothing runs before the host waits for something.
//   late: only what was asked for and what it waits for, everything else stays queued: who forgot to wait for an
//         earlier producer comes before it.
//   early: all other streams of the device first, as far as they get: who forgot to wait for an earlier reader comes
//          before it.
// The environment variable QUADRILLE_STANDIN_STREAMS (late or early) sets it at the start.
enum class Order { late, early };
void run_streams(Order);
Order stream_order();

// The faults seen so far; then every device is as new. Tests that plant a fault end with this.
std::vector<std::string> forgive();

// Work of a library, run on the stream late and in order, like a kernel. `meets_others`: it waits for work of other
// streams (a collective); see Meeting. Follows the stream into a capture. What it throws becomes a fault of the device.
cudaError_t enqueue(cudaStream_t, std::string name, std::function<void()> work, bool meets_others = false);

// Held by work while it waits for work of other streams: all work anywhere that `meets_others` is set in motion, what
// is queued and what will be, so that the partners come without their hosts asking.
class Meeting {
 public:
  Meeting();
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
};

std::int64_t nccl_calls();                // messages that NCCL's stand-in has taken so far
std::size_t bytes_allocated(int device);  // now
int device_of(cudaStream_t);
int device_of(const void*);  // whose memory that is; -1: the host's
// What a fault becomes inside work: an exception whose text names what happened.
[[noreturn]] void fail(const std::string&);

}  // namespace standin
