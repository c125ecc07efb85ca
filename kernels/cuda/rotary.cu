// SPDX-License-Identifier: Apache-2.0
// Rotary positions (Su et al. 2021), in place: pairs (i, i + head/2) of a head are turned by position ·
// base^(-2i/head). Floor: the turned numbers read once and written once. An op whose output is another tensor copies
// first, which moves them twice; the models turn in place.
#include <numbers>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/ops.h"

namespace quadrille {

namespace {

constexpr int kThreads = 128;
constexpr int kPairs = 128;  // of a head, whose sines and cosines a block keeps at once

// Angles are of thousands of turns: whole turns are taken off in f64, what is left is exact in f32.
__device__ __forceinline__ void cosine_and_sine(double angle, float& cosine, float& sine) {
  const double turns = angle * (0.5 * std::numbers::inv_pi);
  const auto rest = static_cast<float>((turns - rint(turns)) * (2 * std::numbers::pi));
  cosine = cosf(rest);
  sine = sinf(rest);
}
__device__ __forceinline__ void cosine_and_sine(double angle, double& cosine, double& sine) {
  cosine = cos(angle);
  sine = sin(angle);
}

template <class R>
struct Turns {
  R cosines[kPairs], sines[kPairs];
};

template <class R>
__device__ void set_turns(Turns<R>& turns, const Rotary& how, std::int64_t token, std::int64_t first, int pairs) {
  const auto position = static_cast<double>(position_of(how.first_token, how.jump, token));
  for (int i = static_cast<int>(threadIdx.x); i < pairs; i += kThreads) {
    const double power = pow(how.base, -2.0 * static_cast<double>(first + i) / static_cast<double>(how.head));
    cosine_and_sine(position * power, turns.cosines[i], turns.sines[i]);
    if (how.inverse) turns.sines[i] = -turns.sines[i];
  }
}

template <int N, class T, class R>
__device__ __forceinline__ void turn(T* low_at, T* high_at, const Turns<R>& turns, int pair) {
  auto low = load_pack<N>(low_at), high = load_pack<N>(high_at);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const R a = low.at[k], b = high.at[k], cosine = turns.cosines[pair + k], sine = turns.sines[pair + k];
    low.at[k] = a * cosine - b * sine;
    high.at[k] = a * sine + b * cosine;
  }
  store_pack(low_at, low);
  store_pack(high_at, high);
}

// A block has one token of some rows of the batch: all its heads turn by the same angles, computed once.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) rotary_kernel(T* x, Rotary how) {
  __shared__ Turns<Real<T>> turns;
  const std::int64_t half = how.head / 2;
  const auto all_heads = static_cast<int>(how.groups * how.heads), heads = static_cast<int>(how.heads);
  for (std::int64_t token = blockIdx.x; token < how.tokens; token += gridDim.x)
    for (std::int64_t first = 0; first < half; first += kPairs) {
      const auto pairs = static_cast<int>(min(std::int64_t{kPairs}, half - first)), packs = pairs / N;
      __syncthreads();
      set_turns(turns, how, token, first, pairs);
      __syncthreads();
      for (std::int64_t row = blockIdx.y; row < how.rows; row += gridDim.y)
        for (int item = static_cast<int>(threadIdx.x); item < all_heads * packs; item += kThreads) {
          const int head = item / packs, pair = (item - head * packs) * N, group = head / heads;
          T* at = x + ((row * how.tokens + token) * how.groups + group) * how.width +
                  (head - group * heads) * how.head + first + pair;
          turn<N>(at, at + half, turns, pair);
        }
    }
}

}  // namespace

Cost CudaOps::rotary(Stream& stream, const Tensor& out, const Tensor& x, const Rotary& how) const {
  check_rotary(stream, out, x, how);
  if (!out.same_place(x)) stream.copy(out, x);
  if (out.count() == 0 || how.heads == 0) return bill_rotary(out, x);
  with_number_type(out, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    const bool packs = how.head / 2 % N == 0 && how.width % N == 0 && pack_aligned<N>(out.as<T>());
    // Rows share a token's angles as long as there are blocks enough.
    constexpr std::int64_t kEnough = 2048;
    const std::int64_t down = std::clamp<std::int64_t>(kEnough / how.tokens, 1, std::min(how.rows, kMostAcross));
    launch(cuda_stream(stream), {{blocks_for(how.tokens, 1), static_cast<unsigned>(down)}, kThreads},
           packs ? rotary_kernel<T, N> : rotary_kernel<T, 1>, out.as<T>(), how);
  });
  return bill_rotary(out, x);
}

}  // namespace quadrille
