// SPDX-License-Identifier: Apache-2.0
// One slab of device memory, given out from both ends: what lives until the backward pass from the low end, gradients
// and temporaries from the high end. Blocks may come back in any order; the lowest (highest) hole that fits is taken,
// so the same sequence of requests always gets the same addresses. That makes the counting run's peak the exact
// forecast of the real one. The slab is allocated once, at construction.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device.h"

namespace quadrille {

enum class End : std::uint8_t { low, high };

class Arena {
 public:
  // On a device that holds no numbers `bytes` is only a bound; pass kUnbounded to learn the peak.
  static constexpr std::int64_t kUnbounded = std::int64_t{1} << 60;
  Arena(Device&, std::int64_t bytes);
  ~Arena();
  Arena(Arena&&) noexcept;
  Arena& operator=(Arena&&) noexcept;

  // Uninitialised. Throws Error that names the request, what is free and the capacity. Tensors may outlive the Arena
  // object: they keep the slab.
  Tensor empty(const Shape&, DType, End);
  std::int64_t capacity() const;
  std::int64_t bytes_now() const;
  // What a capacity must be for this history to fit: the largest (low extent + high extent) seen.
  std::int64_t bytes_peak() const;

 private:
  class Slab;
  class Block;
  std::shared_ptr<Slab> slab_;
};

}  // namespace quadrille
