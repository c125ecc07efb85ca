// SPDX-License-Identifier: Apache-2.0
// Products by cuBLASLt, which thinks in columns: a row-major [m, n] is its [n, m]. So out = a' b' is asked for as
// outᵀ = b'ᵀ a'ᵀ, its first operand is our b, and the bias of our columns is the bias of its rows, which it can add in
// the same kernel. Transposes carry over as they are.
//
// Always the same bits: one algorithm for each shape, and where it splits the inner extent, parts may only be summed in
// f32 (or f64) in a workspace and a fixed order (CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE), never in the output's type.
// Its GELU is not used: that is the form with tanh, ours the one with erf (docs/cuda.md has what this costs).
//
// NOT VERIFIED ON A DEVICE: compiled and linked against the toolkit, never run on a GPU.
#include <algorithm>
#include <bit>

#include "core/cuda/device.h"
#include "core/error.h"
#include "kernels/cuda/bias_rows.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/library.h"

namespace quadrille {

namespace {

cudaDataType_t number_type(DType type) {
  switch (type) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f64:
      return CUDA_R_64F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::i32:
      break;
  }
  fail("a product of {}: wanted f32, f64 or bf16", name_of(type));
}

cublasComputeType_t compute_type(DType in, const Matmul& how) {
  if (in == DType::f64) return CUBLAS_COMPUTE_64F;
  return how.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

std::uint32_t alignment(const Tensor& tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data());
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(256, address & (~address + 1)));
}

template <class T>
void set(const Cublas<cublasLtMatmulDesc_t>& how, cublasLtMatmulDescAttributes_t name, const T& value) {
  check(cublasLtMatmulDescSetAttribute(how.get(), name, &value, sizeof value));
}
template <class T>
void set(const Cublas<cublasLtMatmulPreference_t>& wish, cublasLtMatmulPreferenceAttributes_t name, const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(wish.get(), name, &value, sizeof value));
}

Cublas<cublasLtMatrixLayout_t> layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                   rows));
  return Cublas<cublasLtMatrixLayout_t>(made);
}

Cublas<cublasLtMatmulDesc_t> describe(const GemmShape& s, const void* bias) {
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, s.compute, s.compute == CUBLAS_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F));
  Cublas<cublasLtMatmulDesc_t> how(made);
  set(how, CUBLASLT_MATMUL_DESC_TRANSA, s.b_turned ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(how, CUBLASLT_MATMUL_DESC_TRANSB, s.a_turned ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(how, CUBLASLT_MATMUL_DESC_EPILOGUE, s.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
  if (s.bias) set(how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);  // the choice looks at its alignment
  return how;
}

Cublas<cublasLtMatmulPreference_t> wishes(const GemmShape& s) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made));
  Cublas<cublasLtMatmulPreference_t> wish(made);
  set(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kProductWorkspace));
  set(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s.b_aligned);
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.a_aligned);
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s.out_aligned);
  set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.out_aligned);
  return wish;
}

GemmPlan find_plan(cublasLtHandle_t handle, const GemmShape& s, const void* bias) {
  GemmPlan plan;
  plan.how = describe(s, bias);
  plan.a = layout(s.in, s.a_turned ? s.m : s.k, s.a_turned ? s.k : s.m);
  plan.b = layout(s.in, s.b_turned ? s.k : s.n, s.b_turned ? s.n : s.k);
  plan.out = layout(s.out, s.n, s.m);
  const auto wish = wishes(s);
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, plan.how.get(), plan.b.get(), plan.a.get(), plan.out.get(), plan.out.get(), wish.get(), 1, &best, &found);
  require(status != CUBLAS_STATUS_NOT_SUPPORTED && !(status == CUBLAS_STATUS_SUCCESS && found == 0),
          "cuBLASLt has no way to compute a product of {} x {} x {} in these types (a{}, b{})", s.m, s.n, s.k,
          s.a_turned ? " transposed" : "", s.b_turned ? " transposed" : "");
  check(status);
  plan.algorithm = best.algo;
  plan.workspace = static_cast<std::int64_t>(best.workspaceSize);
  return plan;
}

}  // namespace

void gemm(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias, const Matmul& how,
          const MatmulExtents& e) {
  if (e.m == 0 || e.n == 0) return;
  const cudaStream_t on = cuda_stream(stream);
  if (e.k == 0) {  // a sum of nothing, which the library refuses
    if (bias) return bias_rows(on, out, bias, how.write);
    if (how.write == Write::replace) stream.zero(out);
    return;
  }
  // The library takes a bias along only where it has the output's type, and not in f64.
  const bool takes_bias = bias && out.dtype() == bias.dtype() && out.dtype() != DType::f64;
  GemmShape shape{e.m, e.n, e.k, number_type(a.dtype()), number_type(out.dtype()), compute_type(a.dtype(), how)};
  shape.a_turned = how.a == Transpose::yes, shape.b_turned = how.b == Transpose::yes;
  shape.bias = takes_bias;
  shape.a_aligned = alignment(a), shape.b_aligned = alignment(b), shape.out_aligned = alignment(out);

  CudaLibraries& libraries = cuda_libraries(stream.device());
  const cublasLtHandle_t handle = libraries.cublas();
  auto known = libraries.gemms.find(shape);
  if (known == libraries.gemms.end())
    known = libraries.gemms.emplace(shape, find_plan(handle, shape, bias.data())).first;
  const GemmPlan& plan = known->second;
  void* const workspace = libraries.product_workspace(plan.workspace, on);
  if (takes_bias) set(plan.how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.data()));
  const double one64 = 1, beta64 = how.write == Write::accumulate ? 1 : 0;
  const float one32 = 1, beta32 = static_cast<float>(beta64);
  const bool wide = shape.compute == CUBLAS_COMPUTE_64F;
  check(cublasLtMatmul(handle, plan.how.get(), wide ? static_cast<const void*>(&one64) : &one32, b.data(), plan.b.get(),
                       a.data(), plan.a.get(), wide ? static_cast<const void*>(&beta64) : &beta32, out.data(),
                       plan.out.get(), out.data(), plan.out.get(), &plan.algorithm, workspace,
                       static_cast<std::size_t>(plan.workspace), on));
  if (bias && !takes_bias) bias_rows(on, out, bias, Write::accumulate);
}

}  // namespace quadrille
