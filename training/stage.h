// SPDX-License-Identifier: Apache-2.0
// The row of blocks of one rank, walked forward and back for one micro-batch at a time. A tape lives per block and
// micro-batch, from its forward to its backward; a finished block's bucket goes to the exchange at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/model.h"
#include "parallelism/exchange.h"

namespace quadrille {

class Stage {
 public:
  explicit Stage(std::vector<std::unique_ptr<Block>> blocks) : blocks_(std::move(blocks)) {}

  void forward(Context&, const MicroBatch&);            // keeps its tapes when micro_batch.training
  // Walks the tapes back, last block first. On the last micro-batch of a step each block's bucket is handed over as soon
  // as the block is done; buckets of several blocks (tied weights) at the end.
  void backward(Exchange* pay_to, const std::vector<Bucket>& buckets, const std::vector<int>& bucket_of_block);
  void note_debts();                                    // rehearsal: after a forward, instead of a backward
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }

 private:
  struct Walked {
    std::unique_ptr<Tape> tape;
    Var in, out;
  };
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Walked> walked_;
};

}  // namespace quadrille
