// SPDX-License-Identifier: Apache-2.0
// The end of a step: norm of the gradients, step scalars, optimizers. A bucket of parameters is one run of numbers, so
// each optimizer is one kernel over one run: nothing is gained by a list of tensors. Bound by memory: with s bytes a
// number sum_of_squares reads s, adamw reads 4s and writes 3s, sgd_momentum and lars read 3s and write 2s (plain: 2s
// and s), lamb_moments reads 4s and writes 2s, lamb_step reads 3s and writes s.
#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/ops.h"

namespace quadrille {

namespace {

constexpr int kThreads = 256;

// Blocks leave their sums in the stream's scratch memory, one block adds them. How many there are depends on the count
// alone, so the order of additions does too.
constexpr std::int64_t kSquareBlocks = 1024;
static_assert(kSquareBlocks * sizeof(double) <= kCudaScratchBytes);

template <class T>
__global__ void __launch_bounds__(kThreads)
    squares_of_blocks(std::int64_t count, std::int64_t packed, double* sums, const T* x) {
  constexpr int N = kPackOf<T>;
  double sum = 0;  // squares may lie beyond f32
  for (std::int64_t i = thread_of_grid() * N; i < packed; i += threads_of_grid() * N) {
    const auto v = load_pack<N>(x + i);
#pragma unroll
    for (int k = 0; k < N; ++k) sum += static_cast<double>(v.at[k]) * static_cast<double>(v.at[k]);
  }
  for (std::int64_t i = packed + thread_of_grid(); i < count; i += threads_of_grid())
    sum += static_cast<double>(widen(x[i])) * static_cast<double>(widen(x[i]));
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
__global__ void __launch_bounds__(kThreads) add_squares(int blocks, double* total, const double* sums) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += kThreads) sum += sums[i];
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) *total += sum;
}

__global__ void step_scalars_kernel(double* scalars, const double* totals, std::int64_t numbers, const double* settings,
                                    double clip_norm) {
  double loss = totals[0];
  const double count = totals[1], squares = totals[2];
  for (std::int64_t k = 3; k < numbers; k += 2)  // means of further losses
    if (totals[k + 1] > 0) loss += totals[k] * (count / totals[k + 1]);
  const bool finite = std::isfinite(loss) && std::isfinite(squares) && std::isfinite(count) && count > 0;
  const double norm = sqrt(squares) / count;
  const double clipped = clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1;
  scalars[kLossSum] = loss;
  scalars[kCount] = count;
  scalars[kNormSquared] = squares;
  scalars[kGradientNorm] = norm;
  scalars[kFactor] = finite ? clipped / count : 0;
  scalars[kRate] = settings[0];
  scalars[kFinite] = finite ? 1 : 0;
  scalars[kStep] = settings[1];
}

// What is the same for all numbers of a step, computed in f64 by one thread of each block. Loshchilov and Hutter 2019,
// the formula of ops.h with its constants drawn together: the decay acts on the values, not through the moments, unless
// it is Adam's L2.
template <class R>
struct AdamWFactors {
  R gradient, decay, beta1, rest1, beta2, rest2, step, inverse_root, epsilon, keep;
  __device__ void set(const double* scalars, const AdamW& how) {
    gradient = static_cast<R>(scalars[kFactor]);
    beta1 = static_cast<R>(how.beta1), rest1 = static_cast<R>(1 - how.beta1);
    beta2 = static_cast<R>(how.beta2), rest2 = static_cast<R>(1 - how.beta2);
    step = static_cast<R>(scalars[kRate] / (1 - pow(how.beta1, scalars[kStep])));
    inverse_root = static_cast<R>(1 / sqrt(1 - pow(how.beta2, scalars[kStep])));
    epsilon = static_cast<R>(how.epsilon);
    decay = static_cast<R>(how.decay_in_gradient ? how.weight_decay : 0);
    keep = static_cast<R>(how.decay_in_gradient ? 1 : 1 - scalars[kRate] * how.weight_decay);
  }
  __device__ __forceinline__ void apply(R& value, R gradient_sum, R& m, R& v) const {
    const R g = gradient * gradient_sum + decay * value;
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
    value = keep * value - step * (m / (square_root(v) * inverse_root + epsilon));
  }
};

template <class R>
struct SgdFactors {
  R gradient, decay, momentum, rate;
  bool nesterov;
  __device__ void set(const double* scalars, const SgdMomentum& how) {
    gradient = static_cast<R>(scalars[kFactor]), decay = static_cast<R>(how.weight_decay);
    momentum = static_cast<R>(how.momentum), rate = static_cast<R>(scalars[kRate]), nesterov = how.nesterov;
  }
  // LARS is the same with the rate multiplied into what enters the velocity or into what leaves it.
  __device__ void set(const double* scalars, const Lars& how, const double* norms) {
    double scaled = scalars[kRate];
    if (norms) {
      const double of_values = sqrt(norms[0]), of_gradients = scalars[kFactor] * sqrt(norms[1]);
      if (of_values > 0 && of_gradients > 0)
        scaled *= how.trust * of_values / (of_gradients + how.weight_decay * of_values + how.epsilon);
    }
    const double entering = how.scaled_momentum ? 1 : scaled;
    gradient = static_cast<R>(scalars[kFactor] * entering), decay = static_cast<R>(how.weight_decay * entering);
    momentum = static_cast<R>(how.momentum), rate = static_cast<R>(how.scaled_momentum ? scaled : 1);
    nesterov = how.nesterov;
  }
  // Without a velocity the momentum is 0, and what is kept of it nobody reads.
  __device__ __forceinline__ void apply(R& value, R gradient_sum, R& velocity) const {
    const R g = gradient * gradient_sum + decay * value;
    velocity = momentum * velocity + g;
    value -= rate * (nesterov ? g + momentum * velocity : velocity);
  }
};

template <class R>
struct LambFactors {
  R gradient, beta1, rest1, beta2, rest2, scale, inverse_root, epsilon, decay, rate;
  __device__ void set(const double* scalars, const Lamb& how, const double* norms) {
    gradient = static_cast<R>(scalars[kFactor]);
    beta1 = static_cast<R>(how.beta1), rest1 = static_cast<R>(1 - how.beta1);
    beta2 = static_cast<R>(how.beta2), rest2 = static_cast<R>(1 - how.beta2);
    scale = static_cast<R>(how.bias_correction ? 1 / (1 - pow(how.beta1, scalars[kStep])) : 1);
    inverse_root = static_cast<R>(how.bias_correction ? 1 / sqrt(1 - pow(how.beta2, scalars[kStep])) : 1);
    epsilon = static_cast<R>(how.epsilon), decay = static_cast<R>(how.weight_decay);
    const double ratio = norms && norms[0] > 0 && norms[1] > 0 ? sqrt(norms[0]) / sqrt(norms[1]) : 1;
    rate = static_cast<R>(scalars[kRate] * ratio);
  }
  __device__ __forceinline__ R update(R value, R m, R v) const {
    return scale * m / (square_root(v) * inverse_root + epsilon) + decay * value;
  }
  __device__ __forceinline__ void remember(R gradient_sum, R& m, R& v) const {
    const R g = gradient * gradient_sum;
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
  }
};

// A step that is not finite changes nothing. Few blocks that go round, because each computes its factors first.
constexpr std::int64_t kUpdateBlocks = 2048;

template <class T, int N>
__device__ __forceinline__ void adamw_at(std::int64_t i, T* values, const T* gradients, T* first, T* second,
                                         const AdamWFactors<Real<T>>& factors) {
  auto value = load_pack<N>(values + i), m = load_pack<N>(first + i), v = load_pack<N>(second + i);
  const auto g = load_pack<N>(gradients + i);
#pragma unroll
  for (int k = 0; k < N; ++k) factors.apply(value.at[k], g.at[k], m.at[k], v.at[k]);
  store_pack(values + i, value);
  store_pack(first + i, m);
  store_pack(second + i, v);
}
template <class T>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(std::int64_t count, std::int64_t packed, T* values, const T* gradients, T* first, T* second,
                 const double* scalars, AdamW how) {
  constexpr int N = kPackOf<T>;
  __shared__ AdamWFactors<Real<T>> shared;
  if (scalars[kFinite] == 0) return;
  if (threadIdx.x == 0) shared.set(scalars, how);
  __syncthreads();
  const AdamWFactors<Real<T>> factors = shared;
  for (std::int64_t i = thread_of_grid() * N; i < packed; i += threads_of_grid() * N)
    adamw_at<T, N>(i, values, gradients, first, second, factors);
  for (std::int64_t i = packed + thread_of_grid(); i < count; i += threads_of_grid())
    adamw_at<T, 1>(i, values, gradients, first, second, factors);
}

template <class T, int N>
__device__ __forceinline__ void sgd_at(std::int64_t i, T* values, const T* gradients, T* velocities,
                                       const SgdFactors<Real<T>>& factors) {
  auto value = load_pack<N>(values + i);
  auto velocity = velocities ? load_pack<N>(velocities + i) : Pack<Real<T>, N>{};
  const auto g = load_pack<N>(gradients + i);
#pragma unroll
  for (int k = 0; k < N; ++k) factors.apply(value.at[k], g.at[k], velocity.at[k]);
  store_pack(values + i, value);
  if (velocities) store_pack(velocities + i, velocity);
}
template <class T>
__device__ __forceinline__ void sgd_all(std::int64_t count, std::int64_t packed, T* values, const T* gradients,
                                        T* velocities, const SgdFactors<Real<T>>& factors) {
  constexpr int N = kPackOf<T>;
  for (std::int64_t i = thread_of_grid() * N; i < packed; i += threads_of_grid() * N)
    sgd_at<T, N>(i, values, gradients, velocities, factors);
  for (std::int64_t i = packed + thread_of_grid(); i < count; i += threads_of_grid())
    sgd_at<T, 1>(i, values, gradients, velocities, factors);
}
template <class T>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(std::int64_t count, std::int64_t packed, T* values, const T* gradients, T* velocities,
               const double* scalars, SgdMomentum how) {
  if (scalars[kFinite] == 0) return;
  SgdFactors<Real<T>> factors;
  factors.set(scalars, how);
  sgd_all(count, packed, values, gradients, velocities, factors);
}
template <class T>
__global__ void __launch_bounds__(kThreads)
    lars_kernel(std::int64_t count, std::int64_t packed, T* values, const T* gradients, T* velocities,
                const double* norms, const double* scalars, Lars how) {
  __shared__ SgdFactors<Real<T>> shared;
  if (scalars[kFinite] == 0) return;
  if (threadIdx.x == 0) shared.set(scalars, how, norms);
  __syncthreads();
  const SgdFactors<Real<T>> factors = shared;
  sgd_all(count, packed, values, gradients, velocities, factors);
}

// Returns Σ update² of N numbers.
template <class T, int N>
__device__ __forceinline__ double lamb_moments_at(std::int64_t i, const T* values, const T* gradients, T* first,
                                                  T* second, const LambFactors<Real<T>>& factors) {
  const auto value = load_pack<N>(values + i), g = load_pack<N>(gradients + i);
  auto m = load_pack<N>(first + i), v = load_pack<N>(second + i);
  double sum = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    factors.remember(g.at[k], m.at[k], v.at[k]);
    const auto update = static_cast<double>(factors.update(value.at[k], m.at[k], v.at[k]));
    sum += update * update;
  }
  store_pack(first + i, m);
  store_pack(second + i, v);
  return sum;
}
// Each block leaves its sum, 0 where the step is not finite; add_squares adds them.
template <class T>
__global__ void __launch_bounds__(kThreads)
    lamb_moments_kernel(std::int64_t count, std::int64_t packed, double* sums, const T* values, const T* gradients,
                        T* first, T* second, const double* scalars, Lamb how) {
  constexpr int N = kPackOf<T>;
  __shared__ LambFactors<Real<T>> shared;
  if (scalars[kFinite] == 0) {
    if (threadIdx.x == 0) sums[blockIdx.x] = 0;
    return;
  }
  if (threadIdx.x == 0) shared.set(scalars, how, nullptr);
  __syncthreads();
  const LambFactors<Real<T>> factors = shared;
  double sum = 0;
  for (std::int64_t i = thread_of_grid() * N; i < packed; i += threads_of_grid() * N)
    sum += lamb_moments_at<T, N>(i, values, gradients, first, second, factors);
  for (std::int64_t i = packed + thread_of_grid(); i < count; i += threads_of_grid())
    sum += lamb_moments_at<T, 1>(i, values, gradients, first, second, factors);
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <class T, int N>
__device__ __forceinline__ void lamb_step_at(std::int64_t i, T* values, const T* first, const T* second,
                                             const LambFactors<Real<T>>& factors) {
  auto value = load_pack<N>(values + i);
  const auto m = load_pack<N>(first + i), v = load_pack<N>(second + i);
#pragma unroll
  for (int k = 0; k < N; ++k) value.at[k] -= factors.rate * factors.update(value.at[k], m.at[k], v.at[k]);
  store_pack(values + i, value);
}
template <class T>
__global__ void __launch_bounds__(kThreads)
    lamb_step_kernel(std::int64_t count, std::int64_t packed, T* values, const T* first, const T* second,
                     const double* norms, const double* scalars, Lamb how) {
  constexpr int N = kPackOf<T>;
  __shared__ LambFactors<Real<T>> shared;
  if (scalars[kFinite] == 0) return;
  if (threadIdx.x == 0) shared.set(scalars, how, norms);
  __syncthreads();
  const LambFactors<Real<T>> factors = shared;
  for (std::int64_t i = thread_of_grid() * N; i < packed; i += threads_of_grid() * N)
    lamb_step_at<T, N>(i, values, first, second, factors);
  for (std::int64_t i = packed + thread_of_grid(); i < count; i += threads_of_grid())
    lamb_step_at<T, 1>(i, values, first, second, factors);
}

}  // namespace

Cost CudaOps::sum_of_squares(Stream& stream, const Tensor& sum, const Tensor& x) const {
  check_sum_of_squares(stream, sum, x);
  if (x.count() == 0) return bill_sum_of_squares(sum, x);
  with_number_type(x, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    const cudaStream_t queue = cuda_stream(stream);
    auto* sums = reinterpret_cast<double*>(cuda_scratch(stream));
    const unsigned blocks = blocks_for(x.count(), kThreads * N, kSquareBlocks);
    launch(queue, {blocks, kThreads}, squares_of_blocks<T>, x.count(),
           pack_aligned<N>(x.as<T>()) ? x.count() / N * N : 0, sums, x.as<T>());
    launch(queue, {1, kThreads}, add_squares, static_cast<int>(blocks), sum.as<double>(), sums);
  });
  return bill_sum_of_squares(sum, x);
}

Cost CudaOps::step_scalars(Stream& stream, const Tensor& scalars, const Tensor& totals, const Tensor& settings,
                           double clip_norm) const {
  check_step_scalars(stream, scalars, totals, settings, clip_norm);
  launch(cuda_stream(stream), {1, 1}, step_scalars_kernel, scalars.as<double>(), totals.as<double>(), totals.count(),
         settings.as<double>(), clip_norm);
  return bill_step_scalars(scalars, totals, settings);
}

Cost CudaOps::adamw(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& first_moment,
                    const Tensor& second_moment, const Tensor& scalars, const AdamW& how) const {
  check_adamw(stream, values, gradients, first_moment, second_moment, scalars, how);
  with_number_type(values, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    const std::int64_t count = values.count();
    const bool packs = pack_aligned<N>(values.as<T>(), gradients.as<T>(), first_moment.as<T>(), second_moment.as<T>());
    launch(cuda_stream(stream), {blocks_for(count, kThreads * N, kUpdateBlocks), kThreads}, adamw_kernel<T>, count,
           packs ? count / N * N : 0, values.as<T>(), gradients.as<T>(), first_moment.as<T>(), second_moment.as<T>(),
           scalars.as<double>(), how);
  });
  return bill_adamw(values, gradients, first_moment, second_moment, scalars);
}

Cost CudaOps::sgd_momentum(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                           const Tensor& scalars, const SgdMomentum& how) const {
  check_sgd_momentum(stream, values, gradients, velocity, scalars, how);
  with_number_type(values, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    const std::int64_t count = values.count();
    const bool packs = pack_aligned<N>(values.as<T>(), gradients.as<T>(), address<T>(velocity));
    launch(cuda_stream(stream), {blocks_for(count, kThreads * N, kUpdateBlocks), kThreads}, sgd_kernel<T>, count,
           packs ? count / N * N : 0, values.as<T>(), gradients.as<T>(), address<T>(velocity), scalars.as<double>(),
           how);
  });
  return bill_sgd_momentum(values, gradients, velocity, scalars);
}

Cost CudaOps::lars(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                   const Tensor& norms, const Tensor& scalars, const Lars& how) const {
  check_lars(stream, values, gradients, velocity, norms, scalars, how);
  if (values.count() == 0) return bill_lars(values, gradients, velocity, norms, scalars);
  with_number_type(values, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    const std::int64_t count = values.count();
    const bool packs = pack_aligned<N>(values.as<T>(), gradients.as<T>(), velocity.as<T>());
    launch(cuda_stream(stream), {blocks_for(count, kThreads * N, kUpdateBlocks), kThreads}, lars_kernel<T>, count,
           packs ? count / N * N : 0, values.as<T>(), gradients.as<T>(), velocity.as<T>(),
           norms ? norms.as<double>() : nullptr, scalars.as<double>(), how);
  });
  return bill_lars(values, gradients, velocity, norms, scalars);
}

Cost CudaOps::lamb_moments(Stream& stream, const Tensor& squares, const Tensor& values, const Tensor& gradients,
                           const Tensor& first_moment, const Tensor& second_moment, const Tensor& scalars,
                           const Lamb& how) const {
  check_lamb_moments(stream, squares, values, gradients, first_moment, second_moment, scalars, how);
  const Cost bill = bill_lamb_moments(squares, values, gradients, first_moment, second_moment, scalars);
  if (values.count() == 0) return bill;
  with_number_type(values, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    const cudaStream_t queue = cuda_stream(stream);
    const std::int64_t count = values.count();
    const bool packs = pack_aligned<N>(values.as<T>(), gradients.as<T>(), first_moment.as<T>(), second_moment.as<T>());
    auto* sums = reinterpret_cast<double*>(cuda_scratch(stream));
    const unsigned blocks = blocks_for(count, kThreads * N, kSquareBlocks);
    launch(queue, {blocks, kThreads}, lamb_moments_kernel<T>, count, packs ? count / N * N : 0, sums, values.as<T>(),
           gradients.as<T>(), first_moment.as<T>(), second_moment.as<T>(), scalars.as<double>(), how);
    if (squares) launch(queue, {1, kThreads}, add_squares, static_cast<int>(blocks), squares.as<double>(), sums);
  });
  return bill;
}

Cost CudaOps::lamb_step(Stream& stream, const Tensor& values, const Tensor& first_moment, const Tensor& second_moment,
                        const Tensor& norms, const Tensor& scalars, const Lamb& how) const {
  check_lamb_step(stream, values, first_moment, second_moment, norms, scalars, how);
  if (values.count() == 0) return bill_lamb_step(values, first_moment, second_moment, norms, scalars);
  with_number_type(values, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    const std::int64_t count = values.count();
    const bool packs = pack_aligned<N>(values.as<T>(), first_moment.as<T>(), second_moment.as<T>());
    launch(cuda_stream(stream), {blocks_for(count, kThreads * N, kUpdateBlocks), kThreads}, lamb_step_kernel<T>, count,
           packs ? count / N * N : 0, values.as<T>(), first_moment.as<T>(), second_moment.as<T>(),
           norms ? norms.as<double>() : nullptr, scalars.as<double>(), how);
  });
  return bill_lamb_step(values, first_moment, second_moment, norms, scalars);
}

}  // namespace quadrille
