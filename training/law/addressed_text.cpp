// SPDX-License-Identifier: Apache-2.0
// See addressed_text.h.
#include "training/law/addressed_text.h"

#include "core/random.h"

namespace quadrille {

namespace {
constexpr Key kWords = 0x51f1, kMasks = 0x7a21;
bool kept(std::int64_t index, std::int64_t t) {
  return static_cast<std::int64_t>(
             bits_at(key_of(kMasks, static_cast<std::uint64_t>(index)), static_cast<std::uint64_t>(t)) % 8) <=
         index % 8;
}
}  // namespace

std::int64_t AddressedText::labels() const {
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < windows_; ++i)
    for (std::int64_t t = 0; t < tokens_; ++t) n += kept(i, t);
  return n;
}

void AddressedText::read(std::int64_t, std::int64_t index, const Row& row) const {
  const auto ids = row.integers("ids"), labels = row.integers("labels");
  const auto word = [&](std::int64_t t) {
    return static_cast<std::int32_t>(
        bits_at(key_of(kWords, static_cast<std::uint64_t>(index)), static_cast<std::uint64_t>(t)) %
        static_cast<std::uint64_t>(vocabulary_));
  };
  for (std::int64_t t = 0; t < tokens_; ++t) {
    ids[static_cast<std::size_t>(t)] = word(t);
    labels[static_cast<std::size_t>(t)] = kept(index, t) ? word(t + 1) : -1;
  }
}

}  // namespace quadrille
