// SPDX-License-Identifier: Apache-2.0
// A model is a row of blocks over one set of parameters. The block is the unit of tapes, buckets and accounting. Models
// are built by name from the "model" object of a workload; the list of them is literal, in catalog.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "datasets/field.h"
#include "kernels/backend.h"
#include "models/nn/parameter.h"
#include "models/nn/tape.h"

namespace quadrille {

// What passes from block to block: the residual stream, and between the layers of a decoder what its encoder made.
struct Handed {
  Var hidden = {}, memory = {};
};

class Block {
 public:
  explicit Block(std::string bucket) : bucket_(std::move(bucket)) {}
  virtual ~Block() = default;
  const std::string& bucket() const { return bucket_; }  // of the parameters that are this block's alone; may hold none
  // The first block is handed nothing; the last one puts its loss on the tape and hands nothing on.
  virtual Handed forward(Tape&, Handed) = 0;
  // One of the model's repeated layers: what a pipeline counts when it cuts, and what recomputation runs again.
  virtual bool is_layer() const { return false; }

 private:
  std::string bucket_;
};

// What a model says of itself before it is built: for checks that need no memory.
struct Requirement {
  std::string key;         // "model.heads"
  Axis axis = Axis::none;  // must be divisible by the parts of this axis
  std::int64_t extent = 0;
  bool replicates = false;  // or the parts be a multiple of it: each then holds a replica
};

// What one row of data is to whoever counts throughput: 256 of "token", 1 of "image".
struct RowWork {
  std::int64_t count = 1;
  std::string unit = "token";
};

class ModelDescription {
 public:
  virtual ~ModelDescription() = default;
  virtual Fields fields() const = 0;                 // what it reads of each row of data
  virtual RowWork row_work() const = 0;              // how throughput is counted
  virtual std::int64_t vocabulary() const = 0;       // of the labels: words or classes
  virtual std::int64_t tokens() const { return 0; }  // of a row's sequence that a mesh may split; 0: there is none
  // All sequences of a row; each is cut alike where a mesh splits sequences.
  virtual std::vector<Requirement> sequences() const { return {{"model.tokens", Axis::sequence, tokens()}}; }
  // The fields of labels that it has losses of, the main one first. The loss of a step is the sum of their means; what
  // evaluation reports is of the main one.
  virtual std::vector<std::string> losses() const { return {"labels"}; }
  virtual bool layers_read_fields() const { return false; }  // not the first and the last block alone
  virtual ScratchSizes scratch_sizes() const { return {}; }  // on which temporary memory of ops depends
  virtual std::vector<Requirement> requirements() const = 0;
  // Matrix products only, 2 per multiply-add, forward of `rows` rows, over all ranks. `causal`: attention counted at
  // half. Formulas: docs/metrics.md.
  virtual double forward_flops(std::int64_t rows, bool causal) const = 0;
  virtual std::vector<std::unique_ptr<Block>> build(Parameters&, double label_smoothing) const = 0;
  // What someone who planned a run under this strategy should know, a line each.
  virtual std::vector<std::string> notes(const Plan&) const { return {}; }
  virtual const Json& resolved() const = 0;  // the configuration with every default
};

// `data_vocabulary`: what "vocabulary": "data" means. Throws Error: unknown kind or key, impossible sizes.
std::unique_ptr<ModelDescription> describe_model(const Json& config, std::int64_t data_vocabulary);
std::vector<std::string> model_names();

}  // namespace quadrille
