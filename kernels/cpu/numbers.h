// SPDX-License-Identifier: Apache-2.0
// How the cpu back end reaches the numbers of an operand; refuses what it does not compute with.
#pragma once

#include "core/error.h"
#include "core/tensor.h"

namespace quadrille {

// Null for an absent operand. Throws where the numbers are not on the host.
inline float* floats(const Tensor& t) {
  if (!t) return nullptr;
  require(t.dtype() == DType::f32, "the cpu back end computes in f32, found {}: use f32, or the back end \"reference\"",
          name_of(t.dtype()));
  return t.host<float>().data();
}
inline double* doubles(const Tensor& t) { return t.host<double>().data(); }
inline const std::int32_t* integers(const Tensor& t) { return t.host<std::int32_t>().data(); }

}  // namespace quadrille
