// SPDX-License-Identifier: Apache-2.0
// What the CUDA back end asks of NVIDIA's libraries, behind a few functions of ours: products of cuBLASLt (gemm.cpp)
// and fused attention of cuDNN (sdpa.cpp). The stand-in of the tests replaces exactly these two files. Everything is
// ordered on the stream; workspaces are a fixed part of the device's memory, allocated when it is opened.
#pragma once

#include <cstdint>

#include "kernels/checks.h"
#include "kernels/ops.h"

namespace quadrille {

// out = a' b' (+ bias) as Ops::matmul, whose checks have been made: f32 (with or without TF32), f64 or bf16 operands,
// out of their type or f32.
void gemm(Stream&, const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias, const Matmul&,
          const MatmulExtents&);

// Whether cuDNN's fused attention can do this: bf16, no dropout, positions without a jump, causal only where queries
// and keys begin together, a head width it supports. The plain kernel does all else.
bool sdpa_supports(const Tensor& q, const Attention&);
// What of that can be told without the library, also of tensors that hold no numbers: true where it should have a plan.
bool sdpa_expected(DType, const Attention&);
void sdpa_forward(Stream&, const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                  const Attention&);
void sdpa_backward(Stream&, const Tensor& dq, const Tensor& dkv, const Tensor& dout, const Tensor& out,
                   const Tensor& log_sum, const Tensor& q, const Tensor& kv, const Attention&);

}  // namespace quadrille
