// SPDX-License-Identifier: Apache-2.0
// `quadrille compare` and `quadrille score`: read what runs left behind.
#include <fmt/core.h>

#include <filesystem>

#include "benchmarks/commands.h"
#include "benchmarks/harness/comparison.h"
#include "benchmarks/harness/locate.h"
#include "benchmarks/harness/published.h"
#include "benchmarks/harness/score.h"
#include "benchmarks/rules/conformance.h"

namespace quadrille {

namespace {

std::vector<RunOutcome> outcomes_of(const std::vector<std::string>& folders) {
  std::vector<RunOutcome> runs;
  for (const std::string& log : run_logs_in(folders)) runs.push_back(read_run_log(log));
  return runs;
}

// What `--runs N` left behind: the score of all, and the record that stands for it below.
Record record_of_set(const std::string& folder, const std::vector<std::string>& files) {
  std::vector<Record> records;
  for (const std::string& file : files) {
    records.push_back(read_record(file));
    fmt::print("{}", doubts_text(records.back()));
  }
  const std::vector<RunOutcome> runs = outcomes_of({folder});
  const Score score = score_of(runs);
  StandIn chosen = stand_in(records, score);
  fmt::print("{}\nBelow stands {}{}.\n\n", score_text(score, runs), files[chosen.index],
             chosen.record.seconds_to_target ? ", the run nearest to the score, with the score for its time" : "");
  return chosen.record;
}

}  // namespace

int compare_command(const CompareOptions& options) {
  if (options.published) {
    const std::string& place = options.first;
    const std::vector<std::string> set = std::filesystem::exists(std::filesystem::path(place) / "record.json")
                                             ? std::vector<std::string>{}
                                             : records_of_set(place);
    const Record record = set.empty() ? read_record(place) : record_of_set(place, set);
    if (set.empty()) fmt::print("{}", doubts_text(record));
    fmt::print("{}",
               published_text(record, locate_folder("results/published"), read_json(locate_file("results/floors.json")),
                              static_cast<std::size_t>(options.rows)));
    return exit_code::kGood;
  }
  const Record first = read_record(options.first);
  fmt::print("{}", doubts_text(first));
  const Record second = read_record(options.second);
  fmt::print("{}", doubts_text(second));
  const Comparison comparison = compare_records(first, second, options.tolerance);
  fmt::print("{}", comparison_text(first, second, comparison, options.tolerance));
  return comparison.same ? exit_code::kGood : exit_code::kDiffers;
}

int score_command(const std::vector<std::string>& folders) {
  const std::vector<RunOutcome> runs = outcomes_of(folders);
  const RulesScore judged = score_by_rules(runs);
  const Score& score = judged.score;
  fmt::print("{}\n{}", score_text(score, runs), conformance_text(conformance(runs, judged)));
  return score.valid ? exit_code::kGood : exit_code::kNotValid;
}

}  // namespace quadrille
