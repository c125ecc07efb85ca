// SPDX-License-Identifier: Apache-2.0
// What the .cu files have done by ops.cpp, because nvcc takes no message that is checked at compile time.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace quadrille {

inline constexpr std::int64_t kMostHead = 256;  // the widest head of the plain attention kernels

[[noreturn]] void refuse_type(DType);
[[noreturn]] void refuse_head(std::int64_t head);

}  // namespace quadrille
