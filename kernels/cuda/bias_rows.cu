// SPDX-License-Identifier: Apache-2.0
// Bound by bandwidth: out is written once and read once where added to. Rare and small, so one number a thread.
#include "kernels/cuda/bias_rows.h"

#include "kernels/cuda/device_code.cuh"

namespace quadrille {

namespace {

template <class Out, class Bias>
__global__ void bias_rows_kernel(Out* out, const Bias* bias, std::int64_t count, std::int64_t columns, bool add) {
  for (std::int64_t i = thread_of_grid(); i < count; i += threads_of_grid()) {
    const auto value = widen(bias[i % columns]);
    out[i] = narrow<Out>(add ? widen(out[i]) + value : value);
  }
}

template <class Out, class Bias>
void start(cudaStream_t stream, const Tensor& out, const Tensor& bias, Write write) {
  constexpr unsigned kThreads = 256;
  launch(stream, {blocks_for(out.count(), kThreads, 4096), kThreads}, bias_rows_kernel<Out, Bias>, out.as<Out>(),
         bias.as<Bias>(), out.count(), bias.count(), write == Write::accumulate);
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
