// SPDX-License-Identifier: Apache-2.0
// `quadrille compare` and `quadrille score`: read what runs left behind.
#include <fmt/core.h>

#include "benchmarks/commands.h"
#include "benchmarks/harness/comparison.h"
#include "benchmarks/harness/locate.h"
#include "benchmarks/harness/published.h"
#include "benchmarks/harness/score.h"

namespace quadrille {

int compare_command(const CompareOptions& options) {
  const Record first = read_record(options.first);
  fmt::print("{}", doubts_text(first));
  if (options.published) {
    fmt::print("{}",
               published_text(first, locate_folder("results/published"), read_json(locate_file("results/floors.json")),
                              static_cast<std::size_t>(options.rows)));
    return exit_code::kGood;
  }
  const Record second = read_record(options.second);
  fmt::print("{}", doubts_text(second));
  const Comparison comparison = compare_records(first, second, options.tolerance);
  fmt::print("{}", comparison_text(first, second, comparison, options.tolerance));
  return comparison.same ? exit_code::kGood : exit_code::kDiffers;
}

int score_command(const std::vector<std::string>& folders) {
  std::vector<RunOutcome> runs;
  for (const std::string& log : run_logs_in(folders)) runs.push_back(read_run_log(log));
  const Score score = score_of(runs);
  fmt::print("{}", score_text(score, runs));
  return score.valid ? exit_code::kGood : exit_code::kNotValid;
}

}  // namespace quadrille
