// SPDX-License-Identifier: Apache-2.0
// The last screen of a run, from records: what stands first, what is called what.
#include "benchmarks/harness/screen.h"

#include <gtest/gtest.h>

#include "benchmarks/harness/placement.h"
#include "benchmarks/harness/verdict.h"
#include "tests/benchmarks/samples.h"

namespace quadrille {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Screen, TimeIsSortedAndNeverNegative) {
  Record record = good_record();
  record.phases_seconds = {{"backward", 0.7}, {"data", 1e-6}, {"evaluation", 0.1}, {"forward", 0.4}, {"other", -0.02}};
  const std::string text = last_screen(record, "x/record.json");
  EXPECT_TRUE(has(text, "where the time went: backward 58.3 %, forward 33.3 %, evaluation 8.3 %\n")) << text;
  record.phases_seconds["other"] = 1.2;
  EXPECT_TRUE(has(last_screen(record, ""), "where the time went: other 50.0 %, backward 29.2 %"));
  record.phases_seconds.clear();
  EXPECT_FALSE(has(last_screen(record, ""), "where the time went"));
}

Record short_of_its_target() {
  Record record = good_record();
  record.evaluations.back().quality = 1.8, record.evaluations.back().reached = false;
  record.seconds_to_target.reset(), record.stop_reason = stop::kSteps;
  record.verdict = judge(record);
  return record;
}

TEST(Placement, SaysHowLayersLieAndWhatIsReplicated) {
  EXPECT_EQ(pipeline_text({}), "");
  const std::string even = pipeline_text({4, 1, "1f1b", {8, 8, 7, 7}, 2, 0.6});
  EXPECT_NE(even.find("4 stages, schedule 1f1b, 2 micro-batches a step"), std::string::npos) << even;
  EXPECT_NE(even.find("layers of each stage: 8, 8, 7, 7\n"), std::string::npos) << even;
  EXPECT_NE(even.find("idle 60.0 %"), std::string::npos) << even;
  const std::string runs = pipeline_text({2, 2, "interleaved", {1, 1, 1, 0}, 2, 0.2});
  EXPECT_NE(runs.find("run r on stage r mod 2): 1, 1, 1, 0"), std::string::npos) << runs;
  EXPECT_NE(runs.find("without layers only passes on"), std::string::npos) << runs;
  EXPECT_NE(even.find("fewer micro-batches than stages"), std::string::npos) << even;
  EXPECT_EQ(runs.find("fewer micro-batches"), std::string::npos) << runs;
  EXPECT_EQ(replicas_text(1), "");
  EXPECT_NE(replicas_text(2).find("each lies on 2 ranks"), std::string::npos);
}

TEST(Screen, SaysThatReplicasWereCompared) {
  Record record = good_record();
  record.ranks = 2;
  EXPECT_TRUE(has(last_screen(record, ""), "replicas    compared 3 times, equal in every bit"));
  record.ranks = 1;
  EXPECT_TRUE(has(last_screen(record, ""), "replicas    none to compare"));
  record.replica_comparisons.reset();
  EXPECT_FALSE(has(last_screen(record, ""), "replicas    compared"));
}

TEST(Screen, FewerStepsAreAQuickLookAndNoFailure) {
  Record record = short_of_its_target();
  EXPECT_TRUE(has(last_screen(record, ""), "SCORE  none: target not reached   (NOT VALID)"));
  record.origins.set("training.steps", "--steps 5");
  const std::string text = last_screen(record, "");
  EXPECT_TRUE(has(text, "SCORE  none: a quick look, not a result (the steps were set by --steps 5)")) << text;
  EXPECT_FALSE(has(text, "NOT VALID")) << text;
  EXPECT_TRUE(has(text, "target not reached: last nats_per_character 1.8")) << text;
  EXPECT_FALSE(record.verdict.valid);
}

TEST(Screen, AQuickLookHidesNothingElse) {
  Record record = short_of_its_target();
  record.origins.set("training.steps", "--steps 5");
  record.flops.training.useful = 1;
  record.verdict = judge(record);
  EXPECT_TRUE(has(last_screen(record, ""), "NOT VALID"));
  record = short_of_its_target();
  record.origins.set("training.steps", "--steps 5");
  record.stop_reason = stop::kDiverged;
  record.verdict = judge(record);
  EXPECT_TRUE(has(last_screen(record, ""), "NOT VALID"));
  record = good_record();  // with more steps, say, the target was reached
  record.origins.set("training.steps", "--steps 5000");
  EXPECT_TRUE(has(last_screen(record, ""), "(valid)"));
}

}  // namespace
}  // namespace quadrille
