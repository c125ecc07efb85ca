// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/faults.h"
#include "models/bert/bert.h"

namespace quadrille {

namespace {

constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;  // of one dim; products are 64-bit

// Sizes that contradict one another, all at once.
std::vector<std::string> faults_of(const BertConfig& c, const Reader& reader, std::int64_t data_vocabulary) {
  std::vector<std::string> faults;
  const auto check = [&](bool good, std::string_view key, const std::string& text) {
    if (!good) faults.push_back(fmt::format("{}: {}", reader.origin_of(key), text));
  };
  check(c.embed % c.heads == 0, "heads",
        fmt::format("model.heads {} does not divide model.embed {}; legal heads: {}", c.heads, c.embed,
                    divisors_text(c.embed)));
  check(c.masked <= c.tokens, "masked",
        fmt::format("model.masked {} is more than model.tokens {}", c.masked, c.tokens));
  check(c.dropout >= 0 && c.dropout < 1, "dropout",
        fmt::format("model.dropout is {}: it must lie in [0, 1)", c.dropout));
  check(c.norm_epsilon > 0, "norm_epsilon",
        fmt::format("model.norm_epsilon is {}: it must be above 0", c.norm_epsilon));
  check(c.vocabulary >= 2, "vocabulary", fmt::format("model.vocabulary is {}: it must be at least 2", c.vocabulary));
  check(data_vocabulary <= c.vocabulary, "vocabulary",
        fmt::format("model.vocabulary is {} but the data has ids up to {}: raise it, or write \"data\"", c.vocabulary,
                    data_vocabulary - 1));
  return faults;
}

}  // namespace

BertConfig read_bert(const Json& config, std::int64_t data_vocabulary, Json& resolved) {
  Reader reader(config, "model");
  BertConfig c;
  reader.string("kind");
  const auto size = [&](std::string_view key, std::optional<std::int64_t> fallback = {},
                        std::int64_t most = kLargestSize) {
    const std::int64_t n = reader.integer(key, fallback);
    require(n >= 1 && n <= most, "{}: {} is {}: it must be from 1 to {}", reader.origin_of(key), reader.path_of(key), n,
            most);
    return n;
  };
  c.layers = size("layers", {}, kMostLayers);
  c.embed = size("embed");
  c.heads = size("heads");
  c.mlp = size("mlp", std::min(4 * c.embed, kLargestSize));
  c.tokens = size("tokens");
  c.masked = size("masked");
  const Json* words = reader.value("vocabulary");
  c.vocabulary = !words || (words->is_string() && words->string() == "data") ? data_vocabulary : size("vocabulary");
  c.segments = size("segments", 2);
  c.dropout = reader.number("dropout", 0);
  c.norm_epsilon = reader.number("norm_epsilon", 1e-12);
  reader.done();
  refuse_all(faults_of(c, reader, data_vocabulary), "sizes of the model contradict one another");
  resolved = reader.resolved();
  resolved.set("vocabulary", Json(c.vocabulary));
  return c;
}

}  // namespace quadrille
