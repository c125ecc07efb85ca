// SPDX-License-Identifier: Apache-2.0
// The host's part of the kernels' files: what needs fmt, and products, which a library makes.
#include "kernels/cuda/ops.h"

#include "core/error.h"
#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cuda/host.h"
#include "kernels/cuda/library.h"

namespace quadrille {

void refuse_type(DType type) { fail("the cuda back end computes in f32, f64 or bf16, found {}", name_of(type)); }

void refuse_head(std::int64_t head) {
  fail("attention on cuda: a head width of {}, wanted at most {}: take narrower heads", head, kMostHead);
}

Cost CudaOps::matmul(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                     const Matmul& how) const {
  const MatmulExtents extents = check_matmul(stream, out, a, b, bias, how);
  gemm(stream, out, a, b, bias, how, extents);
  return bill_matmul(out, a, b, bias, how);
}

}  // namespace quadrille
