// SPDX-License-Identifier: Apache-2.0
// What a failed call of the CUDA runtime becomes: an Error that names the call's place, the runtime's own words and,
// where there is one, a remedy. A function, not a macro: the place comes from std::source_location. Included by */cuda/
// and */nccl/ only.
#pragma once

#include <cuda_runtime.h>

#include <source_location>

namespace quadrille {

void check(cudaError_t, std::source_location = std::source_location::current());
// For destructors: says on stderr what check would have thrown. Nothing when the process is ending (the runtime may be
// gone before the last tensor).
void check_quietly(cudaError_t, std::source_location = std::source_location::current()) noexcept;

}  // namespace quadrille
