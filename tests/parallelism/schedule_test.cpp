// SPDX-License-Identifier: Apache-2.0
// Schedules of micro-batches: order, how many are in flight, bubbles against closed forms, refusals.
#include "parallelism/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "core/error.h"

namespace quadrille {
namespace {

constexpr auto kForward = Task::Kind::forward;

std::string text(const std::vector<Task>& tasks) {
  std::string out;
  for (const Task& t : tasks) out += fmt::format("{}{}.{} ", t.kind == kForward ? 'F' : 'B', t.micro_batch, t.chunk);
  return out;
}

TEST(Schedule, OneStageAccumulates) {
  EXPECT_EQ(text(tasks_of(Schedule::one_forward_one_backward, 0, 1, 1, 3)), "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 ");
}

TEST(Schedule, OneForwardOneBackwardOfThreeStages) {
  const auto of = [](int stage) { return text(tasks_of(Schedule::one_forward_one_backward, stage, 3, 1, 4)); };
  EXPECT_EQ(of(0), "F0.0 F1.0 F2.0 B0.0 F3.0 B1.0 B2.0 B3.0 ");
  EXPECT_EQ(of(1), "F0.0 F1.0 B0.0 F2.0 B1.0 F3.0 B2.0 B3.0 ");
  EXPECT_EQ(of(2), "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0 ");
}

TEST(Schedule, InterleavedGoesThroughChunksInGroupsOfTheStages) {
  EXPECT_EQ(text(tasks_of(Schedule::interleaved, 1, 2, 2, 2)), "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0 ");
  EXPECT_EQ(text(tasks_of(Schedule::interleaved, 0, 2, 2, 2)), "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0 ");
}

// Every unit of work exactly once, forward before backward, whatever the sizes.
TEST(Schedule, DoesEverythingOnce) {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_forward_one_backward, Schedule::interleaved})
    for (int stages = 1; stages <= 5; ++stages)
      for (int chunks = 1; chunks <= (schedule == Schedule::interleaved ? 3 : 1); ++chunks)
        for (int micro = stages; micro <= 3 * stages; micro += stages)
          for (int stage = 0; stage < stages; ++stage) {
            std::set<std::tuple<int, int>> forward, backward;
            for (const Task& t : tasks_of(schedule, stage, stages, chunks, micro)) {
              const std::tuple unit(t.micro_batch, t.chunk);
              EXPECT_TRUE((t.kind == kForward ? forward : backward).insert(unit).second);
              EXPECT_TRUE(t.kind == kForward || forward.contains(unit));
            }
            EXPECT_EQ(forward.size(), static_cast<std::size_t>(micro * chunks));
            EXPECT_EQ(backward, forward);
          }
}

TEST(Schedule, KeepsAsManyMicroBatchesAsStagesRemain) {
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(in_flight(tasks_of(Schedule::one_forward_one_backward, stage, 4, 1, 8)), 4 - stage);
    EXPECT_EQ(in_flight(tasks_of(Schedule::gpipe, stage, 4, 1, 8)), 8);
  }
  EXPECT_EQ(in_flight(tasks_of(Schedule::one_forward_one_backward, 0, 4, 1, 2)), 2);
}

// Narayanan et al. 2021, section 2.2: idle over all time is (p-1)/(m+p-1), interleaved (p-1)/(vm+p-1).
// The same share found by playing the tasks of all stages.
double played_bubble(Schedule schedule, int stages, int chunks, std::int64_t micro_batches) {
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
    if (t.kind == Task::Kind::forward) return run == 0 ? 0.0 : forward[r - 1][m];
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
        (t.kind == Task::Kind::forward
             ? forward
             : backward)[static_cast<std::size_t>(run)][static_cast<std::size_t>(t.micro_batch)] = free_at[k];
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

TEST(Schedule, BubblesAreThePublishedOnes) {
  for (int p = 1; p <= 6; ++p)
    for (int m = p; m <= 4 * p; m += p) {
      const double simple = (p - 1.0) / (m + p - 1.0);
      EXPECT_NEAR(bubble_share(p, 1, m), simple, 1e-12) << p << ' ' << m;
      EXPECT_NEAR(played_bubble(Schedule::gpipe, p, 1, m), simple, 1e-12) << p << ' ' << m;
      EXPECT_NEAR(played_bubble(Schedule::one_forward_one_backward, p, 1, m), simple, 1e-12) << p << ' ' << m;
      for (int v = 2; v <= 4; ++v) {
        EXPECT_NEAR(bubble_share(p, v, m), (p - 1.0) / (v * m + p - 1.0), 1e-12) << p << ' ' << m << ' ' << v;
        EXPECT_NEAR(played_bubble(Schedule::interleaved, p, v, m), (p - 1.0) / (v * m + p - 1.0), 1e-12)
            << p << ' ' << m << ' ' << v;
      }
    }
}

TEST(Schedule, RefusesMicroBatchesThatStagesDoNotDivide) {
  EXPECT_EQ(refusal_of(Schedule::one_forward_one_backward, 4, 6), "");
  EXPECT_EQ(refusal_of(Schedule::interleaved, 4, 6),
            "an interleaved schedule of 4 stages cannot run 6 micro-batches: their number must be a multiple of 4");
  EXPECT_THROW(tasks_of(Schedule::interleaved, 0, 4, 2, 6), Error);
}

}  // namespace
}  // namespace quadrille
