// SPDX-License-Identifier: Apache-2.0
// The values that a run's event log says about its configuration (log_table.h has the keys), taken from the resolved
// suite: benchmark, batch, optimizer, schedule, parallelism, seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "benchmarks/harness/experiment.h"
#include "benchmarks/harness/log_table.h"
#include "benchmarks/harness/run_log.h"

namespace quadrille {

// The name under which a run is logged: that of the published benchmark where the suite follows its rules.
std::string benchmark_name(const Experiment&);
// `timed_claims`: whether the run's times claim anything.
Json configuration_values(const Experiment&, std::int64_t seed, bool timed_claims);
RunLog::Units log_units(const Experiment&);

// What must agree for two runs to count together: the resolved suite without seed, number of runs and prose, the back
// end and the number of ranks. A SHA-256 in hex.
std::string configuration_digest(const Json& resolved, std::string_view backend, int ranks);

}  // namespace quadrille
