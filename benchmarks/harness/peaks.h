// SPDX-License-Identifier: Apache-2.0
// From steps, FLOPs and peaks to utilisations. The divisor is always named: a peak measured on the cores in use, or the
// data sheet's for known chips. Unknown chips have no data sheet figure, never a guess.
#pragma once

#include <string>

#include "benchmarks/harness/record.h"

namespace quadrille {

// Fills the data sheet fields from results/peaks.json by chip and number type.
void add_datasheet_peak(Peak&, const std::string& chip, const std::string& number_type, int chips, const Json& table);
StepStatistics step_statistics(const std::vector<StepLine>&);
// Needs flops, peak, step_statistics and timed_seconds of the record; number_type: of the run.
Utilisation utilisation_of(const Record&, const std::string& number_type);

}  // namespace quadrille
