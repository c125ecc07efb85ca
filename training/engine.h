// SPDX-License-Identifier: Apache-2.0
// What a rank's training consists of, on any back end: model, buckets, arena, optimizer, one step, one evaluation.
// Trainer shows it to the harness; the forecast runs the same class on the counting back end. Not included outside
// training/.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "parallelism/schedule.h"
#include "training/channel.h"
#include "training/feeder.h"
#include "training/optimizer.h"
#include "training/stage.h"
#include "training/trainer.h"
#include "training/weights.h"

namespace quadrille {

// What the counting run must say before a real one can lay out its memory.
struct Rehearsal {
  std::vector<MeshAxes> owed;               // by parameter, in order of creation
  std::vector<std::vector<int>> blocks_of;  // by parameter: the blocks that use it
  std::vector<Flow> into;                   // by block: what comes in, without numbers
  std::int64_t arena_bytes = 0;
  bool same_every_step = false;  // but for the rows and the step's settings
};

class Engine {
 public:
  // `rehearsal`: null on a counting device, which finds out for itself. Weights start from the seed.
  Engine(const Workload&, const Mesh&, Device&, const Ops&, Ledger&, const Rehearsal* rehearsal);

  void step(const Dataset* data /* null: counting */, std::int64_t step);
  // Of the step before the last one: by now the last one has been handed to the device, so waiting holds up nothing.
  std::optional<StepReport> report_before() { return report(ring_[1 - latest_]); }
  std::optional<StepReport> report_last() { return report(ring_[latest_]); }  // waits for the device
  EvaluationReport evaluate(const Dataset*);                                  // null: counts one batch

  void watch_samples(std::function<void(const SamplesTaken&)> watch) { watch_samples_ = std::move(watch); }
  std::int64_t replayed_steps() const { return replayed_steps_; }
  void settle_accounts();  // nothing is under way: what the courier carried joins this rank's ledger
  const Rehearsal& rehearsal() const { return rehearsal_; }  // on a counting device: complete after a step
  std::int64_t arena_bytes() const { return arena_.bytes_peak(); }
  MemoryReport memory() const;
  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  Weights& weights() { return *weights_; }
  PipelineReport pipeline() const;
  bool over_several_stages(std::size_t parameter) const;  // tied, and its blocks lie on more than one
  bool has_layers() const;                                // this rank's stage has any
  const ModelDescription& model() const { return *model_; }
  const Plan& plan() const { return plan_; }
  Context& context() { return context_; }

 private:
  void rehearse();
  void open_pipeline();
  Usage usage() const;
  int stage_of(int block) const;
  void open_fields();
  void open_losses();
  LossTotals loss(std::size_t number) const;
  MicroBatch feed(const Batch* /* null: no numbers */, std::int64_t rows, std::int64_t first_row, bool training,
                  int slot);
  MicroBatch next_rows(const Dataset*, std::int64_t step, int micro_batch, int chunk);
  void load_rows(const Dataset*, std::int64_t step);
  void forward(const Task&, const Dataset*, std::int64_t step);
  void backward(const Task&);
  Flow take_in(Context&, int run);
  void hand_on(Flow, int run);
  Tensor receive_gradient(const Carried&);
  void settle_channels();  // nothing that this stage sent is under way
  void finish_step();
  void work_of_step(const Dataset*, std::int64_t step);
  bool may_replay() const;
  bool replay_step();
  void send_settings(std::int64_t step);
  int first_look() const;
  RowsOfSteps rows_of_steps() const;
  template <class Feeding>
  const Batch* wait_for(Feeding&);
  std::int64_t micro_batches() const { return workload_.training.batch_size / rows_per_micro_batch_; }
  Slice own_rows(std::int64_t rows) const;
  MeshAxes axes_of_rows() const;  // over which they are dealt out
  int run_of(int chunk) const { return chunk * plan_.stages() + plan_.stage(); }
  bool is_last(int run) const { return run + 1 == static_cast<int>(runs_.size()); }
  bool looks_at_rows(int run) const { return run == 0 || is_last(run) || model_->layers_read_fields(); }

  const Workload& workload_;
  const Mesh& mesh_;
  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Device> host_;  // copies to and from it do not wait
  Ledger& ledger_;
  Ledger evaluation_ledger_;  // evaluation is not part of a step's bill
  Plan plan_;
  std::unique_ptr<ModelDescription> model_;
  Parameters parameters_;
  std::vector<std::unique_ptr<Block>> blocks_;  // of the whole model; a stage walks its own
  Rehearsal rehearsal_;
  std::vector<Slice> runs_;
  std::vector<Stage> stages_;  // by chunk
  std::vector<Task> tasks_;
  bool loads_ahead_ = false;        // all rows of a step are put on the device before it begins
  std::vector<MicroBatch> loaded_;  // of a step whose rows are all there before it begins, by micro-batch
  Arena arena_;
  Context context_, evaluation_context_;
  std::int64_t rows_per_micro_batch_;  // over all ranks
  std::optional<Channel> onwards_,
      backwards_;  // of activations, and apart from them of gradients; where there are stages
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<std::string> losses_;  // of the model, the main one first
  // f64 [3 + 2 for each further loss]: Σ loss, Σ count, Σ g² (evaluations: correct labels); (Σ loss, Σ count) ...
  Tensor totals_, host_totals_;
  Tensor counts_;  // f64 [2 for each further loss]: labels of the step that count in the main loss, and in this one
  // A phase of a step, as the stream goes through it.
  struct Phase {
    std::string_view name;
    std::unique_ptr<Event> begin, end;
  };
  struct Reported {
    Tensor settings, counts, scalars;  // the host's copies: f64 [2], rate and step; as counts_; f64 [kStepScalars]
    std::unique_ptr<Event> begin, end;
    std::vector<Phase> phases;
    std::int64_t step = 0;  // 0: nothing to report
  };
  std::optional<StepReport> report(Reported&);
  // The work of one phase of the step in hand.
  template <class Work>
  void phase(std::string_view name, Work&& work);
  Tensor settings_, scalars_;  // on the device
  std::array<Reported, 2> ring_;
  std::size_t latest_ = 0;
  Fields fields_;                   // of the model
  using Fed = std::vector<Tensor>;  // one for each of them
  std::vector<Fed> fed_;            // on the device; as many as micro-batches are under way at once
  // Their way there. Two steps' worth, so that the host never waits for a copy of the step before.
  struct Staged {
    Fed host;
    std::unique_ptr<Event> copied;
  };
  std::vector<Staged> staged_;
  std::optional<TrainingFeeder> training_rows_;             // where this stage looks at data
  std::function<void(const SamplesTaken&)> watch_samples_;  // empty: nobody wants to know
  std::size_t next_staged_ = 0;
  // The work of a step, kept once the first steps have made libraries choose their ways.
  std::unique_ptr<Replay> replay_;
  Work replayed_work_;
  std::int64_t steps_done_ = 0, replayed_steps_ = 0;
  bool can_keep_ = true, keeping_ = false;
};

}  // namespace quadrille
