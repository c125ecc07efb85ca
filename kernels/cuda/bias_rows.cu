// SPDX-License-Identifier: Apache-2.0
// Bound by bandwidth: out is written once and read once where added to. Rare and small, so one number a thread.
#include <cuda_bf16.h>

#include "core/bf16.h"
#include "core/cuda/launch.h"
#include "kernels/cuda/bias_rows.h"

namespace quadrille {

namespace {

template <class T>
__device__ T number(T value) {
  return value;
}
__device__ float number(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class To, class Wide>
__device__ To stored(Wide value) {
  return static_cast<To>(value);
}
template <>
__device__ __nv_bfloat16 stored<__nv_bfloat16, float>(float value) {
  return __float2bfloat16(value);
}

template <class Out, class Bias>
__global__ void bias_rows_kernel(Out* out, const Bias* bias, std::int64_t count, std::int64_t columns, bool add) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const auto value = number(bias[i % columns]);
    out[i] = add ? stored<Out>(number(out[i]) + value) : stored<Out>(value);
  }
}

template <class Out, class Bias>
void start(cudaStream_t stream, const Tensor& out, const Tensor& bias, Write write) {
  constexpr std::int64_t kThreads = 256, kBlocks = 4096;
  const std::int64_t blocks = (out.count() + kThreads - 1) / kThreads;
  launch(stream, {dim3(static_cast<unsigned>(blocks < kBlocks ? blocks : kBlocks)), dim3(kThreads)},
         bias_rows_kernel<Out, Bias>, static_cast<Out*>(out.data()), static_cast<const Bias*>(bias.data()), out.count(),
         bias.count(), write == Write::accumulate);
}

}  // namespace

void bias_rows(cudaStream_t stream, const Tensor& out, const Tensor& bias, Write write) {
  const DType to = out.dtype(), from = bias.dtype();
  if (from == DType::f32) return start<float, float>(stream, out, bias, write);
  if (from == DType::f64) return start<double, double>(stream, out, bias, write);
  if (to == DType::f32) return start<float, __nv_bfloat16>(stream, out, bias, write);
  start<__nv_bfloat16, __nv_bfloat16>(stream, out, bias, write);  // check_matmul lets nothing else through
}

}  // namespace quadrille
