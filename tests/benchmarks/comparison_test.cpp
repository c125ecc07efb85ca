// SPDX-License-Identifier: Apache-2.0
// Two runs side by side, and a run beside published rows: what may be divided, and what is refused.
#include "benchmarks/harness/comparison.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "benchmarks/harness/published.h"
#include "core/error.h"
#include "tests/benchmarks/samples.h"

namespace quadrille {
namespace {

TEST(Comparison, SameRunIsSame) {
  const Record a = good_record();
  const Comparison c = compare_records(a, a, 0);
  EXPECT_TRUE(c.same);
  EXPECT_EQ(c.equal_steps, 10);
  EXPECT_NE(comparison_text(a, a, c, 0).find("takes 1.000 of the first"), std::string::npos);
}

TEST(Comparison, FirstDivergenceAndLargestDifference) {
  const Record a = good_record();
  Record b = a;
  b.steps[3].loss *= 1 + 1e-7, b.steps[6].loss *= 1 + 1e-3, b.steps[7].gradient_norm *= 2;
  Comparison c = compare_records(a, b, 0);
  EXPECT_FALSE(c.same);
  EXPECT_EQ(*c.first_divergence, 4);
  EXPECT_EQ(c.largest_at, 7);
  EXPECT_NEAR(c.largest_difference, 1e-3, 1e-5);
  EXPECT_DOUBLE_EQ(c.largest_norm_difference, 0.5);
  EXPECT_EQ(c.equal_steps, 8);
  EXPECT_EQ(*compare_records(a, b, 1e-6).first_divergence, 7);
  EXPECT_TRUE(compare_records(a, b, 1e-2).same);
}

TEST(Comparison, EvaluationsCount) {
  const Record a = good_record();
  Record b = a;
  b.evaluations[0].quality *= 1.01;
  Comparison c = compare_records(a, b, 0);
  EXPECT_FALSE(c.same);
  EXPECT_EQ(*c.first_evaluation_apart, 5);
  EXPECT_TRUE(compare_records(a, b, 0.1).same);
  b = a, b.evaluations.pop_back();
  c = compare_records(a, b, 0.1);
  EXPECT_FALSE(c.same);
  EXPECT_EQ(c.common_evaluations, 1);
}

TEST(Comparison, ARecordIsCheckedAgainstItself) {
  Record r = good_record();
  EXPECT_TRUE(doubts_of(r).empty());
  r.utilisation.mfu_full_of_measured_peak = 1.5;
  EXPECT_NE(doubts_text(r).find("above 100 %"), std::string::npos);
  r = good_record(), r.verdict.valid = false;
  EXPECT_EQ(doubts_of(r).size(), 1U);
  r = good_record(), r.step_statistics.median_seconds = 0.001;
  EXPECT_THROW(doubts_of(r), Error);
  r = good_record(), r.steps[5].seconds *= 2;
  EXPECT_THROW(doubts_of(r), Error);
}

TEST(Comparison, NoRatioToNothing) {
  const Record a = good_record();
  Record b = a;
  b.step_statistics.median_seconds = 0;
  EXPECT_NE(comparison_text(b, a, compare_records(b, a, 0), 0).find("not divided"), std::string::npos);
  EXPECT_NE(comparison_text(a, b, compare_records(a, b, 0), 0).find("not divided"), std::string::npos);
}

TEST(Comparison, AlignsByStep) {
  const Record a = good_record();
  Record b = a;
  b.steps.erase(b.steps.begin() + 1);
  const Comparison c = compare_records(a, b, 0);
  EXPECT_EQ(c.common_steps, 9);
  EXPECT_FALSE(c.first_divergence);
  EXPECT_FALSE(c.same);  // not the same steps
}

TEST(Comparison, ConditionsAreNamedAndTimesNotDivided) {
  const Record a = good_record();
  Record b = a;
  b.configuration.find("model")->set("layers", 3);
  b.environment.set("cpu_model", "Chip B");
  const Comparison c = compare_records(a, b, 0);
  ASSERT_EQ(c.numbers.size(), 1U);
  EXPECT_EQ(c.numbers[0].name, "model.layers");
  EXPECT_EQ(c.surroundings.at(0).name, "cpu_model");
  EXPECT_FALSE(c.same);
  EXPECT_NE(comparison_text(a, b, c, 0).find("not divided: model.layers differs"), std::string::npos);
  b.configuration = a.configuration;
  EXPECT_NE(comparison_text(a, b, compare_records(a, b, 0), 0).find("not divided: cpu_model differs"),
            std::string::npos);
}

TEST(Comparison, RoundingOfAnotherLayoutIsExplained) {
  const Record a = good_record();
  Record b = a;
  b.steps[3].loss *= 1 + 1e-7;
  const auto text = [&] { return comparison_text(a, b, compare_records(a, b, 0), 0); };
  EXPECT_EQ(text().find("rounds differently"), std::string::npos);  // one layout: its losses must be equal
  b.strategy = "tensor";
  EXPECT_NE(text().find("rounds differently"), std::string::npos);
  b.seed = 8;
  EXPECT_EQ(text().find("rounds differently"), std::string::npos);  // the seed explains it
}

Json like_row() {  // what good_record was run under
  return parse_json(
      R"({"benchmark": "gpt_test", "target_value": 1.7, "chip": "Chip A", "chips": 1, "batch_rows": 8, "precision": "f32", "minutes": 0.04})",
      "row");
}

TEST(Published, LikeConditionsAreDivided) {
  EXPECT_TRUE(differences(good_record(), like_row()).empty()) << differences(good_record(), like_row()).front();
  EXPECT_NEAR(*speed_ratio(good_record(), like_row()), 0.04 * 60 / 1.2, 1e-12);
}

TEST(Published, EachUnlikeConditionIsNamedAndNothingDivided) {
  const auto refused = [](const char* key, Json value, const char* told) {
    Json row = like_row();
    row.set(key, std::move(value));
    const auto list = differences(good_record(), row);
    ASSERT_EQ(list.size(), 1U) << key;
    EXPECT_TRUE(list[0].starts_with(told)) << list[0];
    EXPECT_FALSE(speed_ratio(good_record(), row)) << key;
  };
  refused("benchmark", "other", "benchmark:");
  refused("target_value", 1.6, "target:");
  refused("chip", "Chip B", "hardware:");
  refused("chips", 8, "scale:");
  refused("batch_rows", 16, "batch:");
  refused("precision", "bf16", "precision:");
  Record changed = good_record();
  changed.origins.set("model.layers", "--set model.layers=2");
  EXPECT_EQ(differences(changed, like_row()).size(), 1U);
  Record failed = good_record();
  failed.verdict.valid = false;
  EXPECT_FALSE(speed_ratio(failed, like_row()));
}

TEST(Published, UnverifiedRowsAreNeverRead) {
  const std::string folder = scratch("published");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/a.json")
      << R"({"kind": "k", "rows": [{"n": 1, "verified": true}, {"n": 2, "verified": false}, {"n": 3}]})";
  std::ofstream(folder + "/b.json") << R"({"kind": "other", "rows": [{"n": 4, "verified": true}]})";
  const auto rows = published_rows(folder, "k");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("n").integer(), 1);
}

TEST(Published, OurRowsAreVerifiedAndSourced) {
  const std::string folder = SOURCE_FOLDER "/results/published";
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    bytes += std::filesystem::file_size(entry.path());
    const Json document = read_json(entry.path().string());
    for (const Json& row : document.at("rows").items()) {
      EXPECT_TRUE(row.at("verified").boolean());
      EXPECT_FALSE(row.at("source").string().empty());
    }
  }
  EXPECT_LT(bytes, 1500000U);
  for (const Json& row : published_rows(folder, "published scaling"))
    EXPECT_FALSE(row.at("flop_convention").string().empty());
}

TEST(Published, FloorsFollowTheDataSet) {
  const Json floors = read_json(SOURCE_FOLDER "/results/floors.json");
  Record record = good_record();
  ASSERT_TRUE(floors_of(record, floors));
  EXPECT_EQ(floors_of(record, floors)->at("floors").size(), 6U);
  record.target->metric = "nats_per_token";
  EXPECT_FALSE(floors_of(record, floors));
  record = good_record();
  record.configuration.find("data")->set("directory", "elsewhere");
  EXPECT_FALSE(floors_of(record, floors));
}

TEST(Published, NearestSizesComeFirst) {
  const auto row = [](double parameters, const char* model) {
    return parse_json(
        fmt::format(R"({{"parameters": {}, "model": "{}", "chip": "c", "flop_convention": "f"}})", parameters, model),
        "row");
  };
  const auto near =
      nearest_rows({row(1e9, "big"), row(1e6, "small"), row(1e6, "small"), row(1e7, "middle")}, 2000000, 2);
  ASSERT_EQ(near.size(), 2U);
  EXPECT_EQ(near[0].at("model").string(), "small");
  EXPECT_EQ(near[1].at("model").string(), "middle");
}

TEST(Published, ASetStandsThereByItsScore) {
  std::vector<Record> runs(4, good_record());
  runs[0].seconds_to_target = 1.0, runs[1].seconds_to_target.reset(), runs[2].seconds_to_target = 1.3;
  runs[3].seconds_to_target = 1.6;
  Score score;
  score.valid = true, score.seconds = 1.25;
  const StandIn chosen = stand_in(runs, score);
  EXPECT_EQ(chosen.index, 2U);
  EXPECT_DOUBLE_EQ(*chosen.record.seconds_to_target, 1.25);
  std::swap(runs[0], runs[1]);  // the first did not reach the target
  EXPECT_EQ(stand_in(runs, score).index, 2U);
  std::swap(runs[0], runs[1]);
  score.valid = false;
  EXPECT_FALSE(stand_in(runs, score).record.seconds_to_target);
  EXPECT_FALSE(speed_ratio(stand_in(runs, score).record, like_row()));
  for (Record& run : runs) run.target.reset(), run.seconds_to_target.reset();  // fixed steps
  score.valid = true;
  EXPECT_FALSE(stand_in(runs, score).record.seconds_to_target);
}

TEST(Published, SuiteWithoutRowsGetsFloorsAndSaysSo) {
  const std::string text = published_text(good_record(), SOURCE_FOLDER "/results/published",
                                          read_json(SOURCE_FOLDER "/results/floors.json"), 4);
  EXPECT_NE(text.find("No published time to train"), std::string::npos);
  EXPECT_NE(text.find("n-gram, 3 characters"), std::string::npos);
  EXPECT_NE(text.find("not to be divided"), std::string::npos);
  Record llama = good_record();
  llama.configuration.find("run")->set("published", "llama31_8b");
  const std::string beside = published_text(llama, SOURCE_FOLDER "/results/published", Json::object(), 4);
  EXPECT_NE(beside.find("not verified by MLCommons"), std::string::npos);
  EXPECT_NE(beside.find("nothing is divided"), std::string::npos);
}

}  // namespace
}  // namespace quadrille
