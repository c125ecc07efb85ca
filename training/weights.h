// SPDX-License-Identifier: Apache-2.0
// A rank's weights: the parameters its blocks use, laid end to end in buckets, and the exchange that gathers them
// before use and pays what they owe. Between uses a parameter has no numbers to show where the strategy stores it in
// parts: fetch first. Used by the engine and its stages; not included outside training/.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/nn/moves.h"
#include "models/nn/parameter.h"
#include "parallelism/exchange.h"
#include "training/config.h"

namespace quadrille {

// Who uses what: from the rehearsal, for the whole model.
struct Usage {
  std::vector<std::vector<int>> blocks_of;  // by parameter: the blocks that use it, ascending
  std::vector<int> stage_of;                // by block
};

class Weights {
 public:
  // A collective call of the mesh's world (weights tied over stages get a group of their own). Memory of what is kept
  // comes from the device; whole weights and gradients of cut ones from the context's arena.
  Weights(Parameters&, const Usage&, Context&, const OptimizerConfig&);

  std::vector<Bucket>& buckets() { return buckets_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  const std::vector<int>& buckets_of(int block) const { return of_block_[static_cast<std::size_t>(block)]; }

  void prefetch(int block);
  void fetch(int block);
  void release(int block);
  void open(int block);
  // A bucket that several blocks use stays open until the first of them is done, the last in backward. `last`: of the
  // step's micro-batches.
  void close(int block, bool last);
  void finish() { exchange_.finish(); }
  void publish();
  void zero_gradients();

  // A parameter's local part as the optimizer knows it, of the wide type and on the host, for a moment: for initial
  // values, checks and tests. Collective for those who hold the parameter; the host waits.
  using Look = std::function<void(const Parameter&)>;
  void visit(Parameter&, const Look&);
  void change(Parameter&, const Look&);
  void change_all(const Look&);
  Tensor whole_gradient(const Parameter&);  // paid, of its local part
  bool holds(const Parameter& p) const { return p.home >= 0; }

  std::int64_t kept_bytes() const;  // as blocks use them
  std::int64_t master_bytes() const;
  std::int64_t gradient_bytes() const;

 private:
  void fill(Bucket&, std::vector<Parameter*>, const OptimizerConfig&, bool first_holder);
  Segment segment_of(const std::vector<Parameter*>& alike, std::int64_t first);
  void list_owned(Bucket&, const Segment&, const OptimizerConfig&, bool first_holder);
  void show(int bucket);
  void visit(int bucket, const std::vector<Parameter*>& shown, const Look&, bool changes);
  std::vector<Parameter*>& members(int bucket) { return members_[static_cast<std::size_t>(bucket)]; }

  Context& context_;
  Exchange exchange_;
  std::vector<Bucket> buckets_;
  std::vector<std::vector<Parameter*>> members_;  // by bucket
  std::vector<std::vector<int>> of_block_;        // by block: buckets it uses; empty where other stages have it
  std::vector<int> first_block_;                  // by bucket: the first of this rank's blocks that uses it
};

}  // namespace quadrille
