// SPDX-License-Identifier: Apache-2.0
// Each rule of the verdict with the fault it is there for.
#include "benchmarks/harness/verdict.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "benchmarks/harness/peaks.h"
#include "tests/benchmarks/samples.h"

namespace quadrille {
namespace {

TEST(Verdict, GoodRunIsValidWithoutNotes) {
  const Verdict verdict = judge(good_record());
  EXPECT_TRUE(verdict.valid);
  EXPECT_TRUE(verdict.reasons.empty());
  EXPECT_TRUE(verdict.notes.empty()) << verdict.notes.front();
}

struct Fault {
  const char* name;
  std::function<void(Record&)> plant;
  const char* told;  // part of the one reason or note
  bool valid;        // a note only
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class VerdictFault : public testing::TestWithParam<Fault> {};

TEST_P(VerdictFault, IsTold) {
  Record record = good_record();
  GetParam().plant(record);
  const Verdict verdict = judge(record);
  EXPECT_EQ(verdict.valid, GetParam().valid);
  const auto& lines = GetParam().valid ? verdict.notes : verdict.reasons;
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines.front().find(GetParam().told), std::string::npos) << lines.front();
}

void miss_target(Record& r) {
  r.evaluations.back().quality = 1.8, r.evaluations.back().reached = false;
  r.seconds_to_target.reset(), r.stop_reason = stop::kSteps;
}

INSTANTIATE_TEST_SUITE_P(
    All, VerdictFault,
    testing::Values(
        Fault{"diverged", [](Record& r) { r.stop_reason = stop::kDiverged; }, "diverged", false},
        Fault{"not_reached", miss_target, "wanted at most 1.7", false},
        Fault{"never_evaluated",
              [](Record& r) {
                r.evaluations.clear(), r.seconds_to_target.reset();
                r.stop_reason = stop::kTime;
              },
              "never evaluated (time limit)", false},
        Fault{"at_least_missed",
              [](Record& r) {
                r.target->direction = "at_least", r.target->value = 3;
                r.seconds_to_target.reset(), r.stop_reason = stop::kSteps;
              },
              "wanted at least 3", false},
        Fault{"cut_short",
              [](Record& r) {
                r.target.reset(), r.seconds_to_target.reset();
                r.stop_reason = stop::kTime;
              },
              "the time limit came before the last step", false},
        Fault{"claimed", [](Record& r) { r.evaluations.back().quality = 1.8; }, "no evaluation reached it", false},
        Fault{"step_missing", [](Record& r) { r.steps.erase(r.steps.begin() + 3); }, "step 5 stands where step 4",
              false},
        Fault{"went_on", [](Record& r) { r.steps[3].loss = std::numeric_limits<double>::quiet_NaN(); }, "not finite",
              false},
        Fault{"gradients_not_finite", [](Record& r) { r.steps[3].finite = false; }, "not finite", false},
        Fault{"step_twice", [](Record& r) { r.steps[3].step = 3; }, "step 3 stands where step 4", false},
        Fault{"labels_twice", [](Record& r) { r.evaluations[1].labels = 401; }, "counted 401 labels", false},
        Fault{"labels_lost", [](Record& r) { r.evaluations[0].labels = 399; }, "counted 399 labels, the set has 400",
              false},
        Fault{"flops_lost", [](Record& r) { r.flops.training.useful *= 1 - 2e-6; }, "formula", false},
        Fault{"above_peak", [](Record& r) { r.utilisation.mfu_full_of_measured_peak = 1.01; }, "above 100 %", false},
        Fault{"hardware_above_peak", [](Record& r) { r.utilisation.hfu_of_datasheet_peak = 1.2; }, "above 100 %",
              false},
        Fault{"hardware_above_measured_peak", [](Record& r) { r.utilisation.hfu_of_measured_peak = 1.01; },
              "hardware utilisation of the measured peak", false},
        Fault{"above_datasheet", [](Record& r) { r.utilisation.mfu_full_of_datasheet_peak = 1.01; },
              "model utilisation of the datasheet peak", false},
        Fault{"interval_above_peak", [](Record& r) { r.utilisation.model_full_of_peak_in_timed_interval = 1.01; },
              "utilisation over the timed interval", false},
        Fault{"utilisation_is_no_number",
              [](Record& r) { r.utilisation.mfu_full_of_measured_peak = std::numeric_limits<double>::quiet_NaN(); },
              "n/a", false},
        Fault{"skipped_too_much", [](Record& r) { r.flops.training.skipped *= 1 + 1e-5; }, "formula", false},
        Fault{"negative_phases", [](Record& r) { r.phases_seconds["other"] = -0.03; }, "unexplained", true},
        Fault{"memory_unused", [](Record& r) { r.rank_lines[0].measured.activations = 3000; }, "rank 0 took", true},
        Fault{"reference", [](Record& r) { r.timed_claims = false; }, "claim nothing", true},
        Fault{"few_steps",
              [](Record& r) {
                for (StepLine& line : r.steps) line.warm_up = line.step <= 8;
                r.step_statistics = step_statistics(r.steps);
                r.utilisation = utilisation_of(r, "f32");
              },
              "too few steps: 2", true},
        Fault{"phases", [](Record& r) { r.phases_seconds["other"] = 0.03; }, "unexplained", true},
        Fault{"memory", [](Record& r) { r.rank_lines[1].measured.activations = 7000; }, "rank 1 took", true},
        Fault{"probe", [](Record& r) { r.peak.spread_fraction = 0.2; }, "varied by 20.0 %", true},
        Fault{"modified", [](Record& r) { r.environment.set("source_modified", true); }, "uncommitted", true},
        Fault{"no_target",
              [](Record& r) {
                r.target.reset(), r.seconds_to_target.reset();
                r.stop_reason = stop::kSteps;
              },
              "no target", true}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Verdict, WithinTheTolerancesNothingIsSaid) {
  Record record = good_record();
  record.phases_seconds["other"] = 0.0199 * record.timed_seconds;
  record.rank_lines[0].measured.activations = record.rank_lines[0].forecast.activations + 1300;  // of 9100
  record.rank_lines[1].measured.activations = record.rank_lines[1].forecast.activations - 1300;
  record.peak.spread_fraction = 0.05;
  record.flops.training.useful *= 1 + 5e-7;
  record.utilisation.hfu_of_measured_peak = 1;
  const Verdict verdict = judge(record);
  EXPECT_TRUE(verdict.valid) << verdict.reasons.front();
  EXPECT_TRUE(verdict.notes.empty()) << verdict.notes.front();
}

TEST(Verdict, NoRuleHidesAnother) {
  Record record = good_record();
  record.steps.erase(record.steps.begin());
  record.evaluations[0].labels = 1;
  record.flops.training.useful = 0;
  record.utilisation.hfu_of_measured_peak = 2;
  record.timed_claims = false;
  record.peak.spread_fraction = 1;
  EXPECT_EQ(judge(record).reasons.size(), 4U);
  EXPECT_EQ(judge(record).notes.size(), 2U);
}

TEST(Utilisation, IsRateOverPeak) {
  const Record r = good_record();  // steps 3 to 10 take 0.1065 s on average
  EXPECT_NEAR(*r.step_statistics.mean_seconds, 0.1065, 1e-12);
  EXPECT_NEAR(*r.utilisation.mfu_full_of_measured_peak, 1e9 / 0.1065 / 100e9, 1e-12);
  EXPECT_NEAR(*r.utilisation.mfu_causal_of_datasheet_peak, 0.9e9 / 0.1065 / 200e9, 1e-12);
  EXPECT_NEAR(*r.utilisation.hfu_of_measured_peak, 8.875e8 / 0.1065 / 100e9, 1e-12);
  EXPECT_NEAR(*r.utilisation.model_full_of_peak_in_timed_interval, 10e9 / 1.2 / 100e9, 1e-12);
}

TEST(Utilisation, OtherNumberTypeOrUnknownChipIsNotAvailable) {
  Record r = good_record();
  r.peak.datasheet_flops_per_second.reset();
  const Utilisation u = utilisation_of(r, "f64");
  EXPECT_TRUE(u.model_full_flops_per_second);
  EXPECT_FALSE(u.mfu_full_of_measured_peak);
  EXPECT_FALSE(u.mfu_full_of_datasheet_peak);
  Peak peak;
  add_datasheet_peak(
      peak, "Chip B", "f32", 1,
      parse_json(R"({"rows": [{"chip": "Chip A", "dense_flops_per_second": {"f32": 1e12}, "source": "s"}]})", "table"));
  EXPECT_FALSE(peak.datasheet_flops_per_second);
  EXPECT_NE(peak.datasheet_source.find("n/a"), std::string::npos);
}

}  // namespace
}  // namespace quadrille
