// SPDX-License-Identifier: Apache-2.0
// Whether a run's numbers may be believed. Each rule is one small function that adds a reason (the run is not valid) or
// a note (valid, but the reader should know). `judge` applies all of them.
#pragma once

#include "benchmarks/harness/record.h"

namespace quadrille {

void rule_stopped_properly(const Record&, Verdict&);  // diverged, or cut short
void rule_target_reached(const Record&, Verdict&);
void rule_steps_complete(const Record&, Verdict&);       // 1, 2, 3, ... each once, finite
void rule_evaluation_complete(const Record&, Verdict&);  // every label of the set counted once, each time
void rule_flops_equal_formula(const Record&, Verdict&);  // useful + skipped = the model's formula
void rule_below_peak(const Record&, Verdict&);           // no utilisation above 100 %
void rule_timed_backend(const Record&, Verdict&);
void rule_enough_steps(const Record&, Verdict&);
void rule_phases_add_up(const Record&, Verdict&);       // within 2 % of the wall time
void rule_memory_as_forecast(const Record&, Verdict&);  // arena and parameters within 15 %
void rule_steady_probe(const Record&, Verdict&);
void rule_clean_sources(const Record&, Verdict&);

Verdict judge(const Record&);

}  // namespace quadrille
