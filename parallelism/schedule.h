// SPDX-License-Identifier: Apache-2.0
// In which order a rank works on the micro-batches of a step. With one stage it is gradient accumulation. Schedules of
// GPipe (Huang et al. 2019), PipeDream-flush or 1F1B (Narayanan et al. 2019, 2021) and interleaved 1F1B (Narayanan et
// al. 2021, section 2.2). Pure functions; used by the engine, by plan and by the tests of bubbles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallelism/plan.h"

namespace quadrille {

// Work units of a rank in one step, micro-batches x chunks: more are refused (their list alone would fill memory).
constexpr std::int64_t kMostUnits = 1'000'000;

struct Task {
  enum class Kind : std::uint8_t { forward, backward } kind = Kind::forward;
  int micro_batch = 0;
  int chunk = 0;  // of this rank's runs of layers; run c of stage s is number c * stages + s of the model's
  bool operator==(const Task&) const = default;
};

// The tasks of one stage. Throws Error: more units than kMostUnits; an interleaved schedule whose stages do not divide
// the micro-batches.
std::vector<Task> tasks_of(Schedule, int stage, int stages, int chunks, std::int64_t micro_batches);
// Empty when the schedule can run so many micro-batches; else what was found and what is wanted.
std::string refusal_of(Schedule, int stages, std::int64_t micro_batches);
// How many micro-batches are begun and not done at the same time, at most.
int in_flight(const std::vector<Task>&);

// The share of time that stages idle when every forward and backward of a run of layers takes unit time, in all three
// schedules: (p-1)/(vm+p-1). Its test plays the tasks of all stages.
double bubble_share(int stages, int chunks, std::int64_t micro_batches);

}  // namespace quadrille
