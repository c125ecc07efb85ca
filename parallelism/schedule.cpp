// SPDX-License-Identifier: Apache-2.0
#include "parallelism/schedule.h"

#include <algorithm>
#include <set>

#include "core/error.h"

namespace quadrille {

namespace {

using Way = Task::Kind;

// The k-th unit of forward work of a rank: micro-batches go through a chunk in groups of `stages`, then through the
// next. Backward is the same with the chunks in reverse.
Task unit(Way kind, int k, int stages, int chunks) {
  const int group = k / (stages * chunks), within = k % (stages * chunks);
  const int chunk = within / stages;
  return {kind, group * stages + within % stages, kind == Way::forward ? chunk : chunks - 1 - chunk};
}

// Forwards before the first backward. Interleaved: two per stage behind, so that the last stage's first backward finds
// its forward done, and a group for each chunk before the last.
int warm_up(Schedule schedule, int stage, int stages, int chunks, int units) {
  switch (schedule) {
    case Schedule::gpipe:
      return units;
    case Schedule::one_forward_one_backward:
      return std::min(units, stages - 1 - stage);
    case Schedule::interleaved:
      break;
  }
  return std::min(units, 2 * (stages - 1 - stage) + (chunks - 1) * stages);
}

}  // namespace

std::string_view name_of(Schedule s) {
  switch (s) {
    case Schedule::gpipe:
      return "gpipe";
    case Schedule::one_forward_one_backward:
      return "1f1b";
    case Schedule::interleaved:
      break;
  }
  return "interleaved";
}

std::string refusal_of(Schedule schedule, int stages, std::int64_t micro_batches) {
  if (schedule != Schedule::interleaved || micro_batches % stages == 0) return "";
  return fmt::format(
      "an interleaved schedule of {} stages cannot run {} micro-batches: their number must be a multiple "
      "of {}",
      stages, micro_batches, stages);
}

std::vector<Task> tasks_of(Schedule schedule, int stage, int stages, int chunks, std::int64_t micro_batches) {
  const std::string refusal = refusal_of(schedule, stages, micro_batches);
  require(refusal.empty(), "{}", refusal);
  require(micro_batches <= kMostUnits / chunks, "{} micro-batches of {} chunks are more than {} units of work a step",
          micro_batches, chunks, kMostUnits);
  const int group = schedule == Schedule::interleaved ? stages : 1;
  const int units = static_cast<int>(micro_batches * chunks), before = warm_up(schedule, stage, stages, chunks, units);
  std::vector<Task> tasks;
  for (int k = 0; k < before; ++k) tasks.push_back(unit(Way::forward, k, group, chunks));
  for (int k = before; k < units; ++k) {
    tasks.push_back(unit(Way::forward, k, group, chunks));
    tasks.push_back(unit(Way::backward, k - before, group, chunks));
  }
  for (int k = units - before; k < units; ++k) tasks.push_back(unit(Way::backward, k, group, chunks));
  return tasks;
}

int in_flight(const std::vector<Task>& tasks) {
  std::vector<int> last_of;  // by micro-batch: the position of its last task
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto m = static_cast<std::size_t>(tasks[i].micro_batch);
    if (last_of.size() <= m) last_of.resize(m + 1);
    last_of[m] = static_cast<int>(i);
  }
  std::set<int> begun;
  std::size_t most = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    begun.insert(tasks[i].micro_batch);
    most = std::max(most, begun.size());
    if (last_of[static_cast<std::size_t>(tasks[i].micro_batch)] == static_cast<int>(i))
      begun.erase(tasks[i].micro_batch);
  }
  return static_cast<int>(most);
}

double bubble_share(int stages, int chunks, std::int64_t micro_batches) {
  const double others = stages - 1;
  return others / (static_cast<double>(chunks * micro_batches) + others);
}

}  // namespace quadrille
