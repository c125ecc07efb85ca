// SPDX-License-Identifier: Apache-2.0
// A GPU as a Device: memory by cudaMalloc (the arena takes its one slab from it), streams that run late, events with
// times, pinned memory on the host's side. Work of a stream is in order; nothing here waits for the host but what says
// so (Event::block_host, Stream::synchronize, seconds_since). Included by */cuda/ and */nccl/ only.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/device.h"

namespace quadrille {

// Throws Error: no driver, no such device (with the number there are), an architecture this build has no code for.
std::unique_ptr<Device> open_cuda_device(int index);
int cuda_device_count();  // 0 without a driver
// All that are to be seen, and with what: {"driver", "13.0"}, {"runtime", ...}. Throws Error: no driver, no device.
std::vector<DeviceFacts> cuda_devices();
std::vector<std::pair<std::string, std::string>> cuda_versions();

// The stream behind a Stream of a CUDA device, which becomes the calling thread's current one, as launches want it;
// throws Error for any other.
cudaStream_t cuda_stream(Stream&);
int cuda_index(const Device&);  // of a CUDA device
// Streams of high priority get their messages past queued maths: for crossings.
std::unique_ptr<Stream> make_cuda_stream(Device&, bool high_priority);
// A stream's own memory for what lives only between two kernels of one op (partial sums): kCudaScratchBytes, 256-byte
// aligned, allocated with the stream, so that a captured step allocates nothing.
inline constexpr std::int64_t kCudaScratchBytes = 64 << 10;
std::byte* cuda_scratch(Stream&);

}  // namespace quadrille
