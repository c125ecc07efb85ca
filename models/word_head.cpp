// SPDX-License-Identifier: Apache-2.0
#include "models/word_head.h"

namespace quadrille {

WordHead::WordHead(Parameters& p, const std::string& norm_name, const WordHeadSizes& sizes, Parameter* tied,
                   double smoothing)
    : Block("head"),
      words_{Axis::vocab, sizes.vocabulary},
      norm_(p, "head", norm_name, {Axis::embed, sizes.embed}, sizes.norm, sizes.norm_epsilon),
      smoothing_(smoothing),
      table_(tied ? tied
                  : &p.make("head.table", "head", {words_, {Axis::embed, sizes.embed}}, 0, sizes.deviation, true)) {}

Handed WordHead::forward(Tape& tape, Handed in) {
  const Var x = norm_(tape, in.hidden);
  tape.scope("head");
  const Var logits = tape.settle(tape.linear(x, tape.use(*table_), 1, {words_}, Tape::Summed::last));
  tape.cross_entropy(logits, "labels", smoothing_);
  return {};
}

}  // namespace quadrille
