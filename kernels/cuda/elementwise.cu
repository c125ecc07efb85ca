// SPDX-License-Identifier: Apache-2.0
// Element-wise ops: a body of a few numbers each, over one kernel that reads and writes 16 bytes at a time. All are
// bound by memory: the floor of each is the bytes of its bill, and no number is touched twice.
#include "core/random.h"
#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/dropped.cuh"
#include "kernels/cuda/ops.h"

namespace quadrille {

namespace {

constexpr int kThreads = 256;

// Φ, the distribution function of the standard normal, and φ, its density. In f64 exact also far to the left.
__device__ __forceinline__ float normal_distribution(float x) { return 0.5f + 0.5f * erff(x * 0.70710678f); }
__device__ __forceinline__ double normal_distribution(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
template <class R>
__device__ __forceinline__ R normal_density(R x) {
  return exponential(R(-0.5) * x * x) * R(0.39894228040143267794);
}
template <class R>
__device__ __forceinline__ R sigmoid(R x) {
  return R(1) / (R(1) + exponential(-x));
}

struct Convert {
  template <class R>
  __device__ R operator()(R x) const {
    return x;
  }
};
struct Add {
  template <class A, class B>
  __device__ A operator()(A a, B b) const {
    return a + b;
  }
};
struct Gelu {
  template <class R>
  __device__ R operator()(R x) const {
    return x * normal_distribution(x);
  }
};
struct GeluBackward {
  template <class R>
  __device__ R operator()(R dy, R x) const {
    return dy * (normal_distribution(x) + x * normal_density(x));
  }
};
struct Relu {
  template <class R>
  __device__ R operator()(R x) const {
    return x < R(0) ? R(0) : x;
  }
};
struct ReluBackward {
  template <class R>
  __device__ R operator()(R dy, R out) const {
    return out > R(0) ? dy : R(0);
  }
};
__device__ __forceinline__ float hyperbolic_tangent(float x) { return tanhf(x); }
__device__ __forceinline__ double hyperbolic_tangent(double x) { return tanh(x); }
struct Tanh {
  template <class R>
  __device__ R operator()(R x) const {
    return hyperbolic_tangent(x);
  }
};
struct TanhBackward {
  template <class R>
  __device__ R operator()(R dy, R y) const {
    return dy * (R(1) - y) * (R(1) + y);
  }
};
struct GatedSilu {
  template <class R>
  __device__ R operator()(R gate, R up) const {
    return gate * sigmoid(gate) * up;
  }
};

// out[i] = body(in[i]...). `packed`: how many of the numbers lie in whole packs that may be read at once.
template <class Body, class Out, class... In>
__global__ void __launch_bounds__(kThreads)
    each_number(Body body, std::int64_t count, std::int64_t packed, Out* out, const In*... in) {
  constexpr int N = kPackOf<Out, In...>;
  for (std::int64_t i = thread_of_grid() * N; i < packed; i += threads_of_grid() * N) {
    Pack<Real<Out>, N> result;
    const auto all = [&](const auto&... packs) {
#pragma unroll
      for (int k = 0; k < N; ++k) result.at[k] = body(packs.at[k]...);
    };
    all(load_pack<N>(in + i)...);
    store_pack(out + i, result);
  }
  for (std::int64_t i = packed + thread_of_grid(); i < count; i += threads_of_grid())
    out[i] = narrow<Out>(body(widen(in[i])...));
}

template <class Body, class Out, class... In>
void over_numbers(Stream& stream, Body body, std::int64_t count, Out* out, const In*... in) {
  constexpr int N = kPackOf<Out, In...>;
  const std::int64_t packed = pack_aligned<N>(out, in...) ? count / N * N : 0;
  launch(cuda_stream(stream), {blocks_for(count, kThreads * N), kThreads}, each_number<Body, Out, In...>, body, count,
         packed, out, in...);
}

// All inputs are read before the first write: outputs may be inputs.
template <class R>
__device__ __forceinline__ void gated_gradients(R& dgate, R& dup, R dy, R gate, R up) {
  const R s = sigmoid(gate);
  dgate = dy * up * s * (R(1) + gate * (R(1) - s));
  dup = dy * gate * s;
}
// Reads 3 and writes 2 numbers an element.
template <class T>
__global__ void __launch_bounds__(kThreads)
    gated_silu_backward_kernel(std::int64_t count, std::int64_t packed, T* dgate, T* dup, const T* dy, const T* gate,
                               const T* up) {
  constexpr int N = kPackOf<T>;
  for (std::int64_t i = thread_of_grid() * N; i < packed; i += threads_of_grid() * N) {
    const auto d = load_pack<N>(dy + i), g = load_pack<N>(gate + i), u = load_pack<N>(up + i);
    Pack<Real<T>, N> of_gate, of_up;
#pragma unroll
    for (int k = 0; k < N; ++k) gated_gradients(of_gate.at[k], of_up.at[k], d.at[k], g.at[k], u.at[k]);
    store_pack(dgate + i, of_gate);
    store_pack(dup + i, of_up);
  }
  for (std::int64_t i = packed + thread_of_grid(); i < count; i += threads_of_grid()) {
    Real<T> of_gate, of_up;
    gated_gradients(of_gate, of_up, widen(dy[i]), widen(gate[i]), widen(up[i]));
    dgate[i] = narrow<T>(of_gate);
    dup[i] = narrow<T>(of_up);
  }
}

// A warp has one row of 32 packs at a time, so that the bias of its columns is read once for all the block's rows.
// Reads and writes each element once; the bias comes from the cache.
constexpr int kRowsAtOnce = 8;
template <class T, int N>
__global__ void __launch_bounds__(kWarp* kRowsAtOnce)
    add_bias_kernel(std::int64_t rows, std::int64_t columns, T* out, const T* x, const T* bias) {
  const std::int64_t column = thread_of_grid() * N;
  if (column >= columns) return;
  const auto added = load_pack<N>(bias + column);
  for (std::int64_t row = std::int64_t{blockIdx.y} * kRowsAtOnce + threadIdx.y; row < rows;
       row += std::int64_t{gridDim.y} * kRowsAtOnce) {
    auto v = load_pack<N>(x + row * columns + column);
#pragma unroll
    for (int k = 0; k < N; ++k) v.at[k] += added.at[k];
    store_pack(out + row * columns + column, v);
  }
}

// Reads each element once.
template <class T, class W, int N>
__global__ void __launch_bounds__(kColumnThreads)
    sum_rows_kernel(std::int64_t rows, std::int64_t columns, W* out, const T* x, bool accumulate) {
  using Block = ColumnBlock<T, N>;
  __shared__ typename Block::Sums sums;
  const std::int64_t column = Block::first() + Block::column();
  Pack<Real<T>, N> sum{};
  if (column < columns)
    for (std::int64_t row = Block::row(); row < rows; row += Block::kRows) {
      const auto v = load_pack<N>(x + row * columns + column);
#pragma unroll
      for (int k = 0; k < N; ++k) sum.at[k] += v.at[k];
    }
  Block::put(sums, sum);
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (warp >= Block::kColumns || Block::first() + warp >= columns) return;
  const double total = Block::total(sums, warp);
  if (threadIdx.x % kWarp != 0) return;
  W& to = out[Block::first() + warp];
  to = narrow<W>(accumulate ? static_cast<double>(widen(to)) + total : total);
}

// A warp has one token of one row of the batch: its features lie together, and so do their addresses.
template <class T>
__global__ void __launch_bounds__(kWarp* kRowsAtOnce)
    dropout_kernel(std::int64_t rows, std::int64_t tokens, std::int64_t features, bool packs, T* out, const T* x,
                   Dropout how, Dropped dropped) {
  constexpr int N = kPackOf<T>;
  const auto keep = static_cast<Real<T>>(1 / (1 - how.probability));
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRowsAtOnce + threadIdx.y; row < rows * tokens;
       row += std::int64_t{gridDim.x} * kRowsAtOnce) {
    const std::int64_t position = position_of(how.first_token, how.jump, row % tokens);
    const std::int64_t whole =
        ((how.first_row + row / tokens) * how.tokens + position) * how.features + how.first_feature;
    const std::int64_t packed = packs ? features / N * N : 0, here = row * features;
    for (std::int64_t f = std::int64_t{threadIdx.x} * N; f < packed; f += kWarp * N) {
      auto v = load_pack<N>(x + here + f);
#pragma unroll
      for (int k = 0; k < N; ++k) v.at[k] = dropped(whole + f + k) ? Real<T>(0) : v.at[k] * keep;
      store_pack(out + here + f, v);
    }
    for (std::int64_t f = packed + threadIdx.x; f < features; f += kWarp)
      out[here + f] = narrow<T>(dropped(whole + f) ? Real<T>(0) : widen(x[here + f]) * keep);
  }
}

}  // namespace

Cost CudaOps::convert(Stream& stream, const Tensor& out, const Tensor& in) const {
  check_convert(stream, out, in);
  with_number_type(out, [&]<class To>(To) {
    with_number_type(in, [&]<class From>(From) {
      over_numbers(stream, Convert(), in.count(), out.as<To>(), static_cast<const From*>(in.as<From>()));
    });
  });
  return bill_convert(out, in);
}

Cost CudaOps::add(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) const {
  check_add(stream, out, a, b);
  with_number_types(b, out, [&]<class T, class W>(T, W) {
    over_numbers(stream, Add(), out.count(), out.as<W>(), static_cast<const W*>(a.as<W>()),
                 static_cast<const T*>(b.as<T>()));
  });
  return bill_add(out, a, b);
}

Cost CudaOps::add_bias(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& bias) const {
  const Extents e = check_add_bias(stream, out, x, bias);
  with_number_type(out, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    const auto start = [&](auto* kernel, std::int64_t pack) {
      const unsigned down = blocks_for(e.rows, kRowsAtOnce, kMostAcross);
      launch(cuda_stream(stream), {{blocks_for(e.columns, kWarp * pack, kMostBlocks), down}, {kWarp, kRowsAtOnce}},
             kernel, e.rows, e.columns, out.as<T>(), x.as<T>(), bias.as<T>());
    };
    if (e.columns % N == 0 && pack_aligned<N>(out.as<T>(), x.as<T>(), bias.as<T>()))
      start(add_bias_kernel<T, N>, N);
    else
      start(add_bias_kernel<T, 1>, 1);
  });
  return bill_add_bias(out, x, bias);
}

Cost CudaOps::sum_rows(Stream& stream, const Tensor& out, const Tensor& x, Write write) const {
  const Extents e = check_sum_rows(stream, out, x);
  with_number_types(x, out, [&]<class T, class W>(T, W) {
    constexpr int N = kPackOf<T>;
    const bool packs = e.columns % N == 0 && pack_aligned<N>(x.as<T>());
    launch(cuda_stream(stream), {blocks_for(e.columns, kBlockColumns<T>, kMostBlocks), kColumnThreads},
           packs ? sum_rows_kernel<T, W, N> : sum_rows_kernel<T, W, 1>, e.rows, e.columns, out.as<W>(), x.as<T>(),
           write == Write::accumulate);
  });
  return bill_sum_rows(out, x, write);
}

Cost CudaOps::gelu(Stream& stream, const Tensor& out, const Tensor& x) const {
  check_gelu(stream, out, x);
  with_number_type(out, [&]<class T>(T) {
    over_numbers(stream, Gelu(), out.count(), out.as<T>(), static_cast<const T*>(x.as<T>()));
  });
  return bill_gelu(out, x);
}

Cost CudaOps::gelu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x) const {
  check_gelu_backward(stream, dx, dy, x);
  with_number_type(dx, [&]<class T>(T) {
    over_numbers(stream, GeluBackward(), dx.count(), dx.as<T>(), static_cast<const T*>(dy.as<T>()),
                 static_cast<const T*>(x.as<T>()));
  });
  return bill_gelu_backward(dx, dy, x);
}

Cost CudaOps::relu(Stream& stream, const Tensor& out, const Tensor& x) const {
  check_relu(stream, out, x);
  with_number_type(out, [&]<class T>(T) {
    over_numbers(stream, Relu(), out.count(), out.as<T>(), static_cast<const T*>(x.as<T>()));
  });
  return bill_relu(out, x);
}

Cost CudaOps::relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& out) const {
  check_relu_backward(stream, dx, dy, out);
  with_number_type(dx, [&]<class T>(T) {
    over_numbers(stream, ReluBackward(), dx.count(), dx.as<T>(), static_cast<const T*>(dy.as<T>()),
                 static_cast<const T*>(out.as<T>()));
  });
  return bill_relu_backward(dx, dy, out);
}

Cost CudaOps::tanh(Stream& stream, const Tensor& out, const Tensor& x) const {
  check_tanh(stream, out, x);
  with_number_type(out, [&]<class T>(T) {
    over_numbers(stream, Tanh(), out.count(), out.as<T>(), static_cast<const T*>(x.as<T>()));
  });
  return bill_tanh(out, x);
}

Cost CudaOps::tanh_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y) const {
  check_tanh_backward(stream, dx, dy, y);
  with_number_type(dx, [&]<class T>(T) {
    over_numbers(stream, TanhBackward(), dx.count(), dx.as<T>(), static_cast<const T*>(dy.as<T>()),
                 static_cast<const T*>(y.as<T>()));
  });
  return bill_tanh_backward(dx, dy, y);
}

Cost CudaOps::gated_silu(Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up) const {
  check_gated_silu(stream, out, gate, up);
  with_number_type(out, [&]<class T>(T) {
    over_numbers(stream, GatedSilu(), out.count(), out.as<T>(), static_cast<const T*>(gate.as<T>()),
                 static_cast<const T*>(up.as<T>()));
  });
  return bill_gated_silu(out, gate, up);
}

Cost CudaOps::gated_silu_backward(Stream& stream, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                                  const Tensor& gate, const Tensor& up) const {
  check_gated_silu_backward(stream, dgate, dup, dy, gate, up);
  with_number_type(dgate, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    const std::int64_t count = dgate.count();
    const bool packs = pack_aligned<N>(dgate.as<T>(), dup.as<T>(), dy.as<T>(), gate.as<T>(), up.as<T>());
    launch(cuda_stream(stream), {blocks_for(count, kThreads * N), kThreads}, gated_silu_backward_kernel<T>, count,
           packs ? count / N * N : 0, dgate.as<T>(), dup.as<T>(), dy.as<T>(), gate.as<T>(), up.as<T>());
  });
  return bill_gated_silu_backward(dgate, dup, dy, gate, up);
}

Cost CudaOps::dropout(Stream& stream, const Tensor& out, const Tensor& x, const Dropout& how) const {
  check_dropout(stream, out, x, how);
  const std::int64_t rows = x.shape()[0], tokens = x.shape()[1], features = x.shape()[2];
  with_number_type(out, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    launch(cuda_stream(stream), {blocks_for(rows * tokens, kRowsAtOnce), {kWarp, kRowsAtOnce}}, dropout_kernel<T>, rows,
           tokens, features, features % N == 0 && pack_aligned<N>(out.as<T>(), x.as<T>()), out.as<T>(), x.as<T>(), how,
           Dropped(how.key, how.probability));
  });
  return bill_dropout(out, x);
}

}  // namespace quadrille
