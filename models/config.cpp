// SPDX-License-Identifier: Apache-2.0
#include "models/config.h"

#include "core/error.h"
#include "core/faults.h"

namespace quadrille {

std::int64_t read_size(Reader& reader, std::string_view key, std::optional<std::int64_t> fallback, std::int64_t most) {
  const std::int64_t n = reader.integer(key, fallback);
  require(n >= 1 && n <= most, "{}: {} is {}: it must be from 1 to {}", reader.origin_of(key), reader.path_of(key), n,
          most);
  return n;
}

std::int64_t read_labels(Reader& reader, std::string_view key, std::int64_t of_data, std::int64_t most) {
  const Json* given = reader.value(key);
  return !given || (given->is_string() && given->string() == "data") ? of_data : read_size(reader, key, {}, most);
}

void SizeFaults::check(bool good, std::string_view key, const std::string& text) {
  if (!good) faults_.push_back(fmt::format("{}: {}", reader_.origin_of(key), text));
}

void SizeFaults::check_heads(std::int64_t embed, std::int64_t heads) {
  check(embed % heads == 0, "heads",
        fmt::format("model.heads {} does not divide model.embed {}; legal heads: {}", heads, embed,
                    divisors_text(embed)));
}

void SizeFaults::check_share(std::string_view key, double share) {
  check(share >= 0 && share < 1, key, fmt::format("model.{} is {}: it must lie in [0, 1)", key, share));
}

void SizeFaults::check_positive(std::string_view key, double number) {
  check(number > 0, key, fmt::format("model.{} is {}: it must be above 0", key, number));
}

void SizeFaults::check_labels(std::string_view key, std::int64_t count, std::int64_t of_data, std::string_view what) {
  check(count >= 2, key, fmt::format("model.{} is {}: it must be at least 2", key, count));
  check(of_data <= count, key,
        fmt::format("model.{} is {} but the data has {} up to {}: raise it, or write \"data\"", key, count, what,
                    of_data - 1));
}

void SizeFaults::refuse() const { refuse_all(faults_, "sizes of the model contradict one another"); }

}  // namespace quadrille
