// SPDX-License-Identifier: Apache-2.0
// Published hyperparameters by batch size: taken, interpolated with a warning, changed by hand; and what a log then
// says.
#include "benchmarks/harness/per_batch.h"

#include <gtest/gtest.h>

#include "benchmarks/harness/log_configuration.h"
#include "core/error.h"
#include "tests/benchmarks/samples.h"

namespace quadrille {
namespace {

Json suite() {
  return parse_json(R"({"training": {"batch_size": 32, "rate": {"schedule": "cosine"}},
      "per_batch": {"in_samples": {"training.steps": 1000}, "sets": [
        {"batch_size": 64, "training.rate.peak": 0.5, "in_samples": {"training.rate.warmup_steps": 200}},
        {"batch_size": 32, "training.rate.peak": 0.25, "in_samples": {"training.rate.warmup_steps": 100}}]}})",
                    "suite");
}

TEST(PerBatch, TheSetOfTheBatchIsTaken) {
  Json json = suite();
  const PerBatch outcome = apply_per_batch(json, 0);
  EXPECT_TRUE(outcome.published);
  EXPECT_EQ(outcome.warning, "");
  EXPECT_EQ(json.at("training").at("rate").at("peak").number(), 0.25);
  EXPECT_EQ(json.at("training").at("rate").at("warmup_steps").integer(), 4);  // ceil(100 / 32)
  EXPECT_EQ(json.at("training").at("steps").integer(), 32);                   // ceil(1000 / 32)
  EXPECT_NE(json.at("training").at("steps").origin().find("per_batch for 32"), std::string::npos);
  EXPECT_FALSE(json.find("per_batch"));
}

TEST(PerBatch, BetweenTwoItIsInterpolatedAndTold) {
  Json json = suite();
  const PerBatch outcome = apply_per_batch(json, 48);
  EXPECT_FALSE(outcome.published);
  EXPECT_NE(outcome.warning.find("interpolated between those of 32 and 64"), std::string::npos) << outcome.warning;
  EXPECT_DOUBLE_EQ(json.at("training").at("rate").at("peak").number(), 0.375);
  EXPECT_EQ(json.at("training").at("rate").at("warmup_steps").integer(), 4);  // ceil(150 / 48)
  json = suite();
  EXPECT_NE(apply_per_batch(json, 128).warning.find("outside of 32 to 64"), std::string::npos);
  EXPECT_EQ(json.at("training").at("rate").at("peak").number(), 0.5);
}

TEST(PerBatch, FaultsAreRefused) {
  for (const char* text :
       {R"({"sets": []})", R"({"sets": [{"batch_size": 0}]})", R"({"sets": [{"batch_size": 2}, {"batch_size": 2}]})",
        R"({"sets": [{"batch_size": 2, "in_samples": {"training.steps": -1}}]})", R"({"set": []})",
        R"({"sets": [{"batch_size": 2, "training.batch_size.x": 1}]})"}) {
    Json json = suite();
    json.set("per_batch", parse_json(text, "suite"));
    EXPECT_THROW(apply_per_batch(json, 2), Error) << text;
  }
  Json none = parse_json("{}", "suite");
  EXPECT_FALSE(apply_per_batch(none, 0).given);
}

Experiment planned(const std::string& name, const std::vector<std::string>& set, int ranks) {
  RunOptions options;
  options.suite = name, options.set = set, options.dry_run = true, options.data = scratch("no data");
  return resolve(options, ranks, "threads");
}

TEST(PerBatch, FullBenchmarksAsPublished) {
  const Experiment llama = planned("llama31_8b", {"training.batch_size=128"}, 8);
  const TrainingConfig& training = llama.workload.training;
  EXPECT_EQ(training.rate.peak, 0.002);
  EXPECT_EQ(training.rate.warmup_steps, 256);
  EXPECT_EQ(llama.run.evaluate_every, 96);
  EXPECT_EQ(training.rate.steps, 1200000);
  EXPECT_TRUE(llama.changes.empty());  // a published batch size is one of the suite's own
  EXPECT_EQ(configuration_values(llama, 1, true).at("division").string(), "closed");
  const Experiment between = planned("llama31_8b", {"training.batch_size=48"}, 8);
  EXPECT_EQ(between.changes, std::vector<std::string>{"training.batch_size"});
  EXPECT_NE(between.notes.at(0).find("interpolated"), std::string::npos);
  EXPECT_EQ(configuration_values(between, 1, true).at("division").string(), "open");
  const Experiment own = planned("llama31_8b", {"training.batch_size=64", "training.rate.peak=1e-3"}, 8);
  EXPECT_EQ(own.workload.training.rate.peak, 1e-3);
  EXPECT_EQ(configuration_values(own, 1, true).at("division").string(), "open");
  const Experiment gpt3 = planned("gpt3_175b", {"training.batch_size=4096"}, 8);
  EXPECT_EQ(gpt3.workload.training.rate.peak, 3e-5);
  EXPECT_EQ(gpt3.workload.training.rate.warmup_steps, 100);  // ceil(265 * 1536 / 4096)
  EXPECT_EQ(gpt3.run.evaluate_every, 6);
  EXPECT_EQ(configuration_values(gpt3, 1, true).at("benchmark").string(), "gpt3");
}

}  // namespace
}  // namespace quadrille
