// SPDX-License-Identifier: Apache-2.0
// A run beside published results. Unlike conditions are named and never divided; unverified rows are never read.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/harness/record.h"
#include "benchmarks/harness/score.h"
#include "core/json.h"

namespace quadrille {

// The rows of results/published/*.json that are marked verified; those of one kind.
std::vector<Json> published_rows(const std::string& folder, std::string_view kind);

// What differs between a run and a published time to train, each as "batch: 64 rows here, 512 there".
std::vector<std::string> differences(const Record&, const Json& row);
// Published minutes / ours, only when nothing differs.
std::optional<double> speed_ratio(const Record&, const Json& row);
// The rows whose parameter count is nearest to the run's by ratio, one per model, chip and source.
std::vector<Json> nearest_rows(const std::vector<Json>& rows, std::int64_t parameters, std::size_t count);
// Floors of the run's data set, or nothing: {metric, how, floors}.
std::optional<Json> floors_of(const Record&, const Json& floors);

// A set of runs is set beside published numbers by its score: the run whose time is nearest to it, with the score for
// its time to train, or without any when the set is not valid. `runs` must not be empty.
struct StandIn {
  Record record;
  std::size_t index = 0;  // which of the runs
};
StandIn stand_in(const std::vector<Record>& runs, const Score& score);

std::string published_text(const Record&, const std::string& folder, const Json& floors, std::size_t rows);

}  // namespace quadrille
