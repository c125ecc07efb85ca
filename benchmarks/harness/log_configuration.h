// SPDX-License-Identifier: Apache-2.0
// The lines of a run's event log that describe it before run_start: benchmark, batch, optimizer, schedule, parallelism,
// seed. Keys are those that public checkers know, in an order they accept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "benchmarks/harness/experiment.h"
#include "benchmarks/harness/mllog.h"

namespace quadrille {

// Ends before init_stop; `init_start`: seconds of the clock; `timed_claims`: whether the run's times claim anything.
void log_configuration(MlLog&, const Experiment&, std::int64_t seed, double init_start, bool timed_claims);

// What must agree for two runs to count together: the resolved suite without seed, number of runs and prose, the back
// end and the number of ranks. A SHA-256 in hex.
std::string configuration_digest(const Json& resolved, std::string_view backend, int ranks);

}  // namespace quadrille
