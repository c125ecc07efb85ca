// SPDX-License-Identifier: Apache-2.0
// Two runs side by side: conditions first, then losses step by step, then times where the conditions allow it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/record.h"

namespace quadrille {

struct Difference {
  std::string name, first, second;
};

struct Comparison {
  std::vector<Difference> numbers;       // conditions that change the losses: model, data, training, seed
  std::vector<Difference> surroundings;  // conditions that change at most times and rounding
  std::int64_t first_steps = 0, second_steps = 0, common_steps = 0, equal_steps = 0;  // equal: bit for bit
  std::optional<std::int64_t> first_divergence;  // the first common step beyond the tolerance
  double largest_difference = 0;                 // relative, of losses
  std::int64_t largest_at = 0;
  double largest_norm_difference = 0;
  std::int64_t first_evaluations = 0, second_evaluations = 0, common_evaluations = 0;  // common: after the same step
  std::optional<std::int64_t> first_evaluation_apart;  // the first common one beyond the tolerance
  bool same = false;  // same conditions for the numbers, same steps and evaluations, all within the tolerance
};

// A record against itself: why it should not be believed (its own verdict, and the rules applied anew). Throws Error
// when its statistics are not those of its steps: then somebody changed one of the two.
std::vector<std::string> doubts_of(const Record&);
std::string doubts_text(const Record&);  // one line each, for the terminal; empty: none

Comparison compare_records(const Record& first, const Record& second, double tolerance);
std::string comparison_text(const Record& first, const Record& second, const Comparison&, double tolerance);

}  // namespace quadrille
