// SPDX-License-Identifier: Apache-2.0
// What each rank does, from its first breath to its exit: launch table, peak, mesh, trainer, timed runs, record,
// screen.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

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
  std::vector<std::string> made{};  // folders that rank 0 made
};

void run_rank(Session&, std::unique_ptr<Communicator> world);

// Throws Error when the folder exists and holds anything.
void refuse_used_folder(const std::string& out);
// Makes the folder and those above it; returns what was made, deepest first, so that a run that is refused leaves
// nothing.
std::vector<std::string> make_out_folder(const std::string& out);
void remove_empty_folders(const std::vector<std::string>& made);
// `option`: "--trace" or another that names a file to be written at the end. Throws Error when it exists or cannot be
// made there. Leaves nothing.
void refuse_file_place(const std::string& option, const std::string& path);
// Throws Error when the ranks of one host need more bytes than it has free. free_bytes 0: unknown, not judged.
void refuse_more_than_free(double needed_bytes, double free_bytes, int ranks);

}  // namespace quadrille
