// SPDX-License-Identifier: Apache-2.0
// One step, one evaluation, on one rank. The trainer owns the model, its buckets, optimizer state and arenas; the same
// class on the counting back end is the plan. It prints nothing and decides nothing about targets: the harness does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/ledger.h"
#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "parallelism/courier.h"
#include "parallelism/mesh.h"
#include "parallelism/plan.h"
#include "training/config.h"

namespace quadrille {

struct StepReport {
  std::int64_t step = 0;     // from 1
  double loss = 0;           // nats per counted label, of the global batch
  double gradient_norm = 0;  // of the mean loss, before clipping
  double rate = 0;
  double labels = 0;   // counted labels of the global batch
  bool finite = true;  // false: loss or gradients were not; the step changed nothing
  double seconds = 0;  // from this step's start to the next one's, on this rank
};

struct EvaluationReport {
  double loss_sum = 0;  // nats over all counted labels
  double labels = 0;
  double correct = 0;  // of them; k equal largest logits share one
  double units = 0;    // Dataset::units()
  double quality = 0;  // loss_sum / units: nats per character (or token)
  double seconds = 0;
};

// Bytes of one rank, by purpose.
struct MemoryReport {
  // `weights`: as blocks use them; `optimizer`: its state, and f32 masters where weights are bf16.
  std::int64_t weights = 0, gradients = 0, optimizer = 0, activations = 0 /* arena */,
               scratch = 0 /* of the back end */;
  std::int64_t total() const { return counted_together({weights, gradients, optimizer, activations, scratch}); }
};

// How a pipeline cuts the model.
struct PipelineReport {
  int stages = 1, chunks = 1;
  std::string schedule;              // "1f1b"
  std::vector<std::int64_t> layers;  // of each run of blocks, in the model's order; run r lies on stage r mod stages
  std::int64_t micro_batches = 1;    // of a step
  double bubble = 0;                 // share of time that stages idle if every run took the same time
};

// What the counting run of one training step and one evaluation batch says about this rank.
struct Forecast {
  MemoryReport memory;
  Work step_work;                                       // FLOPs of one step on this rank
  std::map<Ledger::MessageKey, Traffic> step_messages;  // seconds are zero
  PipelineReport pipeline;
  std::int64_t parameters = 0;                          // of the whole model, tied weights once
  std::vector<std::string> notes;                       // of the model about the strategy
  double model_flops_full = 0, model_flops_causal = 0;  // of one step over the global batch, by the closed formula
};

// What is trained: everything a rank must know to build its part.
struct Workload {
  Json model;  // the "model" object
  TrainingConfig training;
  Json strategy;  // the strategy table
  std::uint64_t seed = 0;
  bool replay = true;           // a device may keep the work of a step and do it again in one call
  int threads = 1;              // of a rank: decides the back end's temporary memory
  std::int64_t vocabulary = 0;  // of the data set; the model's own may be larger
  // Beside each rank, reading the rows of coming batches; training data then outlive the trainer. 0: it reads them
  // itself.
  int data_threads = 0;
};

// The rows of a micro-batch as a rank takes them up. Ranks that split anything but the batch take up the same ones.
struct SamplesTaken {
  std::int64_t step = 0, micro_batch = 0;  // from 1; from 0
  std::int64_t first_row = 0;              // of the step
  const std::vector<Sample>& samples;      // of the rows from there on
};

// All violations of a workload by this world size, at once, each with its legal values; throws Error. Needs no data, no
// memory.
void check_workload(const Workload&, int ranks);
// The mesh of a strategy table on `ranks` ranks ("*" resolved).
std::vector<MeshAxis> mesh_of(const Json& strategy, int ranks);
// The mesh of a strategy, and a courier for its messages where the table lets any travel beside the maths.
class StrategyMesh {
 public:
  // A collective call. Traffic goes to `ledger`; what the courier carried is added when the trainer ends a step.
  StrategyMesh(std::unique_ptr<Communicator> world, const Json& strategy, Ledger& ledger);
  const Mesh& mesh() const { return *mesh_; }

 private:
  std::unique_ptr<Courier> courier_;
  std::unique_ptr<Mesh> mesh_;
};
// Counts for any rank of any world without running it. `backend` names the one to be forecast.
Forecast forecast(const Workload&, const Backend& backend, int ranks, int rank);

class Trainer {
 public:
  // Builds weights (values are a function of the seed) and memory. A collective call of the mesh's world. The device is
  // one of the back end's, opened before the world of the mesh was made (parallelism/rank_device.h).
  Trainer(const Workload&, const Mesh&, const Backend&, Device&, Ledger&);
  ~Trainer();
  Trainer(Trainer&&) noexcept;

  // Trains on step `step` (from 0) and returns the report of the step before, so that no step waits for the host.
  std::optional<StepReport> step(const Dataset&, std::int64_t step);
  std::optional<StepReport> flush();  // the report still outstanding
  // Told in training, on the rank's own thread. Stages of a pipeline that look at no data take up none.
  void watch_samples(std::function<void(const SamplesTaken&)>);
  // Every window once, over all ranks; the same number on every rank.
  EvaluationReport evaluate(const Dataset&);

  PipelineReport pipeline() const;
  MemoryReport memory() const;  // as allocated (arena: its peak so far)
  std::int64_t parameters() const;
  std::int64_t replayed_steps() const;  // done in one call of the device
  double model_flops_full() const;      // of one step over the global batch, forward and backward
  double model_flops_causal() const;
  // Values and gradients of one parameter, whole (gathered), as f64; every rank gets them. For checks and tests.
  std::vector<std::string> parameter_names() const;
  std::vector<double> whole_value(const std::string& parameter);
  std::vector<double> whole_gradient(const std::string& parameter);  // of the sum of losses, of the last step
  void perturb(double deviation, std::uint64_t seed);  // adds addressed noise to every parameter: nothing stays zero
  void shift(const std::string& parameter, std::int64_t global_index,
             double change);     // adds to one element, wherever it is held
  std::uint64_t replica_hash();  // of all weights; equal on every rank that holds the same numbers, checked inside

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace quadrille
