// SPDX-License-Identifier: Apache-2.0
// The configuration of an encoder-decoder: keys, sizes, refusals.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/faults.h"
#include "models/translation/translation.h"

namespace quadrille {

namespace {

constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;  // of one dim; products are 64-bit

TranslationConfig read_keys(Reader& reader, std::int64_t data_vocabulary) {
  TranslationConfig c;
  reader.string("kind");
  const auto size = [&](std::string_view key, std::optional<std::int64_t> fallback = {},
                        std::int64_t most = kLargestSize) {
    const std::int64_t n = reader.integer(key, fallback);
    require(n >= 1 && n <= most, "{}: {} is {}: it must be from 1 to {}", reader.origin_of(key), reader.path_of(key), n,
            most);
    return n;
  };
  c.encoder_layers = size("encoder_layers", {}, kMostLayers);
  c.decoder_layers = size("decoder_layers", c.encoder_layers, kMostLayers);
  c.embed = size("embed");
  c.heads = size("heads");
  c.mlp = size("mlp", std::min(4 * c.embed, kLargestSize));
  c.tokens = size("tokens");
  c.source_tokens = size("source_tokens", c.tokens);
  const Json* words = reader.value("vocabulary");
  c.vocabulary = !words || (words->is_string() && words->string() == "data") ? data_vocabulary : size("vocabulary");
  c.tied = reader.boolean("tied", true);
  c.learned = reader.choice("positions", {"sinusoidal", "learned"}, "sinusoidal") == "learned";
  c.rms = reader.choice("norm", {"layer", "rms"}, "layer") == "rms";
  c.norm_epsilon = reader.number("norm_epsilon", 1e-6);
  using Activation = TranslationConfig::Activation;
  const std::string activation = reader.choice("activation", {"relu", "gelu", "gated_silu"}, "relu");
  c.activation = activation == "relu"   ? Activation::relu
                 : activation == "gelu" ? Activation::gelu
                                        : Activation::gated_silu;
  c.attention_bias = reader.boolean("attention_bias", false);
  c.bias = reader.boolean("bias", true);
  c.dropout = reader.number("dropout", 0);
  c.attention_dropout = reader.number("attention_dropout", c.dropout);
  c.activation_dropout = reader.number("activation_dropout", c.dropout);
  reader.done();
  return c;
}

}  // namespace

TranslationConfig read_translation(const Json& config, std::int64_t data_vocabulary, Json& resolved) {
  Reader reader(config, "model");
  const TranslationConfig c = read_keys(reader, data_vocabulary);
  std::vector<std::string> faults;
  const auto check = [&](bool good, std::string_view key, const std::string& text) {
    if (!good) faults.push_back(fmt::format("{}: {}", reader.origin_of(key), text));
  };
  check(c.embed % c.heads == 0, "heads",
        fmt::format("model.heads {} does not divide model.embed {}; legal heads: {}", c.heads, c.embed,
                    divisors_text(c.embed)));
  for (const auto& [key, p] : {std::pair{"dropout", c.dropout}, std::pair{"attention_dropout", c.attention_dropout},
                               std::pair{"activation_dropout", c.activation_dropout}})
    check(p >= 0 && p < 1, key, fmt::format("model.{} is {}: it must lie in [0, 1)", key, p));
  check(c.norm_epsilon > 0, "norm_epsilon",
        fmt::format("model.norm_epsilon is {}: it must be above 0", c.norm_epsilon));
  check(c.vocabulary >= 2, "vocabulary", fmt::format("model.vocabulary is {}: it must be at least 2", c.vocabulary));
  check(data_vocabulary <= c.vocabulary, "vocabulary",
        fmt::format("model.vocabulary is {} but the data has ids up to {}: raise it, or write \"data\"", c.vocabulary,
                    data_vocabulary - 1));
  refuse_all(faults, "sizes of the model contradict one another");
  resolved = reader.resolved();
  resolved.set("vocabulary", Json(c.vocabulary));
  return c;
}

}  // namespace quadrille
