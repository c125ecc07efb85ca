// SPDX-License-Identifier: Apache-2.0
// See addressed_bert.h.
#include "training/law/addressed_bert.h"

#include <algorithm>

#include "core/random.h"
#include "datasets/bert.h"

namespace quadrille {

namespace {

constexpr Key kWords = 0xb3e1, kLengths = 0x1e29, kMasked = 0x3a51, kLabels = 0x1ab3, kNext = 0x4e17;

std::int64_t below(std::int64_t n, Key key, std::int64_t at) {
  return static_cast<std::int64_t>(bits_at(key, static_cast<std::uint64_t>(at)) % static_cast<std::uint64_t>(n));
}

}  // namespace

Fields AddressedBert::fields() const { return bert_fields(tokens_, masked_); }

// Every fourth row is full; the others have two tokens at least.
std::int64_t AddressedBert::length_of(std::int64_t index) const {
  return index % 4 == 3 ? tokens_ : 2 + below(tokens_ - 1, kLengths, index);
}

std::int64_t AddressedBert::masked_of(std::int64_t index) const {
  return std::min(below(masked_ + 1, kMasked, index), length_of(index) - 1);
}

std::int64_t AddressedBert::labels() const {
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < rows_; ++i) n += masked_of(i);
  return n;
}

void AddressedBert::read(std::int64_t, std::int64_t index, const Row& row) const {
  row.pad();
  const auto ids = row.integers("ids"), segments = row.integers("segments"), places = row.integers("places"),
             labels = row.integers("labels");
  const std::int64_t length = length_of(index), masked = masked_of(index);
  const auto address = static_cast<std::uint64_t>(index);
  for (std::int64_t t = 0; t < length; ++t) {
    ids[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(below(vocabulary_, key_of(kWords, address), t));
    segments[static_cast<std::size_t>(t)] = 2 * t < length ? 0 : 1;
  }
  for (std::int64_t k = 0; k < masked; ++k) {
    places[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(1 + k * (length - 1) / masked);
    labels[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(below(vocabulary_, key_of(kLabels, address), k));
  }
  row.integers("next")[0] = static_cast<std::int32_t>(below(3, kNext, index)) - 1;
}

}  // namespace quadrille
