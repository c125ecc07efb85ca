// SPDX-License-Identifier: Apache-2.0
// Which numbers dropout drops: the addressed random numbers of core/random.h, bit for bit, without arithmetic in f64.
// uniform_at(key, i) is an integer k below 2^53 times 2^-53, so "at least p" reads k >= ceil(p 2^53); a product with a
// power of two is exact. Included by the kernels that drop.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "core/random.h"

namespace quadrille {

class Dropped {
 public:
  Dropped(Key key, double probability)
      : key_(key), least_kept_(static_cast<std::uint64_t>(std::ceil(probability * 0x1p53))) {}
  __device__ __forceinline__ bool operator()(std::int64_t index) const {
    return (bits_at(key_, static_cast<std::uint64_t>(index)) >> 11) < least_kept_;
  }

 private:
  Key key_;
  std::uint64_t least_kept_;
};

}  // namespace quadrille
