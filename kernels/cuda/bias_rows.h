// SPDX-License-Identifier: Apache-2.0
// A bias written or added to all rows, for products whose library call cannot take it along (gemm.cpp says which).
#pragma once

#include <cuda_runtime.h>

#include "core/tensor.h"
#include "kernels/ops.h"

namespace quadrille {

// out[r, c] = (out[r, c] +) bias[c], for bias of n columns; f32, f64 or bf16 each, out as wide as bias or wider.
void bias_rows(cudaStream_t, const Tensor& out, const Tensor& bias, Write);

}  // namespace quadrille
