// SPDX-License-Identifier: Apache-2.0
// cuBLASLt for the stand-in: reads the descriptions that gemm.cpp makes as the library's documentation defines them
// (columns first; D = α op(A) op(B) + β C, bias along the rows) and computes with plain loops on the late stream. What
// the library refuses is refused here: empty extents, extents that do not fit, a bias beside f64 or another output
// type, addresses less aligned than was promised.
#include <cublasLt.h>

#include <vector>

#include "core/bf16.h"
#include "tests/cuda/standin/standin.h"

struct cublasLtContext {};
struct cublasLtMatmulDescStandin {
  cublasComputeType_t compute;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct cublasLtMatrixLayoutStandin {
  cudaDataType_t type;
  std::int64_t rows, columns, leading;
};
struct cublasLtMatmulPreferenceStandin {
  cublasLtMatmulAlgo_t algorithm{{256, 256, 256, 256}};
  std::uint32_t reductions = 7;
};

namespace {

using Layout = cublasLtMatrixLayoutStandin;
constexpr std::size_t kWorkspace = 1000;  // what every product here claims to need

double load(const void* data, cudaDataType_t type, std::int64_t at) {
  if (type == CUDA_R_64F) return static_cast<const double*>(data)[at];
  if (type == CUDA_R_32F) return static_cast<double>(static_cast<const float*>(data)[at]);
  return static_cast<double>(static_cast<float>(static_cast<const quadrille::bf16*>(data)[at]));
}
void store(void* data, cudaDataType_t type, std::int64_t at, double value) {
  if (type == CUDA_R_64F)
    static_cast<double*>(data)[at] = value;
  else if (type == CUDA_R_32F)
    static_cast<float*>(data)[at] = static_cast<float>(value);
  else
    static_cast<quadrille::bf16*>(data)[at] = quadrille::bf16(static_cast<float>(value));
}

struct Extents {
  std::int64_t m, n, k;
};
bool fits(const cublasLtMatmulDescStandin& how, const Layout& a, const Layout& b, const Layout& c, const Layout& d,
          Extents& e) {
  const bool ta = how.a == CUBLAS_OP_T, tb = how.b == CUBLAS_OP_T;
  e = {ta ? a.columns : a.rows, tb ? b.rows : b.columns, ta ? a.rows : a.columns};
  const std::int64_t k_of_b = tb ? b.columns : b.rows;
  for (const Layout* l : {&a, &b, &c, &d})
    if (l->rows <= 0 || l->columns <= 0 || l->leading < l->rows) return false;
  return e.k == k_of_b && d.rows == e.m && d.columns == e.n && c.rows == e.m && c.columns == e.n && a.type == b.type;
}

template <class T>
T value_of(const void* value) {
  return *static_cast<const T*>(value);
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success"
                                         : (status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "invalid value");
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute, cudaDataType_t scale) {
  if ((compute == CUBLAS_COMPUTE_64F) != (scale == CUDA_R_64F)) return CUBLAS_STATUS_INVALID_VALUE;
  *made = new cublasLtMatmulDescStandin{compute};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t how) {
  delete how;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t how, cublasLtMatmulDescAttributes_t name,
                                              const void* value, std::size_t bytes) {
  const std::size_t wanted = name == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? sizeof(void*) : 4;
  if (bytes != wanted) return CUBLAS_STATUS_INVALID_VALUE;
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      how->a = value_of<cublasOperation_t>(value);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      how->b = value_of<cublasOperation_t>(value);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      how->epilogue = value_of<cublasLtEpilogue_t>(value);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      how->bias = value_of<const void*>(value);
      break;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  *made = new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = new cublasLtMatmulPreferenceStandin;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish) {
  delete wish;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wish,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void* value,
                                                    std::size_t bytes) {
  if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return bytes == 8 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  if (bytes != 4) return CUBLAS_STATUS_INVALID_VALUE;
  if (name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    wish->reductions = value_of<std::uint32_t>(value);
  else
    wish->algorithm.aligned[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] = value_of<std::uint32_t>(value);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t wish, int,
                                              cublasLtMatmulHeuristicResult_t* result, int* found) {
  Extents e{};
  *found = 0;
  if (!fits(*how, *a, *b, *c, *d, e)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool bias = how->epilogue == CUBLASLT_EPILOGUE_BIAS;
  if (bias && (a->type == CUDA_R_64F || a->type != d->type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if ((a->type == CUDA_R_64F) != (how->compute == CUBLAS_COMPUTE_64F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (wish->reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->algo = wish->algorithm;
  result->workspaceSize = kWorkspace;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t how, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t at, const void* b, cublasLtMatrixLayout_t bt, const void* beta,
                              const void* c, cublasLtMatrixLayout_t ct, void* d, cublasLtMatrixLayout_t dt,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t bytes,
                              cudaStream_t stream) {
  Extents e{};
  if (!fits(*how, *at, *bt, *ct, *dt, e) || workspace == nullptr || bytes < kWorkspace)
    return CUBLAS_STATUS_INVALID_VALUE;
  const void* addresses[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (reinterpret_cast<std::uintptr_t>(addresses[i]) % algorithm->aligned[i] != 0) return CUBLAS_STATUS_INVALID_VALUE;
  const bool wide = how->compute == CUBLAS_COMPUTE_64F;
  const double al = wide ? value_of<double>(alpha) : static_cast<double>(value_of<float>(alpha));
  const double be = wide ? value_of<double>(beta) : static_cast<double>(value_of<float>(beta));
  const auto work = [=, how = *how, at = *at, bt = *bt, ct = *ct, dt = *dt] {
    for (std::int64_t j = 0; j < e.n; ++j)
      for (std::int64_t i = 0; i < e.m; ++i) {
        double sum = 0;
        for (std::int64_t l = 0; l < e.k; ++l)
          sum += load(a, at.type, how.a == CUBLAS_OP_T ? l + i * at.leading : i + l * at.leading) *
                 load(b, bt.type, how.b == CUBLAS_OP_T ? j + l * bt.leading : l + j * bt.leading);
        sum *= al;
        if (be != 0) sum += be * load(c, ct.type, i + j * ct.leading);
        if (how.epilogue == CUBLASLT_EPILOGUE_BIAS) sum += load(how.bias, dt.type, i);
        store(d, dt.type, i + j * dt.leading, sum);
      }
  };
  return standin::enqueue(stream, "cublasLtMatmul", work) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                         : CUBLAS_STATUS_INVALID_VALUE;
}
