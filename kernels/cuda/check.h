// SPDX-License-Identifier: Apache-2.0
// What a failed call of cuBLASLt or cuDNN becomes: an Error with the call's place and the library's own words.
// Functions like those of core/cuda/check.h, which has the runtime's. Included by kernels/cuda only.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <source_location>

#include "core/cuda/check.h"

namespace quadrille {

void check(cublasStatus_t, std::source_location = std::source_location::current());
void check(cudnnStatus_t, std::source_location = std::source_location::current());

}  // namespace quadrille
