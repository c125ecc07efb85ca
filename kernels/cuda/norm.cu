// SPDX-License-Identifier: Apache-2.0
// Layer norm (Ba, Kiros, Hinton 2016) and RMS norm (Zhang, Sennrich 2019), in halves around the row sums.
// x̂ = (x - mean) / deviation; deviation² = E[x²] - mean² + epsilon; an rms norm has mean 0. A warp has a row, its lanes
// 16 bytes each; sums are in f64. All are bound by memory: E features of s bytes a row move at least
//   norm_sums s, norm 2s, norm_backward_sums 2s, norm_backward 3s (4s when it adds), norm_backward_parameters 2s
// bytes a feature, beside 16 bytes of sums a row; gain and bias come from the cache.
#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/ops.h"

namespace quadrille {

namespace {

constexpr int kRowsAtOnce = 8;

// A row's mean and the inverse of its deviation.
template <class R>
struct RowFacts {
  R mean = 0, inverse_deviation = 0;
  __device__ __forceinline__ R normalised(R x) const { return (x - mean) * inverse_deviation; }
};

// The two terms of the variance may cancel: they are f64 whatever the type. A product that is rounded by itself, as the
// reference has it, not fused with the difference.
template <class R>
__device__ __forceinline__ RowFacts<R> facts_of(const double* sums, std::int64_t row, const Norm& how) {
  const auto width = static_cast<double>(how.width);
  const double mean = how.kind == NormKind::layer ? sums[2 * row] / width : 0;
  const double variance = fmax(0.0, sums[2 * row + 1] / width - __dmul_rn(mean, mean));  // rounding may take it below 0
  if constexpr (std::is_same_v<R, double>)
    return {mean, 1 / sqrt(variance + how.epsilon)};
  else
    return {static_cast<float>(mean), 1 / sqrtf(static_cast<float>(variance + how.epsilon))};
}

// Calls each(column) for the packs of N columns of the calling lane.
template <int N, class F>
__device__ __forceinline__ void over_row(std::int64_t columns, F&& each) {
  for (std::int64_t column = std::int64_t{threadIdx.x} * N; column < columns; column += kWarp * N) each(column);
}
// Calls each(row) for the rows of the calling warp.
template <class F>
__device__ __forceinline__ void over_rows(std::int64_t rows, F&& each) {
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRowsAtOnce + threadIdx.y; row < rows;
       row += std::int64_t{gridDim.x} * kRowsAtOnce)
    each(row);
}
__device__ __forceinline__ void put_sums(double* sums, std::int64_t row, double first, double second) {
  first = warp_sum(first), second = warp_sum(second);
  if (threadIdx.x == 0) sums[2 * row] = first, sums[2 * row + 1] = second;
}

template <class T, int N>
__global__ void __launch_bounds__(kWarp* kRowsAtOnce)
    norm_sums_kernel(std::int64_t rows, std::int64_t columns, double* sums, const T* x) {
  over_rows(rows, [&](std::int64_t row) {
    double sum = 0, squares = 0;
    over_row<N>(columns, [&](std::int64_t column) {
      const auto v = load_pack<N>(x + row * columns + column);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const auto one = static_cast<double>(v.at[k]);
        sum += one;
        squares += one * one;
      }
    });
    put_sums(sums, row, sum, squares);
  });
}

template <class T, int N>
__global__ void __launch_bounds__(kWarp* kRowsAtOnce)
    norm_kernel(std::int64_t rows, std::int64_t columns, T* out, const T* x, const double* sums, const T* gain,
                const T* bias, Norm how) {
  over_rows(rows, [&](std::int64_t row) {
    const auto facts = facts_of<Real<T>>(sums, row, how);
    over_row<N>(columns, [&](std::int64_t column) {
      auto v = load_pack<N>(x + row * columns + column);
      const auto g = load_pack<N>(gain + column);
#pragma unroll
      for (int k = 0; k < N; ++k) v.at[k] = facts.normalised(v.at[k]) * g.at[k];
      if (bias) {
        const auto added = load_pack<N>(bias + column);
#pragma unroll
        for (int k = 0; k < N; ++k) v.at[k] += added.at[k];
      }
      store_pack(out + row * columns + column, v);
    });
  });
}

// The terms of a pack are added in the type's own arithmetic, packs in f64.
template <class T, int N>
__global__ void __launch_bounds__(kWarp* kRowsAtOnce)
    norm_backward_sums_kernel(std::int64_t rows, std::int64_t columns, double* sums, const T* dy, const T* x,
                              const double* forward_sums, const T* gain, Norm how) {
  over_rows(rows, [&](std::int64_t row) {
    const auto facts = facts_of<Real<T>>(forward_sums, row, how);
    double sum = 0, with_x = 0;
    over_row<N>(columns, [&](std::int64_t column) {
      const auto d = load_pack<N>(dy + row * columns + column), v = load_pack<N>(x + row * columns + column);
      const auto scale = load_pack<N>(gain + column);
      Real<T> of_pack = 0, of_pack_with_x = 0;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const Real<T> g = d.at[k] * scale.at[k];
        of_pack += g;
        of_pack_with_x += g * facts.normalised(v.at[k]);
      }
      sum += static_cast<double>(of_pack);
      with_x += static_cast<double>(of_pack_with_x);
    });
    put_sums(sums, row, sum, with_x);
  });
}

// dx = (g - mean(g) - x̂ mean(g x̂)) / deviation, without mean(g) for an rms norm. f32 is computed in f64: in narrow rows
// the three terms nearly cancel. Memory hides it.
template <class T, int N>
__global__ void __launch_bounds__(kWarp* kRowsAtOnce)
    norm_backward_kernel(std::int64_t rows, std::int64_t columns, T* dx, const T* dy, const T* x,
                         const double* forward_sums, const double* backward_sums, const T* gain, Norm how,
                         bool accumulate) {
  using R = std::conditional_t<std::is_same_v<T, float>, double, Real<T>>;
  const auto width = static_cast<double>(how.width);
  over_rows(rows, [&](std::int64_t row) {
    const auto facts = facts_of<R>(forward_sums, row, how);
    const auto mean_g = static_cast<R>(how.kind == NormKind::layer ? backward_sums[2 * row] / width : 0);
    const auto mean_gx = static_cast<R>(backward_sums[2 * row + 1] / width);
    over_row<N>(columns, [&](std::int64_t column) {
      const std::int64_t at = row * columns + column;
      const auto d = load_pack<N>(dy + at), v = load_pack<N>(x + at), scale = load_pack<N>(gain + column);
      Pack<R, N> result;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const R g = R(d.at[k]) * R(scale.at[k]);
        result.at[k] = (g - mean_g - facts.normalised(v.at[k]) * mean_gx) * facts.inverse_deviation;
      }
      if (accumulate) {
        const auto before = load_pack<N>(dx + at);
#pragma unroll
        for (int k = 0; k < N; ++k) result.at[k] += before.at[k];
      }
      store_pack(dx + at, result);
    });
  });
}

// Writes one column's sum, if that is wanted: a call of whole warps.
template <class Block, class W>
__device__ __forceinline__ void add_total(W* to, const typename Block::Sums& sums, std::int64_t columns) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (to == nullptr || warp >= Block::kColumns || Block::first() + warp >= columns) return;
  const double total = Block::total(sums, warp);
  if (threadIdx.x % kWarp == 0) to[Block::first() + warp] = narrow<W>(widen(to[Block::first() + warp]) + total);
}

template <class T, class G, class B, int N>
__global__ void __launch_bounds__(kColumnThreads)
    norm_backward_parameters_kernel(std::int64_t rows, std::int64_t columns, G* dgain, B* dbias, const T* dy,
                                    const T* x, const double* forward_sums, Norm how) {
  using Block = ColumnBlock<T, N>;
  __shared__ typename Block::Sums gain_sums, bias_sums;
  const std::int64_t column = Block::first() + Block::column();
  Pack<Real<T>, N> of_gain{}, of_bias{};
  if (column < columns)
    for (std::int64_t row = Block::row(); row < rows; row += Block::kRows) {
      const auto facts = facts_of<Real<T>>(forward_sums, row, how);
      const auto d = load_pack<N>(dy + row * columns + column), v = load_pack<N>(x + row * columns + column);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        of_gain.at[k] += d.at[k] * facts.normalised(v.at[k]);
        of_bias.at[k] += d.at[k];
      }
    }
  Block::put(gain_sums, of_gain);
  Block::put(bias_sums, of_bias);
  __syncthreads();
  add_total<Block>(dgain, gain_sums, columns);
  add_total<Block>(dbias, bias_sums, columns);
}

// Starts one of two forms of a row kernel: packs where the columns and all operands allow them, else single numbers.
template <class T, class... P, class... A>
void start_rows(Stream& stream, const Extents& e, bool aligned, void (*packs)(P...), void (*singles)(P...),
                A... operands) {
  launch(cuda_stream(stream), {blocks_for(e.rows, kRowsAtOnce), {kWarp, kRowsAtOnce}},
         aligned && e.columns % kPackOf<T> == 0 ? packs : singles, e.rows, e.columns, operands...);
}

}  // namespace

Cost CudaOps::norm_sums(Stream& stream, const Tensor& sums, const Tensor& x) const {
  const Extents e = check_norm_sums(stream, sums, x);
  with_number_type(x, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    start_rows<T>(stream, e, pack_aligned<N>(x.as<T>()), norm_sums_kernel<T, N>, norm_sums_kernel<T, 1>,
                  sums.as<double>(), x.as<T>());
  });
  return bill_norm_sums(sums, x);
}

Cost CudaOps::norm(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
                   const Tensor& bias, const Norm& how) const {
  const Extents e = check_norm(stream, out, x, sums, gain, bias, how);
  with_number_type(x, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    start_rows<T>(stream, e, pack_aligned<N>(out.as<T>(), x.as<T>(), gain.as<T>(), address<T>(bias)), norm_kernel<T, N>,
                  norm_kernel<T, 1>, out.as<T>(), x.as<T>(), sums.as<double>(), gain.as<T>(), address<T>(bias), how);
  });
  return bill_norm(out, x, sums, gain, bias);
}

Cost CudaOps::norm_backward_sums(Stream& stream, const Tensor& sums, const Tensor& dy, const Tensor& x,
                                 const Tensor& forward_sums, const Tensor& gain, const Norm& how) const {
  const Extents e = check_norm_backward_sums(stream, sums, dy, x, forward_sums, gain, how);
  with_number_type(x, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    start_rows<T>(stream, e, pack_aligned<N>(dy.as<T>(), x.as<T>(), gain.as<T>()), norm_backward_sums_kernel<T, N>,
                  norm_backward_sums_kernel<T, 1>, sums.as<double>(), dy.as<T>(), x.as<T>(), forward_sums.as<double>(),
                  gain.as<T>(), how);
  });
  return bill_norm_backward_sums(sums, dy, x, forward_sums, gain);
}

Cost CudaOps::norm_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                            const Tensor& forward_sums, const Tensor& backward_sums, const Tensor& gain,
                            const Norm& how, Write write) const {
  const Extents e = check_norm_backward(stream, dx, dy, x, forward_sums, backward_sums, gain, how);
  with_number_type(x, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    start_rows<T>(stream, e, pack_aligned<N>(dx.as<T>(), dy.as<T>(), x.as<T>(), gain.as<T>()),
                  norm_backward_kernel<T, N>, norm_backward_kernel<T, 1>, dx.as<T>(), dy.as<T>(), x.as<T>(),
                  forward_sums.as<double>(), backward_sums.as<double>(), gain.as<T>(), how, write == Write::accumulate);
  });
  return bill_norm_backward(dx, dy, x, forward_sums, backward_sums, gain, write);
}

Cost CudaOps::norm_backward_parameters(Stream& stream, const Tensor& dgain, const Tensor& dbias, const Tensor& dy,
                                       const Tensor& x, const Tensor& forward_sums, const Norm& how) const {
  const Extents e = check_norm_backward_parameters(stream, dgain, dbias, dy, x, forward_sums, how);
  // An absent one takes the other's type.
  const Tensor &gain = dgain ? dgain : dbias, &bias = dbias ? dbias : dgain;
  if (!gain || e.rows == 0) return bill_norm_backward_parameters(dgain, dbias, dy, x, forward_sums);
  with_number_types(x, gain, [&]<class T, class G>(T, G) {
    with_number_types(x, bias, [&]<class Same, class B>(Same, B) {
      constexpr int N = kPackOf<T>;
      const bool packs = e.columns % N == 0 && pack_aligned<N>(dy.as<T>(), x.as<T>());
      launch(cuda_stream(stream), {blocks_for(e.columns, kBlockColumns<T>, kMostBlocks), kColumnThreads},
             packs ? norm_backward_parameters_kernel<T, G, B, N> : norm_backward_parameters_kernel<T, G, B, 1>, e.rows,
             e.columns, address<G>(dgain), address<B>(dbias), dy.as<T>(), x.as<T>(), forward_sums.as<double>(), how);
    });
  });
  return bill_norm_backward_parameters(dgain, dbias, dy, x, forward_sums);
}

}  // namespace quadrille
