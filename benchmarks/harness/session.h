// SPDX-License-Identifier: Apache-2.0
// What each rank does, from its first breath to its exit: launch table, peak, mesh, trainer, timed runs, record,
// screen.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "benchmarks/harness/experiment.h"
#include "benchmarks/harness/mllog.h"
#include "benchmarks/options.h"
#include "parallelism/communicator.h"

namespace quadrille {

// Shared by the rank threads of one process.
struct Session {
  const RunOptions& options;
  const RunClock& clock;              // born with the process
  std::atomic<bool>& training_began;  // an error is bad input before, a failure after
  std::string world{}, out{};         // "threads"; where log and record go
  std::unique_ptr<const Experiment>
      experiment{};         // resolved before the ranks exist; null: each process does it as a rank
  double data_seconds = 0;  // spent on resolving it and opening its data
  std::atomic<int> exit{0};
};

void run_rank(Session&, std::unique_ptr<Communicator> world);

// Throws Error when the folder exists and holds anything.
void refuse_used_folder(const std::string& out);

}  // namespace quadrille
