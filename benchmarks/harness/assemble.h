// SPDX-License-Identifier: Apache-2.0
// From what the ranks saw to one record: each rank's share of work, messages, memory and times travels to rank 0, which
// adds up, takes statistics and judges.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/harness/experiment.h"
#include "benchmarks/harness/launch.h"
#include "benchmarks/harness/record.h"
#include "benchmarks/harness/timed_run.h"

namespace quadrille {

// What one rank sends.
Json contribution_json(const RankLine&, const RunTrace&);

struct RunFacts {
  int run_index = 0;
  std::int64_t seed = 0;
  double started_unix = 0;
  std::int64_t parameters = 0;
  double model_flops_full = 0, model_flops_causal = 0;  // of one step
  bool timed_claims = true;
  PipelineReport pipeline;
  std::string links;  // that were emulated; empty: none
};
Record assemble(const Experiment&, const RunFacts&, const Peak&, const RunTrace& of_rank_0,
                const std::vector<Json>& contributions);

}  // namespace quadrille
