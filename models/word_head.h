// SPDX-License-Identifier: Apache-2.0
// The last block of models that predict a word at every token: norm, logits with a table of words, loss.
#pragma once

#include <string>

#include "models/model.h"
#include "models/nn/layers.h"

namespace quadrille {

struct WordHeadSizes {
  std::int64_t vocabulary = 0, embed = 0;
  NormKind norm = NormKind::layer;
  double norm_epsilon = 0, deviation = 0;  // deviation: of a table of its own
};

class WordHead : public Block {
 public:
  // `tied`: another block's table; null: it has its own, "head.table".
  WordHead(Parameters&, const std::string& norm_name, const WordHeadSizes&, Parameter* tied, double smoothing);
  Handed forward(Tape&, Handed) override;

 private:
  Dim words_;
  NormLayer norm_;
  double smoothing_;
  Parameter* table_;
};

}  // namespace quadrille
