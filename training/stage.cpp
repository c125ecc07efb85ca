// SPDX-License-Identifier: Apache-2.0
#include "training/stage.h"

#include <algorithm>
#include <utility>

namespace quadrille {

Stage::Stage(const std::vector<std::unique_ptr<Block>>& model, int first, int count) {
  for (int b = first; b < first + count; ++b) {
    blocks_.push_back(model[static_cast<std::size_t>(b)].get());
    numbers_.push_back(b);
  }
}

Handed take(Tape& tape, const Flow& flow) {
  const auto input = [&tape](const Carried& c) { return c ? tape.input(c.numbers, c.dims, c.states) : Var{}; };
  return {input(flow.hidden), input(flow.memory)};
}

Flow give(const Tape& tape, const Handed& made) {
  const auto of = [&tape](Var v) {
    return v.id >= 0 ? Carried{tape.tensor(v), tape.dims(v), tape.states(v)} : Carried{};
  };
  return {of(made.hidden), of(made.memory)};
}

void Stage::walk(Block& block, Walked& w) {
  w.in = take(*w.tape, w.input);
  w.out = block.forward(*w.tape, w.in);
}

Flow Stage::forward(Context& context, const MicroBatch& micro, Weights& weights, Flow in, int micro_batch) {
  Kept kept{micro, {}};
  const bool ahead = context.plan.overlap().all_gather;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const bool again = micro.training && context.plan.recomputes() && blocks_[b]->is_layer();
    weights.fetch(numbers_[b]);
    if (ahead && b + 1 < blocks_.size()) weights.prefetch(numbers_[b + 1]);
    Walked w;
    w.tape = std::make_unique<Tape>(context, micro, micro.training && !again ? Purpose::record : Purpose::look);
    w.input = std::move(in);
    walk(*blocks_[b], w);
    in = give(*w.tape, w.out);
    if (ahead && b > 0) weights.release(numbers_[b]);  // the prefetch's use
    if (!micro.training || !context.plan.store().keep_gathered) weights.release(numbers_[b]);
    if (again) w.tape.reset();
    if (micro.training) kept.blocks.push_back(std::move(w));
  }
  if (micro.training) kept_[micro_batch] = std::move(kept);
  return in;
}

FlowGradient Stage::backward(Context& context, Weights& weights, FlowGradient gradient, int micro_batch, bool last) {
  const auto node = kept_.extract(micro_batch);
  Kept& kept = node.mapped();
  const bool kept_gathered = context.plan.store().keep_gathered, ahead = context.plan.overlap().all_gather;
  for (std::size_t b = blocks_.size(); b-- > 0;) {
    if (!kept_gathered) weights.fetch(numbers_[b]);
    if (!kept_gathered && ahead && b > 0) weights.prefetch(numbers_[b - 1]);
    Walked& w = kept.blocks[b];
    if (!w.tape) {
      w.tape = std::make_unique<Tape>(context, kept.micro, Purpose::again);
      walk(*blocks_[b], w);
    }
    weights.open(numbers_[b]);
    if (w.out.hidden.id >= 0) w.tape->seed(w.out.hidden, std::move(gradient.hidden));
    if (w.out.memory.id >= 0) w.tape->seed(w.out.memory, std::move(gradient.memory));
    w.tape->backward();
    const auto of = [&w](Var in) { return in.id >= 0 ? w.tape->gradient(in) : Tensor(); };
    gradient = {of(w.in.hidden), of(w.in.memory)};
    w = {};
    weights.close(numbers_[b], last);
    if (!kept_gathered && ahead && b + 1 < blocks_.size()) weights.release(numbers_[b]);
    weights.release(numbers_[b]);
  }
  return gradient;
}

std::vector<Slice> cut_into_runs(const std::vector<std::unique_ptr<Block>>& model, int runs) {
  std::vector<int> layers;
  for (std::size_t b = 0; b < model.size(); ++b)
    if (model[b]->is_layer()) layers.push_back(static_cast<int>(b));
  const auto blocks = static_cast<std::int64_t>(model.size()), count = static_cast<std::int64_t>(layers.size());
  // A run begins at its first layer; runs without layers lie behind all others, before what follows the last layer.
  std::vector<Slice> cut;
  std::int64_t first = 0;
  for (int r = 0; r < runs; ++r) {
    const Slice own = part({0, count}, runs, r);
    std::int64_t end = own.end() < count ? layers[static_cast<std::size_t>(own.end())]
                                         : (count > 0 ? layers.back() + 1 : std::int64_t{0});
    if (r + 1 == runs) end = blocks;
    cut.push_back({first, end - first});
    first = end;
  }
  return cut;
}

}  // namespace quadrille
