// SPDX-License-Identifier: Apache-2.0
// The olympic mean and its rules for failed runs, on known values and on logs.
#include "benchmarks/harness/score.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "benchmarks/harness/log_configuration.h"
#include "core/error.h"
#include "tests/benchmarks/samples.h"

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

TEST(Score, TheSameRunCountsOnce) {
  auto runs = runs_of({100, 80, 120});
  runs.push_back(runs.front());  // same file, same seed
  EXPECT_FALSE(score_of(runs).valid);
}

TEST(Score, OneTargetAndOneConfiguration) {
  auto runs = runs_of({100, 80, 120});
  for (RunOutcome& run : runs) run.target = Target{"nats_per_token", 1.5, "at_most"}, run.unit = "token";
  EXPECT_TRUE(score_of(runs).valid);
  runs[1].target->value = 9;
  EXPECT_NE(score_of(runs).reasons.at(0).find("different targets"), std::string::npos);
  runs[1].target->value = 1.5, runs[1].target->direction = "at_least";
  EXPECT_FALSE(score_of(runs).valid);
  runs[1].target->direction = "at_most", runs[1].unit = "character";
  EXPECT_FALSE(score_of(runs).valid);
  runs[1].unit = "token", runs[1].target.reset();  // of fixed steps among those with a target
  EXPECT_FALSE(score_of(runs).valid);
  runs[1] = runs[2], runs[1].seeds = {9}, runs[1].configuration_digest = "other";
  EXPECT_NE(score_of(runs).reasons.at(0).find("different configurations"), std::string::npos);
}

TEST(Score, WhatIsNotBelievedSpoilsTheSet) {
  auto runs = runs_of({100, 80, 120});
  runs[2].faults = {"its seed differs from its record"};
  const Score score = score_of(runs);
  EXPECT_FALSE(score.valid);
  EXPECT_EQ(score.reasons.at(0), "result_2.txt: its seed differs from its record");
  EXPECT_FALSE(score_json(score, runs).find("score_seconds"));
  EXPECT_NE(score_text(score, runs).find("Score  none"), std::string::npos);
}

TEST(Score, NoTimedClaimOfAJudgingBackEnd) {
  auto runs = runs_of({100, 80, 120});
  runs[1].timed_claims = false;
  const Score score = score_of(runs);
  EXPECT_FALSE(score.timed_claim);
  EXPECT_NE(score.notes.at(0).find("not valid as a timed claim"), std::string::npos);
  EXPECT_FALSE(score_json(score, runs).at("timed_claim").boolean());
}

TEST(Digest, LeavesOutSeedRunsAndOrigins) {
  const Json a = parse_json(R"({"name": "x", "training": {"rate": 1e-08}, "run": {"seed": 1, "runs": 5}})", "a");
  const Json b = parse_json(R"({"name": "x", "training": {"rate": 1e-08}, "run": {"seed": 2, "runs": 1}})", "b");
  const Json c = parse_json(R"({"name": "x", "training": {"rate": 2e-08}, "run": {"seed": 2, "runs": 1}})", "c");
  EXPECT_EQ(configuration_digest(a, "cpu", 1), configuration_digest(b, "cpu", 1));
  EXPECT_NE(configuration_digest(a, "cpu", 1), configuration_digest(c, "cpu", 1));
  EXPECT_NE(configuration_digest(a, "cpu", 1), configuration_digest(a, "cpu", 2));
  EXPECT_NE(configuration_digest(a, "cpu", 1), configuration_digest(a, "reference", 1));
}

class Logs : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = scratch(std::string("logs_") + testing::UnitTest::GetInstance()->current_test_info()->name());
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

TEST_F(Logs, ASuccessMustBeProven) {
  const std::string aim = line(
      "quality_target", R"({"metric": "nats_per_token", "value": 1.5, "direction": "at_most", "unit": "token"})", 1);
  const std::string stop = line("run_stop", "null", 3500, R"({"status": "success"})");
  const auto faults = [&](const std::string& text) { return read_run_log(write("log", text)).faults; };
  EXPECT_TRUE(faults(aim + good_ + line("eval_accuracy", "1.4", 3000) + stop).empty());
  EXPECT_FALSE(faults(aim + good_ + line("eval_accuracy", "1.6", 3000) + stop).empty());
  EXPECT_FALSE(faults(aim + good_ + line("eval_accuracy", "\"nan\"", 3000) + stop).empty());
  EXPECT_FALSE(faults(aim + good_ + stop).empty());
  EXPECT_FALSE(faults(aim + good_ + stop + line("eval_accuracy", "1.4", 3600)).empty());  // after the end
  EXPECT_FALSE(faults(good_ + line("eval_accuracy", "1.4", 3000) + stop).empty());        // no target stated
  EXPECT_TRUE(faults(line("quality_target", "null", 1) + good_ + stop).empty());          // fixed steps
  EXPECT_FALSE(score_of({read_run_log(write("log", aim + good_ + stop))}).valid);
}

TEST_F(Logs, TheRecordBesideMustAgree) {
  Record record = good_record();
  const auto faults = [&] {
    write("record.json", record_json(record).text());
    const std::string aim =
        line("quality_target",
             R"({"metric": "nats_per_character", "value": 1.7, "direction": "at_most", "unit": "character"})", 1);
    const std::string digest = line(
        "configuration_digest",
        "\"" + configuration_digest(good_record().configuration, good_record().backend, good_record().ranks) + "\"", 1);
    return read_run_log(write("result_0.txt", line("submission_benchmark", "\"gpt_test\"", 1) + line("seed", "7", 1) +
                                                  aim + digest + line("run_start", "null", 1000) +
                                                  line("eval_accuracy", "1.65", 2200) +
                                                  line("run_stop", "null", 2200, R"({"status": "success"})")))
        .faults;
  };
  const auto only = [&](const char* part) {
    const auto list = faults();
    ASSERT_EQ(list.size(), 1U) << part;
    EXPECT_NE(list[0].find(part), std::string::npos) << list[0];
  };
  EXPECT_TRUE(faults().empty());
  record.verdict.valid = false;
  only("no reason given");
  record.verdict.reasons = {"the wheel came off"};
  only("the wheel came off");
  record = good_record(), record.seed = 8;
  only("its seed");
  record = good_record(), record.timed_claims = false;
  only("its claim to a time");
  record = good_record(), record.seconds_to_target.reset();
  only("its time to target");
  record = good_record(), record.ranks = 3;
  only("its configuration");
  record = good_record(), record.backend = "reference";
  only("its configuration");
  record = good_record(), record.configuration.find("model")->set("layers", 9);
  EXPECT_EQ(faults().size(), 1U);
  record = good_record(), record.seconds_to_target = 0.6;
  EXPECT_EQ(faults().size(), 1U);
  write("record.json", "{");
  EXPECT_EQ(read_run_log(folder_ + "/result_0.txt").faults.size(), 1U);
  // Of several runs each has its own record; record.json belongs to the only run of a folder.
  std::filesystem::copy_file(folder_ + "/result_0.txt", folder_ + "/result_1.txt");
  EXPECT_TRUE(read_run_log(folder_ + "/result_1.txt").faults.empty());
  write("record_1.json", "{");
  EXPECT_EQ(read_run_log(folder_ + "/result_1.txt").faults.size(), 1U);
}

TEST_F(Logs, AbortedAndKilledRunsDidNotConverge) {
  EXPECT_FALSE(read_run_log(write("a", good_ + line("run_stop", "null", 3500, R"({"status": "aborted"})"))).converged);
  const RunOutcome killed = read_run_log(write("b", good_ + ":::MLLOG {\"namespace\": \"\", \"ti"));
  EXPECT_FALSE(killed.converged);
  EXPECT_NE(killed.why_not.find("ended early"), std::string::npos);
  const RunOutcome unborn = read_run_log(write("c", line("submission_benchmark", "\"gpt_tiny\"", 1)));
  EXPECT_FALSE(unborn.converged);
  EXPECT_NE(unborn.why_not.find("during initialisation"), std::string::npos);
  const RunOutcome mute = read_run_log(write("d", good_ + line("run_stop", "null", 3500)));
  EXPECT_FALSE(mute.converged);
  EXPECT_NE(mute.why_not.find("no status"), std::string::npos);
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
  const std::string stop = line("run_stop", "null", 3500, R"({"status": "success"})");
  EXPECT_NE(refusal(good_ + stop + stop).find(":6: a second run_stop"), std::string::npos);
  EXPECT_NE(refusal(good_ + line("run_stop", "null", 400)).find("run_stop is 0.6 s before run_start"),
            std::string::npos);
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
  EXPECT_THROW(run_logs_in({folder_ + "/result_2.txt"}), Error);  // a file
  std::filesystem::create_directories(folder_ + "/empty");
  EXPECT_THROW(run_logs_in({folder_ + "/empty"}), Error);
  EXPECT_THROW(read_run_log(folder_ + "/none.txt"), Error);
  EXPECT_THROW(run_logs_in({folder_, folder_ + "/."}), Error);  // one file by two names
}

}  // namespace
}  // namespace quadrille
