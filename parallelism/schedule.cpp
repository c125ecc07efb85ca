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

double bubble_share(Schedule schedule, int stages, int chunks, std::int64_t micro_batches) {
  const int runs = stages * chunks;
  std::vector<std::vector<Task>> tasks;
  for (int s = 0; s < stages; ++s) tasks.push_back(tasks_of(schedule, s, stages, chunks, micro_batches));
  // When each unit ends, by run of layers and micro-batch; negative: not yet.
  const auto table = std::vector<std::vector<double>>(static_cast<std::size_t>(runs),
                                                      std::vector<double>(static_cast<std::size_t>(micro_batches), -1));
  auto forward = table, backward = table;
  std::vector<std::size_t> next(static_cast<std::size_t>(stages), 0);
  std::vector<double> free_at(static_cast<std::size_t>(stages), 0);
  const auto ready = [&](const Task& t, int run) {
    const auto r = static_cast<std::size_t>(run), m = static_cast<std::size_t>(t.micro_batch);
    if (t.kind == Way::forward) return run == 0 ? 0.0 : forward[r - 1][m];
    return run == runs - 1 ? forward[r][m] : backward[r + 1][m];
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < stages; ++s) {
      const auto k = static_cast<std::size_t>(s);
      while (next[k] < tasks[k].size()) {
        const Task& t = tasks[k][next[k]];
        const int run = t.chunk * stages + s;
        const double from = ready(t, run);
        if (from < 0) break;
        free_at[k] = std::max(free_at[k], from) + 1;
        (t.kind == Way::forward ? forward
                                : backward)[static_cast<std::size_t>(run)][static_cast<std::size_t>(t.micro_batch)] =
            free_at[k];
        ++next[k];
        moved = true;
      }
    }
  }
  for (int s = 0; s < stages; ++s)
    require(next[static_cast<std::size_t>(s)] == tasks[static_cast<std::size_t>(s)].size(),
            "a schedule of {} stages, {} chunks and {} micro-batches waits for itself: please report this", stages,
            chunks, micro_batches);
  const double end = *std::max_element(free_at.begin(), free_at.end());
  return 1 - 2.0 * static_cast<double>(micro_batches * chunks) / end;
}

}  // namespace quadrille
