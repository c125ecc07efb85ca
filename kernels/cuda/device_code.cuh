// SPDX-License-Identifier: Apache-2.0
// What all kernels share: number types as device code sees them, 16-byte accesses, sums over a warp and a block in a
// fixed order, and the sizes of grids. Arithmetic on bf16 is done in f32 and rounded once, when the result is stored.
// Included by the .cu files of this folder only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/cuda/device.h"
#include "core/cuda/launch.h"
#include "core/tensor.h"
#include "kernels/cuda/host.h"

namespace quadrille {

template <>
constexpr DType dtype_of<__nv_bfloat16>() {
  return DType::bf16;
}

// What numbers of a type are computed in, and what the wide type of ops.h is.
template <class T>
using Real = std::conditional_t<std::is_same_v<T, __nv_bfloat16>, float, T>;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ double widen(double x) { return x; }
__device__ __forceinline__ std::int32_t widen(std::int32_t x) { return x; }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
// Rounds to the nearest, ties to even; f64 to bf16 in two steps, as the host does.
template <class T, class From>
__device__ __forceinline__ T narrow(From x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }
__device__ __forceinline__ float logarithm(float x) { return logf(x); }
__device__ __forceinline__ double logarithm(double x) { return log(x); }
__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }
__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }  // passes over what is not a number
__device__ __forceinline__ double larger(double a, double b) { return fmax(a, b); }

// N numbers that lie together and are read or written at once. Bytes of a pack: a power of two, at most 16.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};
inline constexpr int kPackBytes = 16;
template <class... T>  // numbers of each type in packs of which the largest has 16 bytes
inline constexpr int kPackOf = kPackBytes / static_cast<int>(std::max({sizeof(T)...}));

template <int N, class T>
__device__ __forceinline__ Pack<Real<T>, N> load_pack(const T* from) {
  const Pack<T, N> raw = *reinterpret_cast<const Pack<T, N>*>(from);
  Pack<Real<T>, N> wide;
#pragma unroll
  for (int i = 0; i < N; ++i) wide.at[i] = widen(raw.at[i]);
  return wide;
}
template <int N, class T, class From>
__device__ __forceinline__ void store_pack(T* to, const Pack<From, N>& wide) {
  Pack<T, N> raw;
#pragma unroll
  for (int i = 0; i < N; ++i) raw.at[i] = narrow<T>(wide.at[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = raw;
}
// Whether packs of N can be taken from these addresses on.
template <int N, class... T>
bool pack_aligned(const T*... at) {
  return ((reinterpret_cast<std::uintptr_t>(at) % (sizeof(T) * N) == 0) && ...);
}

// All threads of a grid, numbered.
__device__ __forceinline__ std::int64_t thread_of_grid() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ std::int64_t threads_of_grid() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

// The same sum, or the largest, in each of kLanes neighbouring lanes, always in the same order.
template <int kLanes = kWarp, class T>
__device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(kAllLanes, x, lanes);
  return x;
}
template <int kLanes = kWarp, class T>
__device__ __forceinline__ T warp_max(T x) {
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) x = larger(x, __shfl_xor_sync(kAllLanes, x, lanes));
  return x;
}
struct Sum {
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return warp_sum(x);
  }
};
struct Max {
  template <class T>
  __device__ __forceinline__ T operator()(T x) const {
    return warp_max(x);
  }
};
// The sum or the largest over a block of kThreads, the same in every thread. May be called again at once: a barrier
// stands before the shared numbers are overwritten.
template <int kThreads, class How, class T>
__device__ __forceinline__ T over_block(T x, T nothing) {
  static_assert(kThreads % kWarp == 0 && kThreads <= kWarp * kWarp);
  __shared__ T warps[kWarp];
  x = How()(x);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  return How()(lane < kThreads / kWarp ? warps[lane] : nothing);
}
template <int kThreads, class T>
__device__ __forceinline__ T block_sum(T x) {
  return over_block<kThreads, Sum>(x, T{0});
}

// --- the host's side

// How many blocks do `things` of which a block does `each`: all of them, or as many as a grid should have, whose blocks
// then go round. None for nothing.
inline constexpr std::int64_t kMostBlocks = 0x7fffffff,
                              kMostAcross = 65535;  // extents of a grid: the first, the others
inline unsigned blocks_for(std::int64_t things, std::int64_t each, std::int64_t most = 1 << 20) {
  return static_cast<unsigned>(std::min((things + each - 1) / each, most));
}

// Null for an absent operand.
template <class T>
T* address(const Tensor& t) {
  return t ? t.as<T>() : nullptr;
}

// Calls work(T{}) with T the floating type of `like`.
template <class F>
void with_number_type(const Tensor& like, F&& work) {
  switch (like.dtype()) {
    case DType::f32:
      return work(float{});
    case DType::f64:
      return work(double{});
    case DType::bf16:
      return work(__nv_bfloat16{});
    case DType::i32:
      break;
  }
  refuse_type(like.dtype());
}
// Calls work(T{}, W{}) with T the floating type of `like` and W that of `sum`: the same, or the wide one.
template <class F>
void with_number_types(const Tensor& like, const Tensor& sum, F&& work) {
  with_number_type(like, [&]<class T>(T one) {
    if (sum.dtype() == like.dtype())
      work(one, one);
    else
      work(one, Real<T>{});
  });
}

}  // namespace quadrille
