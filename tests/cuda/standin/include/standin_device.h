// SPDX-License-Identifier: Apache-2.0
// What device code finds: its place in the grid, barriers, warp shuffles, atomics, and the functions that CUDA puts
// into the global namespace. A barrier or a shuffle knows the line it was called from: threads that meet from different
// lines are a fault. Included by the stand-in's cuda_runtime.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include <standin_vectors.h>

#define __global__
#define __device__
#define __host__
#define __constant__ const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
// In a function thread_local implies static. Blocks run one after another in the thread of their stream, so one place
// per thread is one place per block; symbols.cpp finds these places, to fill them before each block.
#define __shared__ thread_local

extern constinit thread_local uint3 threadIdx, blockIdx;
extern constinit thread_local dim3 blockDim, gridDim;
extern const int warpSize;  // not a constant expression, as with nvcc

namespace standin {
using Site = std::source_location;
void block_barrier(const Site&);
// All lanes of the mask meet; each gets the value of its source.
std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned source, const Site&);
unsigned ballot(unsigned mask, bool, const Site&);
unsigned lane();
[[noreturn]] void fault(const char* what, const Site&);

template <class T>
T shuffle(unsigned mask, T value, unsigned source, const Site& site) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  word = exchange(mask, word, source, site);
  std::memcpy(&value, &word, sizeof(T));
  return value;
}
inline unsigned segment(int width) { return lane() & ~static_cast<unsigned>(width - 1); }
}  // namespace standin

inline void __syncthreads(standin::Site site = standin::Site::current()) { standin::block_barrier(site); }
inline void __syncwarp(unsigned mask = 0xffffffffU, standin::Site site = standin::Site::current()) {
  standin::exchange(mask, 0, standin::lane(), site);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, standin::Site site = standin::Site::current()) {
  return standin::shuffle(
      mask, value, standin::segment(width) + (static_cast<unsigned>(source) & static_cast<unsigned>(width - 1)), site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, standin::Site site = standin::Site::current()) {
  const unsigned source = standin::lane() ^ static_cast<unsigned>(lanes);
  return standin::shuffle(
      mask, value, source < standin::segment(width) + static_cast<unsigned>(width) ? source : standin::lane(), site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32,
                   standin::Site site = standin::Site::current()) {
  const unsigned source = standin::lane() + lanes;
  return standin::shuffle(
      mask, value, source < standin::segment(width) + static_cast<unsigned>(width) ? source : standin::lane(), site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32,
                 standin::Site site = standin::Site::current()) {
  const unsigned lane = standin::lane();
  return standin::shuffle(mask, value, lane >= standin::segment(width) + lanes ? lane - lanes : lane, site);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, standin::Site site = standin::Site::current()) {
  return standin::ballot(mask, predicate != 0, site);
}
inline int __any_sync(unsigned mask, int predicate, standin::Site site = standin::Site::current()) {
  return standin::ballot(mask, predicate != 0, site) != 0;
}
inline int __all_sync(unsigned mask, int predicate, standin::Site site = standin::Site::current()) {
  return standin::ballot(mask, predicate != 0, site) == mask;
}

// Kernels of several streams may run at once, so these are real.
template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  if constexpr (std::is_integral_v<T>) {
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
  } else {
    T seen = *at;
    T wanted;
    do wanted = seen + value;
    while (!__atomic_compare_exchange(at, &seen, &wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return seen;
  }
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  T seen = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (seen < value && !__atomic_compare_exchange_n(at, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return seen;
}
template <class T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  T seen = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value < seen && !__atomic_compare_exchange_n(at, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return seen;
}
template <class T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  T seen;
  __atomic_exchange(at, &value, &seen, __ATOMIC_RELAXED);
  return seen;
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

template <class T>
T __ldg(const T* p) {
  return *p;
}
using std::isfinite;
using std::isinf;
using std::isnan;
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fmul_rn(float x, float y) { return x * y; }  // never fused with an addition
inline float __fadd_rn(float x, float y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __dadd_rn(double x, double y) { return x + y; }
inline float __fdividef(float x, float y) { return x / y; }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((std::uint64_t{a} * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((Wide{a} * b) >> 64);
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }

// CUDA's own min and max, of arithmetic types.
template <class A, class B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
