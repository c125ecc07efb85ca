// SPDX-License-Identifier: Apache-2.0
// What the "model" objects of several models have in common: keys read, and sizes refused, in the same words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace quadrille {

inline constexpr std::int64_t kMostLayers = 10'000;
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;  // of one dim; products are 64-bit

// Throws Error unless it is from 1 to `most`.
std::int64_t read_size(Reader&, std::string_view key, std::optional<std::int64_t> fallback = {},
                       std::int64_t most = kLargestSize);
// A count of words or classes; what the data has where it says "data" or is left out.
std::int64_t read_labels(Reader&, std::string_view key, std::int64_t of_data, std::int64_t most = kLargestSize);

// Sizes that contradict one another, told all at once.
class SizeFaults {
 public:
  explicit SizeFaults(const Reader& reader) : reader_(reader) {}
  void check(bool good, std::string_view key, const std::string& text);
  void check_heads(std::int64_t embed, std::int64_t heads);
  void check_share(std::string_view key, double);     // in [0, 1)
  void check_positive(std::string_view key, double);  // above 0
  // `what`: "ids" or "labels" of the data.
  void check_labels(std::string_view key, std::int64_t count, std::int64_t of_data, std::string_view what);
  void refuse() const;  // throws Error where there are any

 private:
  const Reader& reader_;
  std::vector<std::string> faults_;
};

}  // namespace quadrille
