// SPDX-License-Identifier: Apache-2.0
// The score of a set of runs: the published rule of time-to-train suites (drop the fastest and the slowest, mean of the
// rest) with its treatment of runs that did not converge. Reads the ":::MLLOG" files that runs leave behind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/record.h"
#include "core/json.h"

namespace quadrille {

struct RunOutcome {
  std::string file;
  std::string benchmark, division;
  double seconds = 0;  // run_start to run_stop
  bool converged = false;
  std::string why_not;  // "run_stop says aborted", "no run_stop: the run ended early"
  std::vector<std::int64_t> seeds;
  std::int64_t batch_size = 0;
  // What the log says it was aimed at; two runs count together only when all of this agrees.
  std::optional<Target> target;  // empty: a run of fixed steps
  std::string unit, configuration_digest;
  // How far training had come at the last evaluation before run_stop, as its line says.
  std::optional<double> epoch_num, samples_count;
  bool timed_claims = true;         // false: a back end whose times claim nothing
  std::vector<std::string> faults;  // why its outcome is not believed although the log says success
};

struct Score {
  bool valid = false;
  bool timed_claim = true;  // false: a run of it was computed by a back end that is not meant for timed results
  bool olympic = false;     // false: fewer than three runs, a plain mean
  double seconds = 0;       // meaningful when valid
  double scaling = 1;       // that `seconds` holds already: for converging faster than the reference
  int runs = 0, not_converged = 0;
  double fastest_seconds = 0, slowest_seconds = 0;  // of the converged ones
  std::vector<std::string> reasons;                 // why not valid
  std::vector<std::string> notes;
};

Score score_of(const std::vector<RunOutcome>& runs);

// Throws Error: unreadable, or a line that is not what it should be (file and line named). A success is believed only
// when an evaluation before run_stop reached the stated target and the record beside the log, if there is one, agrees.
RunOutcome read_run_log(const std::string& path);
// The result_*.txt of these folders, in the order of their numbers; throws Error when there is none or when
// one file would be counted twice, by whatever path it is named.
std::vector<std::string> run_logs_in(const std::vector<std::string>& folders);

Json score_json(const Score& score, const std::vector<RunOutcome>& runs);
std::string score_text(const Score& score, const std::vector<RunOutcome>& runs);  // table and verdict, for the terminal

}  // namespace quadrille
