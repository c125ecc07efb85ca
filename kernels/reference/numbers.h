// SPDX-License-Identifier: Apache-2.0
// How the reference reaches its numbers: the C++ type of a tensor is chosen here, once per op, from its run-time type.
#pragma once

#include <cstddef>

#include "core/error.h"
#include "core/tensor.h"

namespace quadrille {

// Calls work(T{}) with T the floating type of `like`.
template <class F>
void with_type_of(const Tensor& like, F&& work) {
  if (like.dtype() == DType::f64)
    work(double{});
  else if (like.dtype() == DType::f32)
    work(float{});
  else
    fail("the reference computes in f32 or f64, found {}", name_of(like.dtype()));
}

// The numbers as the host holds them, null for an absent operand. Throws where there are none, as on a counting device.
template <class T>
T* numbers(const Tensor& t) {
  return t ? t.host<T>().data() : nullptr;
}

}  // namespace quadrille
