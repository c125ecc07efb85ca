// SPDX-License-Identifier: Apache-2.0
// BERT (Devlin, Chang, Lee and Toutanova, NAACL 2019, arXiv 1810.04805): an encoder with post-norm blocks and two
// losses, of the masked words and of whether the second segment follows the first. It reads the fields of
// datasets/bert.h. The "model" object:
//   kind "bert", layers, embed, heads, mlp (default 4 embed), tokens, masked (words that a row may have masked),
//   vocabulary ("data" or a count), segments (2), dropout (0), norm_epsilon (1e-12)
// Formulas, initial weights and what differs from the published code: docs/models.md.
#pragma once

#include <memory>

#include "models/model.h"

namespace quadrille {

struct BertConfig {
  std::int64_t layers = 0, embed = 0, heads = 0, mlp = 0, tokens = 0, masked = 0, vocabulary = 0, segments = 2;
  double dropout = 0, norm_epsilon = 1e-12;
  std::int64_t head() const { return embed / heads; }
};

// Throws Error: unknown keys, impossible sizes. `resolved`: with every default.
BertConfig read_bert(const Json& config, std::int64_t data_vocabulary, Json& resolved);
std::unique_ptr<ModelDescription> describe_bert(const Json& config, std::int64_t data_vocabulary);

}  // namespace quadrille
