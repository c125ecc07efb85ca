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
TEST(Schedule, BubblesAreThePublishedOnes) {
  for (int p = 1; p <= 6; ++p)
    for (int m = p; m <= 4 * p; m += p) {
      const double simple = (p - 1.0) / (m + p - 1.0);
      EXPECT_NEAR(bubble_share(Schedule::gpipe, p, 1, m), simple, 1e-12) << p << ' ' << m;
      EXPECT_NEAR(bubble_share(Schedule::one_forward_one_backward, p, 1, m), simple, 1e-12) << p << ' ' << m;
      for (int v = 2; v <= 4; ++v)
        EXPECT_NEAR(bubble_share(Schedule::interleaved, p, v, m), (p - 1.0) / (v * m + p - 1.0), 1e-12)
            << p << ' ' << m << ' ' << v;
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
