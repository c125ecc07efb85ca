// SPDX-License-Identifier: Apache-2.0
// The encoder-decoder transformer (Vaswani et al. 2017) for translation, with its norms before each sublayer and one
// after each stack, as in MLPerf's reference. The "model" object:
//   kind "translation", encoder_layers, decoder_layers (encoder_layers), embed, heads, mlp (default 4 embed),
//   source_tokens, tokens (of a target), vocabulary ("data" or a count; of both languages), tied (true: one table is
//   both embeddings and the head; false: three), positions ("sinusoidal" | "learned"), norm ("layer" | "rms"),
//   norm_epsilon (1e-6), activation ("relu" | "gelu" | "gated_silu"), attention_bias (false), bias (true: of MLPs),
//   dropout (0: of embeddings and of what each sublayer makes), attention_dropout (dropout), activation_dropout
//   (dropout: inside of each MLP)
// A row of data has source [source_tokens], ids and labels [tokens]; -1 at the end of a source is padding, which no
// query sees. Padding of a target lies behind all that its own words see, and has no label.
#pragma once

#include <cstdint>
#include <memory>

#include "models/model.h"

namespace quadrille {

struct TranslationConfig {
  std::int64_t encoder_layers = 0, decoder_layers = 0, embed = 0, heads = 0, mlp = 0;
  std::int64_t source_tokens = 0, tokens = 0, vocabulary = 0;
  bool tied = true, learned = false, rms = false, attention_bias = false, bias = true;
  enum class Activation : std::uint8_t { relu, gelu, gated_silu } activation = Activation::relu;
  double norm_epsilon = 1e-6, dropout = 0, attention_dropout = 0, activation_dropout = 0;
  bool gated() const { return activation == Activation::gated_silu; }
  std::int64_t head() const { return embed / heads; }
};

TranslationConfig read_translation(const Json& config, std::int64_t data_vocabulary, Json& resolved);
std::unique_ptr<ModelDescription> describe_translation(const Json& config, std::int64_t data_vocabulary);

}  // namespace quadrille
