// SPDX-License-Identifier: Apache-2.0
// What a rank's training consists of, on any back end: model, buckets, arena, optimizer, one step, one evaluation. Trainer
// shows it to the harness; the forecast runs the same class on the counting back end. Not included outside training/.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "training/layout.h"
#include "training/optimizer.h"
#include "training/stage.h"
#include "training/trainer.h"

namespace quadrille {

// What the counting run must say before a real one can lay out its memory.
struct Rehearsal {
  std::vector<MeshAxes> owed;        // by parameter, in order of creation
  std::int64_t arena_bytes = 0;
};

// Rows of a micro-batch of a step, or of an evaluation pass.
using ReadRows = std::function<Batch(Slice rows)>;

class Engine {
 public:
  // `rehearsal`: null on a counting device, which finds out for itself. Weights start from the seed.
  Engine(const Workload&, const Mesh&, Device&, const Ops&, Ledger&, const Rehearsal* rehearsal);

  void step(const Dataset* data /* null: counting */, std::int64_t step);
  std::optional<StepReport> report();          // of the last step not yet reported
  EvaluationReport evaluate(const Dataset*);   // null: counts one batch

  Rehearsal rehearsal() const;
  MemoryReport memory() const;
  Parameters& parameters() { return parameters_; }
  const ModelDescription& model() const { return *model_; }
  const Plan& plan() const { return plan_; }
  Context& context() { return context_; }

 private:
  void rehearse();
  void find_buckets_of_blocks();
  void zero_gradients();
  MicroBatch feed(const Batch&, std::int64_t rows, std::int64_t first_row, bool training);
  void finish_step(std::int64_t step);
  Batch rows_of(const Dataset*, std::int64_t step, std::int64_t micro, std::int64_t rows) const;
  std::int64_t micro_batches() const { return workload_.training.batch_size / rows_per_micro_batch_; }
  Slice own_rows(std::int64_t rows) const;

  const Workload& workload_;
  const Mesh& mesh_;
  Device& device_;
  std::unique_ptr<Device> host_ = make_host_device();
  std::unique_ptr<Stream> stream_;
  Ledger& ledger_;
  Ledger evaluation_ledger_;                   // evaluation is not part of a step's bill
  Plan plan_;
  std::unique_ptr<ModelDescription> model_;
  Parameters parameters_;
  Stage stage_;
  Arena arena_;
  Context context_, evaluation_context_;
  std::int64_t rows_per_micro_batch_;          // over all ranks
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_block_;
  std::unique_ptr<Optimizer> optimizer_;
  Exchange exchange_;
  Tensor totals_;                              // f64 [3]: Σ loss, Σ count, Σ g²
  struct Reported {
    Tensor scalars, host;                      // f64 [kStepScalars] on the device and its copy
    std::unique_ptr<Event> begin, end;
    std::int64_t step = 0;                     // 0: nothing to report
  };
  std::array<Reported, 2> ring_;
  std::size_t latest_ = 0;
  Tensor ids_, labels_, host_ids_, host_labels_;
};

}  // namespace quadrille
