// SPDX-License-Identifier: Apache-2.0
// A run of consecutive indices, and how a run is cut into parts: the one rule by which every axis of the house is
// split.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quadrille {

struct Slice {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
  bool operator==(const Slice&) const = default;
};

// Part `index` of `parts`; sizes differ by at most one and the first (count mod parts) parts are the longer ones.
inline Slice part(Slice whole, std::int64_t parts, std::int64_t index) {
  const std::int64_t base = whole.count / parts, extra = whole.count % parts;
  return {whole.first + base * index + std::min(index, extra), base + (index < extra ? 1 : 0)};
}

}  // namespace quadrille
