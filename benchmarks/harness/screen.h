// SPDX-License-Identifier: Apache-2.0
// The screens of a run: what starts, where it runs, and at the end the score with its unit, valid or not, and why.
#pragma once

#include <string>

#include "benchmarks/harness/experiment.h"
#include "benchmarks/harness/launch.h"
#include "benchmarks/harness/record.h"

namespace quadrille {

std::string suite_title(const Record&);  // "gpt_tiny", or "gpt_tiny (changed)" when its notes say so
std::string opening_screen(const Experiment&, const Launch&);
std::string peak_line(const Peak&);
std::string run_line(const Experiment&, int run, std::int64_t seed, std::int64_t parameters);
std::string last_screen(const Record&, const std::string& record_path);
std::string mesh_text(const std::vector<std::pair<std::string, int>>& mesh);  // "data 2 x x 2", "1 rank"

}  // namespace quadrille
