// SPDX-License-Identifier: Apache-2.0
// CUDA's bfloat16 for the stand-in: rounding to the nearest, ties to even, by the house's own type.
#pragma once

#include <bit>
#include <cstdint>

#include <cuda_runtime.h>
#include "core/bf16.h"

struct __nv_bfloat16_raw {
  unsigned short x;
};
class __nv_bfloat16 {
 public:
  __nv_bfloat16() = default;
  __nv_bfloat16(float value) : bits_(quadrille::bf16(value).bits) {}
  __nv_bfloat16(double value) : __nv_bfloat16(static_cast<float>(value)) {}
  __nv_bfloat16(__nv_bfloat16_raw raw) : bits_(raw.x) {}
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16); }
  operator __nv_bfloat16_raw() const { return {bits_}; }

 private:
  std::uint16_t bits_;
};
static_assert(sizeof(__nv_bfloat16) == 2);

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline __nv_bfloat16 __float2bfloat16(float value) { return value; }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return value; }
inline __nv_bfloat16 __double2bfloat16(double value) { return value; }
inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return std::bit_cast<__nv_bfloat16>(x); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return std::bit_cast<unsigned short>(x); }
