// SPDX-License-Identifier: Apache-2.0
// Addressed randomness: every random number is a pure function of (seed, what it is for, global index), never the next
// of a stream. So a shard's numbers are the slice of the whole's, whatever the layout. Mixing: the finaliser of
// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) applied twice.
#pragma once

#include <cstdint>
#include <string_view>

namespace quadrille {

using Key = std::uint64_t;

constexpr std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
Key key_of(std::uint64_t seed, std::string_view what);                                // names a family of numbers
constexpr Key key_of(Key key, std::uint64_t index) { return mix(key ^ mix(index)); }  // a family within a family

constexpr std::uint64_t bits_at(Key key, std::uint64_t index) { return mix(key ^ mix(index)); }
constexpr double uniform_at(Key key, std::uint64_t index) {
  return static_cast<double>(bits_at(key, index) >> 11) * 0x1p-53;
}  // [0, 1)
double normal_at(Key key, std::uint64_t index);  // mean 0, deviation 1 (Box and Muller 1958)

// A keyed bijection of [0, count): a Feistel network over the next power of four, walked until inside the range.
class Permutation {
 public:
  Permutation(Key key, std::int64_t count);
  std::int64_t operator()(std::int64_t index) const;  // index in [0, count)

 private:
  Key key_;
  std::int64_t count_;
  int half_bits_;
};

}  // namespace quadrille
