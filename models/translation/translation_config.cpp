// SPDX-License-Identifier: Apache-2.0
// The configuration of an encoder-decoder: keys, sizes, refusals.
#include <algorithm>
#include <string>

#include "models/config.h"
#include "models/translation/translation.h"

namespace quadrille {

namespace {

TranslationConfig read_keys(Reader& reader, std::int64_t data_vocabulary) {
  TranslationConfig c;
  reader.string("kind");
  c.encoder_layers = read_size(reader, "encoder_layers", {}, kMostLayers);
  c.decoder_layers = read_size(reader, "decoder_layers", c.encoder_layers, kMostLayers);
  c.embed = read_size(reader, "embed");
  c.heads = read_size(reader, "heads");
  c.mlp = read_size(reader, "mlp", std::min(4 * c.embed, kLargestSize));
  c.tokens = read_size(reader, "tokens");
  c.source_tokens = read_size(reader, "source_tokens", c.tokens);
  c.vocabulary = read_labels(reader, "vocabulary", data_vocabulary);
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
  SizeFaults faults(reader);
  faults.check_heads(c.embed, c.heads);
  faults.check_share("dropout", c.dropout);
  faults.check_share("attention_dropout", c.attention_dropout);
  faults.check_share("activation_dropout", c.activation_dropout);
  faults.check_positive("norm_epsilon", c.norm_epsilon);
  faults.check_labels("vocabulary", c.vocabulary, data_vocabulary, "ids");
  faults.refuse();
  resolved = reader.resolved();
  resolved.set("vocabulary", Json(c.vocabulary));
  return c;
}

}  // namespace quadrille
