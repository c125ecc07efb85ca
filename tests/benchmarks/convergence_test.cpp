// SPDX-License-Identifier: Apache-2.0
// The convergence test: pruning and limits against values that the official engine gave, which stand in the table here,
// and the two ways to read the rule of pruning.
#include "benchmarks/rules/convergence.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "benchmarks/rules/conformance.h"
#include "core/error.h"
#include "tests/benchmarks/samples.h"

namespace quadrille {
namespace {

std::vector<ReferencePoint> four() {
  return {{100, 10, 1, 10, {}}, {200, 12, 1, 10, {}}, {300, 15, 1, 10, {}}, {400, 15, 1, 10, {}}};
}

std::vector<std::int64_t> batches(const std::vector<ReferencePoint>& points) {
  std::vector<std::int64_t> all;
  for (const ReferencePoint& point : points) all.push_back(point.batch);
  return all;
}

ReferenceConvergence reference(const char* benchmark) {
  return reference_convergence(benchmark, read_json(std::string(SOURCE_FOLDER) + "/results/convergence.json")).value();
}

TEST(Convergence, EngineAndTextPruneDifferently) {
  const auto engine = pruned(four(), Pruning::engine), text = pruned(four(), Pruning::text);
  EXPECT_EQ(batches(engine), (std::vector<std::int64_t>{100, 200, 400}));
  EXPECT_EQ(batches(text), (std::vector<std::int64_t>{100, 400}));
  EXPECT_DOUBLE_EQ(reference_at(engine, 150, 10).mean, 11);
  EXPECT_NEAR(reference_at(text, 150, 10).mean, 10 + 5.0 / 6, 1e-12);
  EXPECT_EQ(reference_at(engine, 150, 10).samples, 20);  // 2N where interpolated
  EXPECT_EQ(reference_at(engine, 200, 10).samples, 8);   // its runs less two where exact
}

TEST(Convergence, BothReadingsAreNamed) {
  const ConvergenceVerdict verdict = judge_convergence({"b", "epochs", "", four()}, 150, {11, 11, 11}, 5);
  ASSERT_EQ(verdict.notes.size(), 1U);
  EXPECT_NE(verdict.notes[0].find("11.000 epochs"), std::string::npos) << verdict.notes[0];
  EXPECT_NE(verdict.notes[0].find("10.833 epochs"), std::string::npos) << verdict.notes[0];
}

TEST(Convergence, PublishedPointsThatAreKept) {
  EXPECT_EQ(batches(pruned(reference("resnet").points, Pruning::engine)),
            (std::vector<std::int64_t>{1632, 3264, 32768, 49152, 67840}));
  EXPECT_EQ(batches(pruned(reference("bert").points, Pruning::engine)),
            (std::vector<std::int64_t>{448, 4608, 6144, 6912, 12288, 13056, 16384}));
  const auto text = batches(pruned(reference("bert").points, Pruning::text));  // would lose two more
  EXPECT_EQ(std::count(text.begin(), text.end(), 6144), 0);
  EXPECT_EQ(std::count(text.begin(), text.end(), 6912), 0);
  EXPECT_EQ(pruned(reference("gpt3").points, Pruning::engine).front().batch, 2048);
}

struct Limit {
  const char* benchmark;
  int runs;
  std::int64_t batch;
  double limit;
};

// As the official code gave them; means and deviations of our table are rounded, hence the tolerance.
TEST(Convergence, LimitsAreTheOfficialOnes) {
  const std::vector<Limit> limits = {
      {"resnet", 5, 1632, 33.802},    {"resnet", 5, 3264, 34.310},    {"resnet", 5, 4096, 38.634},
      {"resnet", 5, 32768, 55.445},   {"resnet", 5, 67840, 85.183},   {"bert", 10, 256, 2390442},
      {"bert", 10, 448, 2274732},     {"bert", 10, 4608, 2702871},    {"bert", 10, 16384, 5400269},
      {"llama31_8b", 10, 16, 157920}, {"llama31_8b", 10, 128, 327043}};
  for (const Limit& l : limits) {
    const ReferenceAt at = reference_at(reference(l.benchmark).points, l.batch, l.runs);
    EXPECT_NEAR(convergence_limit(at, l.runs).value(), l.limit, 5e-5 * l.limit) << l.benchmark << " " << l.batch;
  }
}

TEST(Convergence, QuantilesOfStudentsT) {
  EXPECT_NEAR(student_t(0.95, 1), 6.313751515, 1e-8);  // tables
  EXPECT_NEAR(student_t(0.95, 2), 2.919985580, 1e-8);
  EXPECT_NEAR(student_t(0.95, 9), 1.833112933, 1e-8);
  EXPECT_NEAR(student_t(0.95, 24), 1.710882080, 1e-8);
  EXPECT_NEAR(student_t(0.975, 27), 2.051830516, 1e-8);
}

TEST(Convergence, FasterThanAllowedFailsAndALittleFasterIsScaled) {
  const ReferenceConvergence bert = reference("bert");
  const auto judged = [&](double samples, std::int64_t batch) {
    return judge_convergence(bert, batch, std::vector<double>(10, samples), 10);
  };
  EXPECT_TRUE(judged(2440000, 448).accepted);
  EXPECT_EQ(judged(2440000, 448).scaling, 1);
  EXPECT_FALSE(judged(1540000, 448).accepted);
  EXPECT_TRUE(judged(2300000, 448).accepted);
  EXPECT_NEAR(judged(2300000, 448).scaling, 2414421.0 / 2300000, 1e-12);
  EXPECT_TRUE(judged(2500000, 256).accepted);  // smaller than every kept point, and slower
  EXPECT_FALSE(judged(2300000, 256).accepted);
  EXPECT_FALSE(judged(9e6, 20000).known);  // larger than every point: a new one is wanted
  const ConvergenceVerdict gpt3 = judge_convergence(reference("gpt3"), 2048, {1.13e9, 1.13e9, 1.13e9}, 3);
  EXPECT_TRUE(gpt3.accepted);
  EXPECT_FALSE(judge_convergence(reference("gpt3"), 2048, {1.1e9, 1.1e9, 1.1e9}, 3).accepted);
}

std::vector<RunOutcome> llama_runs(int count, double samples) {
  std::vector<RunOutcome> runs;
  for (int i = 0; i < count; ++i) {
    RunOutcome run;
    run.file = scratch("result_" + std::to_string(i) + ".txt");
    run.benchmark = "llama31_8b", run.division = "closed", run.seconds = 100 + i, run.converged = true, run.seeds = {i},
    run.batch_size = 16;
    run.samples_count = samples;
    runs.push_back(run);
  }
  return runs;
}

TEST(RulesScore, RunsAndConvergenceOfABenchmark) {
  const RulesScore good = score_by_rules(llama_runs(10, 162000));
  EXPECT_TRUE(good.score.valid);
  EXPECT_DOUBLE_EQ(good.score.seconds, 104.5);
  const RulesScore few = score_by_rules(llama_runs(9, 162000));
  EXPECT_FALSE(few.score.valid);
  EXPECT_NE(few.score.reasons.at(0).find("exactly 10"), std::string::npos);
  const RulesScore scaled = score_by_rules(llama_runs(10, 160000));
  EXPECT_NEAR(scaled.score.seconds, 104.5 * 161109 / 160000, 1e-9);
  EXPECT_FALSE(score_by_rules(llama_runs(10, 150000)).score.valid);
  auto open = llama_runs(3, 150000);
  open[1].division = "open";  // the reference binds nobody there
  EXPECT_TRUE(score_by_rules(open).score.valid);
}

TEST(RulesScore, ConformanceNamesEveryRuleAndNeverClaimsReview) {
  const std::vector<RunOutcome> runs = llama_runs(10, 162000);  // their logs are not there
  const auto states = conformance(runs, score_by_rules(runs));
  const auto state = [&](const std::string& rule) {
    for (const RuleState& one : states)
      if (one.rule == rule) return one.state;
    ADD_FAILURE() << rule << " is not in the list";
    return RuleState::State::unknown;
  };
  using State = RuleState::State;
  EXPECT_EQ(state("runs"), State::kept);
  EXPECT_EQ(state("seeds"), State::kept);
  EXPECT_EQ(state("convergence"), State::kept);
  EXPECT_EQ(state("logs"), State::broken);
  EXPECT_EQ(state("caches cleared"), State::broken);
  EXPECT_EQ(state("data"), State::unknown);
  EXPECT_EQ(state("review"), State::broken);
  EXPECT_NE(conformance_text(states).find("not verified by MLCommons"), std::string::npos);
}

}  // namespace
}  // namespace quadrille
