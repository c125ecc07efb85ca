// SPDX-License-Identifier: Apache-2.0
// Where only the keeping of state or the time of a message differs, the numbers must not: to the last bit.
#include <gtest/gtest.h>

#include "tests/training/toy.h"

namespace quadrille {
namespace {

std::string data_parallel(const std::string& more, int ranks) {
  return R"({"mesh": [["data", )" + std::to_string(ranks) + R"(]], "axes": {"batch": "data"})" + more + "}";
}

constexpr const char* kZero1 = R"(, "store": {"optimizer": ["data"]})";
constexpr const char* kZero2 = R"(, "store": {"gradients": ["data"], "optimizer": ["data"]})";
constexpr const char* kZero3 = R"(, "store": {"weights": ["data"], "gradients": ["data"], "optimizer": ["data"]})";
constexpr const char* kKept =
    R"(, "store": {"weights": ["data"], "gradients": ["data"], "optimizer": ["data"], "keep_gathered": true})";

toy::Outcome five_steps(const std::string& table, int ranks, std::int64_t micro_batch = 0, const char* dtype = "f32") {
  auto w =
      toy::workload({}, {{"dtype", dtype}, {"optimizer", parse_json(toy::kAdamW, "t")}, {"micro_batch", micro_batch}});
  return toy::train(w, table, ranks, 5);
}

void expect_same_bits(const toy::Outcome& a, const toy::Outcome& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  EXPECT_EQ(a.values, b.values) << what;
  EXPECT_EQ(a.gradients, b.gradients) << what;
}

TEST(Bits, ShardsOfStateDoNotChangeThem) {
  for (const auto& [ranks, dtype] : {std::pair{2, "f32"}, {4, "f32"}, {2, "bf16"}, {4, "bf16"}}) {
    const toy::Outcome data = five_steps(data_parallel("", ranks), ranks, 0, dtype);
    for (const char* store : {kZero1, kZero2, kZero3, kKept}) {
      const toy::Outcome stored = five_steps(data_parallel(store, ranks), ranks, 0, dtype);
      EXPECT_EQ(data.losses, stored.losses) << store;
      EXPECT_EQ(data.values, stored.values) << store;
      EXPECT_EQ(data.gradients, stored.gradients) << store;
      // The norm alone is added up part by part.
      for (std::size_t k = 0; k < data.norms.size(); ++k)
        EXPECT_NEAR(data.norms[k] / stored.norms[k], 1, 1e-12) << store;
    }
  }
}

// Sums of several micro-batches are paid at once by the first and one by one by the second: rounding differs, sense
// does not.
TEST(Bits, OptimizerShardsDoNotChangeThemWithMicroBatchesEither) {
  const toy::Outcome data = five_steps(data_parallel("", 2), 2, 2), zero1 = five_steps(data_parallel(kZero1, 2), 2, 2);
  EXPECT_EQ(data.values, zero1.values);
}

TEST(Bits, OverlapDoesNotChangeThem) {
  const std::string all = R"(, "overlap": ["input_gradient", "reduce_scatter", "all_gather", "send"])";
  for (const char* store : {"", kZero1, kZero2, kZero3, kKept})
    for (const std::int64_t micro_batch : {0, 2})
      expect_same_bits(five_steps(data_parallel(store, 2), 2, micro_batch),
                       five_steps(data_parallel(store + all, 2), 2, micro_batch), store);
  const std::string axes = R"("axes": {"batch": "depth", "embed": "y", "heads": "x", "mlp": "x", "vocab": "x"},)"
                           R"("store": {"weights": ["depth"], "gradients": ["depth"], "optimizer": ["depth"]})";
  const std::string mesh = R"({"mesh": [["depth", 2], ["y", 2], ["x", 2]], )" + axes;
  expect_same_bits(five_steps(mesh + "}", 8), five_steps(mesh + all + "}", 8), "axonn4d");
  const std::string pipe = R"({"mesh": [["pipe", 2], ["x", 2]], "axes": {"heads": "x", "mlp": "x", "vocab": "x"},)"
                           R"("pipeline": {"schedule": "1f1b"})";
  expect_same_bits(five_steps(pipe + "}", 4, 2), five_steps(pipe + all + "}", 4, 2), "pipeline");
}

// Small steps must not be lost where weights in use have 8 bits: the masters remember them.
TEST(Bits, MastersKeepWhatRoundingWouldLose) {
  auto w = toy::workload({}, {{"dtype", "bf16"}, {"rate", parse_json(R"({"peak": 1e-6})", "t")}});
  const auto one = toy::train(w, R"({"mesh": [["data", 2]], "axes": {"batch": "data"}})", 2, 1),
             many = toy::train(w, R"({"mesh": [["data", 2]], "axes": {"batch": "data"}})", 2, 20);
  EXPECT_NE(one.values, many.values);
  for (const auto& [name, values] : many.values)
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], one.values.at(name)[i], 1e-4) << name;
}

TEST(Bits, MemoryOfMixedPrecisionIsTwoBytesAWeightAndTwelveAMaster) {
  const auto w = toy::workload({}, {{"dtype", "bf16"}, {"optimizer", parse_json(toy::kAdamW, "t")}});
  const auto all = toy::train(w, data_parallel("", 2), 2, 1), cut = toy::train(w, data_parallel(kZero1, 2), 2, 1);
  EXPECT_EQ(all.memory.gradients, 2 * all.memory.weights);  // f32 beside bf16
  EXPECT_EQ(all.memory.optimizer, 6 * all.memory.weights);  // two moments and the master, f32 each
  EXPECT_EQ(cut.memory.optimizer * 2, all.memory.optimizer + 12 * (cut.memory.weights - all.memory.weights) / 2);
  EXPECT_EQ(cut.memory.weights, cut.forecast.weights);
  EXPECT_EQ(cut.memory.optimizer, cut.forecast.optimizer);
}

TEST(Bits, RecomputationDoesNotChangeThem) {
  expect_same_bits(five_steps(data_parallel("", 2), 2), five_steps(data_parallel(R"(, "recompute": "full")", 2), 2),
                   "full");
  expect_same_bits(five_steps(data_parallel("", 2), 2),
                   five_steps(data_parallel(R"(, "recompute": "selective")", 2), 2), "selective");
}

}  // namespace
}  // namespace quadrille
