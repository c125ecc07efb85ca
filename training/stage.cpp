// SPDX-License-Identifier: Apache-2.0
#include "training/stage.h"

#include <algorithm>

namespace quadrille {

void Stage::forward(Context& context, const MicroBatch& micro) {
  walked_.clear();
  Tensor hidden;
  Dims dims;
  States states;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    auto tape = std::make_unique<Tape>(context, micro);
    const Var in = b == 0 ? Var{} : tape->input(hidden, dims, states);
    const Var out = blocks_[b]->forward(*tape, in);
    if (out.id >= 0) hidden = tape->tensor(out), dims = tape->dims(out), states = tape->states(out);
    else hidden = {};
    if (micro.training) walked_.push_back({std::move(tape), in, out});
  }
}

void Stage::backward(Exchange* pay_to, const std::vector<Bucket>& buckets, const std::vector<int>& bucket_of_block) {
  std::vector<bool> paid(buckets.size(), false);
  Tensor gradient;
  for (std::size_t b = blocks_.size(); b-- > 0;) {
    Walked& w = walked_[b];
    if (w.out.id >= 0) w.tape->backward(w.out, std::move(gradient));
    else w.tape->backward();
    gradient = w.in.id >= 0 ? w.tape->gradient(w.in) : Tensor();
    w.tape.reset();
    if (const int k = bucket_of_block[b]; pay_to && k >= 0) {
      pay_to->start(buckets[static_cast<std::size_t>(k)]);
      paid[static_cast<std::size_t>(k)] = true;
    }
  }
  walked_.clear();
  if (!pay_to) return;
  for (std::size_t k = 0; k < buckets.size(); ++k)
    if (!paid[k]) pay_to->start(buckets[k]);
}

void Stage::note_debts() {
  for (Walked& w : walked_) w.tape->note_debts();
  walked_.clear();
}

}  // namespace quadrille
