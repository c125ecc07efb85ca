// SPDX-License-Identifier: Apache-2.0
// What the .cu files have done by ops.cpp, because nvcc takes no message that is checked at compile time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/device.h"

namespace quadrille {

inline constexpr std::int64_t kMostHead = 256;  // the widest head of the plain attention kernels

[[noreturn]] void refuse_type(DType);
[[noreturn]] void refuse_head(std::int64_t head);

// The stream, with its device made the calling thread's.
cudaStream_t launch_stream(Stream&);

}  // namespace quadrille
