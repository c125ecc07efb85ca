// SPDX-License-Identifier: Apache-2.0
#include "core/random.h"

#include <cmath>
#include <numbers>

#include "core/error.h"

namespace quadrille {

Key key_of(std::uint64_t seed, std::string_view what) {
  Key key = mix(seed);
  for (unsigned char c : what) key = mix(key ^ c);
  return mix(key ^ what.size());
}

double normal_at(Key key, std::uint64_t index) {
  const double u = 1.0 - uniform_at(key, 2 * index);  // (0, 1]: its logarithm is finite
  const double v = uniform_at(key, 2 * index + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

Permutation::Permutation(Key key, std::int64_t count) : key_(key), count_(count), half_bits_(1) {
  require(count > 0, "a permutation of {} things", count);
  while (half_bits_ < 31 && (std::int64_t{1} << (2 * half_bits_)) < count) ++half_bits_;
  require((std::int64_t{1} << (2 * half_bits_)) >= count, "a permutation of {} things: at most 2^62 are supported",
          count);
}

std::int64_t Permutation::operator()(std::int64_t index) const {
  require(index >= 0 && index < count_, "permutation of {} things asked for number {}", count_, index);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto at = static_cast<std::uint64_t>(index);
  do {
    std::uint64_t left = at >> half_bits_, right = at & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t next = left ^ (bits_at(key_, right * 4 + round) & mask);
      left = right;
      right = next;
    }
    at = (left << half_bits_) | right;
  } while (at >= static_cast<std::uint64_t>(
                     count_));  // at most four rounds on average: the range is below four times the count
  return static_cast<std::int64_t>(at);
}

}  // namespace quadrille
