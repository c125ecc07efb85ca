// SPDX-License-Identifier: Apache-2.0
// Learning rates against closed values: of each schedule at its corners, and of published sets of hyperparameters.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "training/config.h"

namespace quadrille {
namespace {

RateConfig rate(const char* text, int steps = 100) {
  Json training = parse_json(R"({"batch_size": 8})", "t"), resolved;
  training.set("steps", steps);
  training.set("rate", parse_json(text, "t"));
  return read_training(training, resolved).rate;
}

TEST(Rate, WarmUpIsLinearFromNothingAndReachesThePeakAtItsLastStep) {
  for (const char* schedule : {"constant", "linear", "polynomial", "cosine", "inverse_sqrt"}) {
    RateConfig r = rate(R"({"peak": 0.8, "warmup_steps": 4})");
    r.schedule = schedule;
    EXPECT_DOUBLE_EQ(rate_at(r, 1), 0.2) << schedule;
    EXPECT_DOUBLE_EQ(rate_at(r, 3), 0.6) << schedule;
    EXPECT_EQ(rate_at(r, 4), 0.8) << schedule;
    EXPECT_LE(rate_at(r, 5), 0.8) << schedule;
  }
}

TEST(Rate, Constant) {
  const RateConfig r = rate(R"({"peak": 0.8})");
  for (const int step : {1, 50, 100, 1000}) EXPECT_EQ(rate_at(r, step), 0.8);
}

TEST(Rate, SchedulesThatEndAreHalfWayInTheMiddleAndStayAtTheEnd) {
  const auto at = [](const char* text, int step) { return rate_at(rate(text), step); };
  const char* linear = R"({"schedule": "linear", "peak": 1, "final": 0.2, "warmup_steps": 10, "steps": 90})";
  EXPECT_DOUBLE_EQ(at(linear, 11), 1 - 0.8 / 80);
  EXPECT_DOUBLE_EQ(at(linear, 50), 0.6);
  EXPECT_DOUBLE_EQ(at(linear, 90), 0.2);
  EXPECT_DOUBLE_EQ(at(linear, 95), 0.2);
  const char* polynomial =
      R"({"schedule": "polynomial", "power": 3, "peak": 1, "final": 0.2, "warmup_steps": 10, "steps": 90})";
  EXPECT_DOUBLE_EQ(at(polynomial, 50), 0.3);
  EXPECT_DOUBLE_EQ(at(polynomial, 90), 0.2);
  const char* cosine = R"({"schedule": "cosine", "peak": 1, "final": 0.2, "warmup_steps": 10, "steps": 90})";
  EXPECT_DOUBLE_EQ(at(cosine, 30), 0.2 + 0.4 * (1 + std::sqrt(0.5)));
  EXPECT_DOUBLE_EQ(at(cosine, 50), 0.6);
  EXPECT_DOUBLE_EQ(at(cosine, 90), 0.2);
  EXPECT_DOUBLE_EQ(at(R"({"schedule": "linear", "peak": 1})", 100), 0) << "without an end: that of the run";
}

TEST(Rate, APolynomialOfPowerOneIsALine) {
  const RateConfig line = rate(R"({"schedule": "linear", "peak": 1, "warmup_steps": 7})"),
                   polynomial = rate(R"({"schedule": "polynomial", "peak": 1, "warmup_steps": 7})");
  for (int step = 1; step <= 110; ++step) EXPECT_DOUBLE_EQ(rate_at(line, step), rate_at(polynomial, step));
}

// MLPerf's ResNet-50 with LARS at batch 4096: 5 epochs of ceil(1281167 / 4096) steps of warm-up.
TEST(Rate, OfResnetAtBatch4096) {
  const RateConfig r = rate(R"({"schedule": "polynomial", "power": 2, "peak": 10, "final": 1e-4,
                                "warmup_steps": 1565, "steps": 13137})",
                            20000);
  EXPECT_DOUBLE_EQ(rate_at(r, 313), 2);
  EXPECT_DOUBLE_EQ(rate_at(r, 1565), 10);
  EXPECT_DOUBLE_EQ(rate_at(r, (1565 + 13137) / 2), 2.500075);
  EXPECT_DOUBLE_EQ(rate_at(r, 13137), 1e-4);
}

// MLPerf's BERT with LAMB: schedules that began before the run.
TEST(Rate, OfBertAtBatch8192And6144) {
  const RateConfig r = rate(R"({"schedule": "polynomial", "peak": 2.88293e-3, "warmup_steps": 287, "steps": 600,
                                "start_step": -76})",
                            600);
  EXPECT_DOUBLE_EQ(rate_at(r, 1), 2.88293e-3 * 77 / 287);
  EXPECT_EQ(rate_at(r, 211), 2.88293e-3);
  EXPECT_DOUBLE_EQ(rate_at(r, 406), 2.88293e-3 * 194 / 389);
  EXPECT_NEAR(rate_at(r, 600), 0, 1e-18);
  const RateConfig no_warm_up =
      rate(R"({"schedule": "linear", "peak": 2.9293e-3, "steps": 700, "start_step": -700})", 700);
  EXPECT_DOUBLE_EQ(rate_at(no_warm_up, 1), 2.9293e-3 * 699 / 1400);
}

// Vaswani et al. 2017, section 5.3, with the factor 2 and the 16000 steps of MLPerf's reference, width 1024:
// 2 d^(-1/2) min(k^(-1/2), k w^(-3/2)).
TEST(Rate, OfTheTransformer) {
  RateConfig r = rate(R"({"schedule": "inverse_sqrt", "peak": 1, "warmup_steps": 16000})");
  r.peak = 2 / std::sqrt(1024.0 * 16000);
  for (const double k : {1.0, 4000.0, 16000.0, 16001.0, 64000.0, 1e6})
    EXPECT_NEAR(rate_at(r, static_cast<std::int64_t>(k)),
                2 / std::sqrt(1024.0) * std::min(1 / std::sqrt(k), k * std::pow(16000.0, -1.5)), 1e-18)
        << k;
  EXPECT_DOUBLE_EQ(rate_at(r, 64000), r.peak / 2);
  const RateConfig no_warm_up = rate(R"({"schedule": "inverse_sqrt", "peak": 0.6})");
  EXPECT_EQ(rate_at(no_warm_up, 1), 0.6);
  EXPECT_DOUBLE_EQ(rate_at(no_warm_up, 9), 0.2);
}

// MLPerf's GPT-3 at batch 1536: 265 steps of warm-up, then a cosine of 108600 down to a tenth.
TEST(Rate, OfGpt3) {
  const RateConfig r =
      rate(R"({"schedule": "cosine", "peak": 2e-5, "final": 2e-6, "warmup_steps": 265, "steps": 108865})", 108865);
  EXPECT_DOUBLE_EQ(rate_at(r, 265 + 54300), 1.1e-5);
  EXPECT_DOUBLE_EQ(rate_at(r, 265 + 36200), 2e-6 + 1.8e-5 * 0.75);
  EXPECT_DOUBLE_EQ(rate_at(r, 108865), 2e-6);
}

}  // namespace
}  // namespace quadrille
