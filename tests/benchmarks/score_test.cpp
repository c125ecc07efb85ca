// SPDX-License-Identifier: Apache-2.0
// The olympic mean and its rules for failed runs, on known values and on logs.
#include "benchmarks/harness/score.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"

namespace quadrille {
namespace {

RunOutcome run_of(double seconds, std::int64_t seed, bool converged = true) {
  RunOutcome run;
  run.file = "result_" + std::to_string(seed) + ".txt";
  run.benchmark = "gpt_tiny";
  run.seconds = seconds, run.converged = converged, run.seeds = {seed}, run.batch_size = 32;
  return run;
}

std::vector<RunOutcome> runs_of(const std::vector<double>& seconds, std::size_t failed = 0) {
  std::vector<RunOutcome> runs;
  for (std::size_t i = 0; i < seconds.size(); ++i)
    runs.push_back(run_of(seconds[i], static_cast<std::int64_t>(i), i >= failed));
  return runs;
}

TEST(Score, DropsFastestAndSlowest) {
  const Score score = score_of(runs_of({100, 80, 120, 90, 110}));
  EXPECT_TRUE(score.valid);
  EXPECT_TRUE(score.olympic);
  EXPECT_DOUBLE_EQ(score.seconds, 100);
  EXPECT_DOUBLE_EQ(score_of(runs_of({1, 2, 6})).seconds, 2);  // of three it is the middle one
}

TEST(Score, OneFailedRunCountsAsSlowest) {
  // The first run failed at 10 s: dropped as slowest; 80 is the fastest; the mean of 90, 110, 120 remains.
  const Score score = score_of(runs_of({10, 80, 120, 90, 110}, 1));
  EXPECT_TRUE(score.valid);
  EXPECT_EQ(score.not_converged, 1);
  EXPECT_NEAR(score.seconds, 320.0 / 3, 1e-12);
}

TEST(Score, TwoFailedRunsInvalidate) {
  const Score score = score_of(runs_of({10, 20, 120, 90, 110}, 2));
  EXPECT_FALSE(score.valid);
  ASSERT_EQ(score.reasons.size(), 1U);
  EXPECT_NE(score.reasons[0].find("2 of 5 runs did not converge"), std::string::npos);
}

TEST(Score, FewerThanThreeIsNoOlympicMean) {
  const Score score = score_of(runs_of({100, 80}));
  EXPECT_TRUE(score.valid);
  EXPECT_FALSE(score.olympic);
  EXPECT_DOUBLE_EQ(score.seconds, 90);
  EXPECT_NE(score.notes.at(0).find("not an olympic mean"), std::string::npos);
  EXPECT_FALSE(score_of(runs_of({100, 80}, 1)).valid);
  EXPECT_FALSE(score_of({}).valid);
}

TEST(Score, RunsMustBeIndependentAndAlike) {
  auto runs = runs_of({100, 80, 120});
  runs[2].seeds = {0};
  EXPECT_NE(score_of(runs).reasons.at(0).find("seed 0"), std::string::npos);
  runs = runs_of({100, 80, 120});
  runs[1].batch_size = 64;
  EXPECT_NE(score_of(runs).reasons.at(0).find("batch"), std::string::npos);
  runs = runs_of({100, 80, 120});
  runs[1].benchmark = "gpt_small";
  EXPECT_NE(score_of(runs).reasons.at(0).find("benchmarks"), std::string::npos);
}

class Logs : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "quadrille_logs_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  static std::string line(const std::string& key, const std::string& value, int time,
                          const std::string& metadata = "{}") {
    return ":::MLLOG {\"namespace\": \"\", \"time_ms\": " + std::to_string(time) +
           ", \"event_type\": \"POINT_IN_TIME\", \"key\": \"" + key + "\", \"value\": " + value +
           ", \"metadata\": " + metadata + "}\n";
  }
  std::string good_ = line("submission_benchmark", "\"gpt_tiny\"", 1) + line("seed", "3", 1) +
                      line("global_batch_size", "32", 1) + line("run_start", "null", 1000);
  std::string folder_;
};

TEST_F(Logs, AreRead) {
  const RunOutcome run = read_run_log(
      write("result_0.txt", "noise\n0: " + good_ + line("run_stop", "null", 3500, R"({"status": "success"})")));
  EXPECT_TRUE(run.converged);
  EXPECT_DOUBLE_EQ(run.seconds, 2.5);
  EXPECT_EQ(run.benchmark, "gpt_tiny");
  EXPECT_EQ(run.batch_size, 32);
  EXPECT_EQ(run.seeds, std::vector<std::int64_t>{3});
}

TEST_F(Logs, AbortedAndKilledRunsDidNotConverge) {
  EXPECT_FALSE(read_run_log(write("a", good_ + line("run_stop", "null", 3500, R"({"status": "aborted"})"))).converged);
  const RunOutcome killed = read_run_log(write("b", good_ + ":::MLLOG {\"namespace\": \"\", \"ti"));
  EXPECT_FALSE(killed.converged);
  EXPECT_NE(killed.why_not.find("ended early"), std::string::npos);
}

TEST_F(Logs, RefusalsNameFileAndLine) {
  const auto refusal = [&](const std::string& text) {
    try {
      read_run_log(write("bad", text));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal(good_ + good_).find(":8"), std::string::npos);  // a second run_start
  EXPECT_NE(refusal(line("run_stop", "null", 5)).find("before run_start"), std::string::npos);
  EXPECT_NE(refusal(":::MLLOG {nonsense}\n" + good_).find(":1"), std::string::npos);
  EXPECT_NE(refusal("nothing\n").find("submission_benchmark"), std::string::npos);
}

TEST_F(Logs, AreFoundInTheOrderOfTheirNumbers) {
  for (const char* name : {"result_10.txt", "result_2.txt", "result_x.txt", "record.json"}) write(name, "");
  const auto logs = run_logs_in({folder_});
  ASSERT_EQ(logs.size(), 2U);
  EXPECT_TRUE(logs[0].ends_with("result_2.txt"));
  EXPECT_TRUE(logs[1].ends_with("result_10.txt"));
  EXPECT_THROW(run_logs_in({folder_ + "/none"}), Error);
}

}  // namespace
}  // namespace quadrille
