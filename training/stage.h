// SPDX-License-Identifier: Apache-2.0
// A run of blocks that lie together on a rank, walked forward and back for one micro-batch at a time: all of the model,
// or what a pipeline gave to one of its stages. A tape lives per block and micro-batch, from its forward to its
// backward; where layers are recomputed only their input is kept and the tape is built again. A block's weights are at
// hand while it works, and its gradients go to the exchange as soon as it is done.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "models/model.h"
#include "training/weights.h"

namespace quadrille {

// What passes between blocks and stages.
struct Carried {
  Tensor numbers;
  Dims dims;
  States states;
  explicit operator bool() const { return !dims.empty(); }
};
struct Flow {
  Carried hidden, memory;  // memory: of an encoder-decoder, from where the decoder begins
};
struct FlowGradient {
  Tensor hidden, memory;
};

class Stage {
 public:
  // Blocks [first, first + count) of the model; may be none.
  Stage(const std::vector<std::unique_ptr<Block>>& model, int first, int count);

  // The input goes in, the output of the last block comes out (nothing after the loss). Tapes are kept under the
  // number of the micro-batch when it is trained on.
  Flow forward(Context&, const MicroBatch&, Weights&, Flow in, int micro_batch);
  // The gradient of what came out goes in, that of what went in comes out. `last`: of the step's micro-batches here.
  FlowGradient backward(Context&, Weights&, FlowGradient, int micro_batch, bool last);
  const std::vector<int>& blocks() const { return numbers_; }

 private:
  struct Walked {
    std::unique_ptr<Tape> tape;  // none: to be built again from the input
    Flow input;
    Handed in, out;
  };
  struct Kept {
    MicroBatch micro;
    std::vector<Walked> blocks;
  };
  static void walk(Block&, Walked&);

  std::vector<Block*> blocks_;
  std::vector<int> numbers_;  // of the blocks in the model
  std::map<int, Kept> kept_;  // by micro-batch
};

// What a tape makes of a flow, and a flow of what a tape made.
Handed take(Tape&, const Flow&);
Flow give(const Tape&, const Handed&);

// Which blocks each of `runs` stages-to-be has: layers as evenly as can be, the longer runs first; what comes before
// the first layer goes with the first run, what follows a layer goes with it.
std::vector<Slice> cut_into_runs(const std::vector<std::unique_ptr<Block>>& model, int runs);

}  // namespace quadrille
