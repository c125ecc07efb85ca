// SPDX-License-Identifier: Apache-2.0
// Logs of full benchmarks as the program's own emitter writes them, from the suite's configuration where the model is
// there, from given values where it is not. tests/golden keeps them; the log checker is held against them.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"

namespace quadrille {

struct GoldenLog {
  std::string name, ruleset;  // "resnet", "4.0.0"
};
const std::vector<GoldenLog>& golden_logs();  // those that are kept

std::string golden_text(const std::string& name);  // also "resnet_sgd", "gpt_synthetic", "gpt_synthetic_sgd"

std::vector<Json> lines_of_log(const std::string& text);
std::string text_of_lines(const std::vector<Json>& lines);

}  // namespace quadrille
