// SPDX-License-Identifier: Apache-2.0
// The 16-bit float with f32's exponent and 8 bits of mantissa (bfloat16), as the host holds it. Rounding is to the
// nearest, ties to even, as GPUs do; a NaN stays a NaN. Used by the CPU back ends' emulation and by whoever reads
// tensors on the host.
#pragma once

#include <bit>
#include <cstdint>

#include "core/tensor.h"

namespace quadrille {

struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffU) > 0x7f800000U)  // rounding could carry a NaN into infinity
      bits = static_cast<std::uint16_t>((word >> 16) | 0x40U);
    else
      bits = static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};
static_assert(sizeof(bf16) == 2);

template <>
constexpr DType dtype_of<bf16>() {
  return DType::bf16;
}

}  // namespace quadrille
