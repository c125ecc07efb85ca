// SPDX-License-Identifier: Apache-2.0
// One run of one rank, from run_start to run_stop: steps, evaluations, the decision to stop, in which all ranks follow
// rank 0. What it saw is left in RunTrace; log and live line exist on rank 0 alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/experiment.h"
#include "benchmarks/harness/live.h"
#include "benchmarks/harness/power.h"
#include "benchmarks/harness/record.h"
#include "benchmarks/harness/run_log.h"
#include "benchmarks/harness/tally.h"
#include "parallelism/communicator.h"
#include "training/trainer.h"

namespace quadrille {

struct RunTrace {
  std::vector<StepLine> steps;
  std::vector<EvaluationLine> evaluations;
  std::string stop_reason;
  std::optional<double> seconds_to_target;
  double start_seconds = 0;  // of the run clock
  double timed_seconds = 0;
  std::optional<Power> power;  // of this host's GPUs, on the rank that asked
  double ledger_start = 0;     // Ledger::now() at run_start: common zero of a trace
  std::int64_t replica_comparisons = 0;
  Tally training, evaluation;  // phases of `evaluation` are those inside; `training.phases` has the wall time
};

class TimedRun {
 public:
  struct Parts {
    const Experiment& experiment;
    Communicator& world;  // for decisions; not the mesh's own
    Trainer& trainer;
    Ledger& ledger;
    const RunClock& clock;
    const Peak& peak;
    bool scans_data = false;             // the first rank of each process
    RunLog* log = nullptr;               // rank 0
    LiveLine* live = nullptr;            // rank 0
    std::atomic<bool>* began = nullptr;  // set once the data has been seen to be good
    PowerSampler* power = nullptr;       // the first rank of each host, where there are GPUs
    std::int64_t check_replicas = 0;     // steps between comparisons of what several ranks hold alike; 0: none
  };
  explicit TimedRun(const Parts& parts) : p_(parts) {}
  RunTrace go();

 private:
  void start();
  void train();
  void stop();
  void log_failure();
  void note(const StepReport&);
  void evaluate(std::int64_t done);
  void follow_rank_0(std::int64_t done);  // time limit, and when to ask again
  bool evaluation_due(std::int64_t done) const;
  void check_replicas(std::int64_t done);
  void log_block(bool begin, std::int64_t done);
  RunLog::Place place(std::int64_t done, double at = -1) const { return {samples(done), done, at}; }
  void log_statistics(std::int64_t done);
  LiveStatus live_status(const StepReport&) const;
  double since_start() const { return p_.clock.seconds() - trace_.start_seconds; }
  std::int64_t steps() const { return p_.experiment.workload.training.steps; }
  double row_work(std::int64_t steps) const {  // in the units of throughput
    return static_cast<double>(samples(steps) * p_.experiment.row_work.count);
  }
  std::int64_t samples(std::int64_t done) const { return done * p_.experiment.workload.training.batch_size; }

  Parts p_;
  RunTrace trace_;
  Tally begin_, evaluation_, replicas_;
  double logging_seconds_ = 0, scan_seconds_ = 0, replica_seconds_ = 0, evaluation_seconds_ = 0;
  std::int64_t next_decision_ = 1;
  bool block_open_ = false, log_open_ = false;  // log_open_: run_start is written, run_stop is not
};

}  // namespace quadrille
