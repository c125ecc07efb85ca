// SPDX-License-Identifier: Apache-2.0
// A decoder-only transformer with pre-norm blocks: GPT-2 (Radford et al. 2019), GPT-3 (Brown et al. 2020) and Llama
// (Touvron et al. 2023) are configurations of it. The "model" object:
//   kind "gpt", layers, embed, heads, kv_heads (default heads), mlp (default 4 embed), tokens, vocabulary ("data" or a count),
//   tied_head (true), positions ("learned" | "rotary"), rotary_base (10000), norm ("layer" | "rms"), norm_epsilon (1e-5),
//   activation ("gelu" | "gated_silu"), bias (true: of linear layers, never of the head), dropout (0)
#pragma once

#include <memory>

#include "models/model.h"

namespace quadrille {

struct GptConfig {
  std::int64_t layers = 0, embed = 0, heads = 0, kv_heads = 0, mlp = 0, tokens = 0, vocabulary = 0;
  bool tied_head = true, rotary = false, rms = false, gated = false, bias = true;
  double rotary_base = 10000, norm_epsilon = 1e-5, dropout = 0;
  std::int64_t head() const { return embed / heads; }
  std::int64_t queries() const { return heads / kv_heads; }   // per key/value head
};

std::unique_ptr<ModelDescription> describe_gpt(const Json& config, std::int64_t data_vocabulary);

}  // namespace quadrille
