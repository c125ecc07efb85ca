// SPDX-License-Identifier: Apache-2.0
// See addressed_pairs.h.
#include "training/law/addressed_pairs.h"

#include "core/random.h"

namespace quadrille {

namespace {

constexpr Key kWords = 0x7a15, kLengths = 0x1e46;

}  // namespace

// Of labels as of ids.
std::int64_t AddressedPairs::length(std::int64_t index, std::string_view field) const {
  const std::int64_t most = field_named(fields_, field).shape[0];
  if (index % 4 == 3) return most;
  const Key key = key_of(kLengths, field == "source");
  return 1 +
         static_cast<std::int64_t>(bits_at(key, static_cast<std::uint64_t>(index)) % static_cast<std::uint64_t>(most));
}

std::int64_t AddressedPairs::labels() const {
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < pairs_; ++i) n += length(i, "ids");
  return n;
}

void AddressedPairs::read(std::int64_t, std::int64_t index, const Row& row) const {
  for (const Field& f : fields_) {
    const auto ids = row.integers(f.name);
    const Key key = key_of(key_of(kWords, f.name == "source"), static_cast<std::uint64_t>(index));
    const std::uint64_t further = f.name == "labels";
    const auto filled = static_cast<std::size_t>(length(index, f.name));
    for (std::size_t t = 0; t < ids.size(); ++t)
      ids[t] = t < filled
                   ? static_cast<std::int32_t>(bits_at(key, t + further) % static_cast<std::uint64_t>(vocabulary_))
                   : -1;
  }
}

}  // namespace quadrille
