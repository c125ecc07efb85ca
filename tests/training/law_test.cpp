// SPDX-License-Identifier: Apache-2.0
// The law: every layout equals the serial run. One SGD step from perturbed weights, all gradients and new weights;
// twenty AdamW steps; in f64 to rounding, in f32 to the noise of summation, on each back end that was built; the Llama
// form of the model; gradients accumulated over micro-batches.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/backend.h"
#include "tests/training/layouts.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

using toy::kLayouts;
using toy::kSerial;
using toy::Layout;
using Changes = std::vector<std::pair<std::string, Json>>;

Changes adamw(const char* dtype) {
  return {
      {"optimizer", parse_json(toy::kAdamW, "t")}, {"rate", parse_json(R"({"peak": 0.003})", "t")}, {"dtype", dtype}};
}

std::vector<Layout> layouts_named(const std::vector<std::string>& names, const std::vector<Layout>& among = kLayouts) {
  std::vector<Layout> found;
  for (const Layout& layout : among)
    if (std::find(names.begin(), names.end(), layout.name) != names.end()) found.push_back(layout);
  return found;
}

std::vector<std::string> built_backends() {
  std::vector<std::string> names;
  for (const Backend& backend : backends())
    if (backend.absent_because.empty() && backend.name != "counting") names.emplace_back(backend.name);
  return names;
}

// The serial run and this layout's, compared.
std::string differs(const Workload& w, const Layout& layout, int steps, const toy::Bounds& bounds,
                    const std::string& backend = "reference") {
  const auto serial = toy::train(w, kSerial, 1, steps, backend);
  return toy::difference(serial, toy::train(w, layout.table, layout.ranks, steps, backend), bounds);
}

const auto kName = [](const auto& info) { return info.param.name; };

class Law : public ::testing::TestWithParam<Layout> {};

TEST_P(Law, OneStepInF64) { EXPECT_EQ(differs(toy::workload(), GetParam(), 1, toy::kF64), ""); }

TEST_P(Law, TwentyAdamWStepsInF64) {
  toy::Bounds bounds = toy::kF64;
  bounds.tensor = 1e-10;  // twenty steps of Adam's division by small second moments
  EXPECT_EQ(differs(toy::workload({}, adamw("f64")), GetParam(), 20, bounds), "");
}

TEST_P(Law, BillsAddUpToTheModelFormula) {
  const auto run = toy::train(toy::workload(), GetParam().table, GetParam().ranks, 2);
  EXPECT_NEAR((run.work.useful + run.work.skipped) / run.model_flops_full, 1.0, 1e-12);
}

TEST_P(Law, MemoryIsWhatTheForecastSays) {
  const auto run = toy::train(toy::workload(), GetParam().table, GetParam().ranks, 2);
  EXPECT_EQ(run.memory.activations, run.forecast.activations);
  EXPECT_EQ(run.memory.weights, run.forecast.weights);
  EXPECT_EQ(run.memory.optimizer, run.forecast.optimizer);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Law, ::testing::ValuesIn(kLayouts), kName);
INSTANTIATE_TEST_SUITE_P(Stores, Law, ::testing::ValuesIn(toy::kStores), kName);
INSTANTIATE_TEST_SUITE_P(Pipelines, Law, ::testing::ValuesIn(toy::kPipelines), kName);

class LawInF32 : public ::testing::TestWithParam<std::tuple<Layout, std::string>> {
 protected:
  const Layout& layout() const { return std::get<0>(GetParam()); }
  const std::string& backend() const { return std::get<1>(GetParam()); }
};

TEST_P(LawInF32, OneStep) {
  EXPECT_EQ(differs(toy::workload({}, {{"dtype", "f32"}}), layout(), 1, toy::kF32, backend()), "");
}

TEST_P(LawInF32, TwentyAdamWSteps) {
  EXPECT_EQ(differs(toy::workload({}, adamw("f32")), layout(), 20, toy::kF32AdamW, backend()), "");
}

// Mixed precision: activations and weights in use are rounded to 8 bits, everything that is summed up is f32.
TEST_P(Law, OneStepInBf16) {
  EXPECT_EQ(differs(toy::workload({}, {{"dtype", "bf16"}}), GetParam(), 1, toy::kBf16), "");
}

// What bf16 itself costs beside f64 is no more than what a layout may differ by; and not nothing.
TEST(LawInBf16, StaysNearTheExactRun) {
  const auto exact = toy::train(toy::workload(), kSerial, 1, 1),
             rounded = toy::train(toy::workload({}, {{"dtype", "bf16"}}), kSerial, 1, 1);
  EXPECT_EQ(toy::difference(exact, rounded, toy::kBf16), "");
  EXPECT_NE(toy::difference(exact, rounded, toy::kF32), "");
}

const auto kNameAndBackend = [](const auto& info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param);
};
INSTANTIATE_TEST_SUITE_P(Layouts, LawInF32,
                         ::testing::Combine(::testing::ValuesIn(kLayouts), ::testing::ValuesIn(built_backends())),
                         kNameAndBackend);
INSTANTIATE_TEST_SUITE_P(Stores, LawInF32,
                         ::testing::Combine(::testing::ValuesIn(toy::kStores), ::testing::ValuesIn(built_backends())),
                         kNameAndBackend);
INSTANTIATE_TEST_SUITE_P(Pipelines, LawInF32,
                         ::testing::Combine(::testing::ValuesIn(toy::kPipelines),
                                            ::testing::ValuesIn(built_backends())),
                         kNameAndBackend);

// Rotary positions, rms norms without bias, gated MLP, two groups of shared keys and values, a head of its own.
class LawOfLlama : public ::testing::TestWithParam<Layout> {
 protected:
  static Workload llama(const char* dtype) {
    return toy::workload({{"positions", "rotary"},
                          {"norm", "rms"},
                          {"activation", "gated_silu"},
                          {"bias", false},
                          {"kv_heads", 2},
                          {"tied_head", false}},
                         {{"dtype", dtype}});
  }
};

TEST_P(LawOfLlama, OneStepInF64) { EXPECT_EQ(differs(llama("f64"), GetParam(), 1, toy::kF64), ""); }

TEST_P(LawOfLlama, OneStepInF32) {
  for (const std::string& backend : built_backends())
    EXPECT_EQ(differs(llama("f32"), GetParam(), 1, toy::kF32, backend), "") << backend;
}

INSTANTIATE_TEST_SUITE_P(Layouts, LawOfLlama,
                         ::testing::ValuesIn(layouts_named({"data2", "data8", "tensor2", "data2_tensor2",
                                                            "tensor2_data2", "mlp_only2", "vocab_only3", "embed2",
                                                            "y2_x2", "data2_y2_x2", "tensor2_sequence"})),
                         kName);

// More parts of the heads than there are keys and values: each part has a replica of those it meets.
class LawOfReplicatedKeys : public ::testing::TestWithParam<Layout> {
 protected:
  static Workload shared_keys(const char* dtype, bool llama) {
    if (!llama) return toy::workload({{"kv_heads", 1}}, {{"dtype", dtype}});
    return toy::workload({{"kv_heads", 2}, {"heads", 8}, {"embed", 16}, {"positions", "rotary"}, {"bias", false}},
                         {{"dtype", dtype}});
  }
};

TEST_P(LawOfReplicatedKeys, OneStepInF64) {
  for (const bool llama : {false, true})
    EXPECT_EQ(differs(shared_keys("f64", llama), GetParam(), 1, toy::kF64), "") << llama;
}

TEST_P(LawOfReplicatedKeys, BillsAddUpToTheModelFormula) {
  const auto run = toy::train(shared_keys("f64", false), GetParam().table, GetParam().ranks, 2);
  EXPECT_NEAR((run.work.useful + run.work.skipped) / run.model_flops_full, 1.0, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Layouts, LawOfReplicatedKeys,
                         ::testing::ValuesIn(layouts_named({"tensor4", "data2_tensor4", "data2_tensor4_sequence",
                                                            "y2_x2", "tensor2_sequence"})),
                         kName);
INSTANTIATE_TEST_SUITE_P(Stores, LawOfReplicatedKeys,
                         ::testing::ValuesIn(layouts_named({"axonn8", "axonn8_recomputed", "quad4d8"}, toy::kStores)),
                         kName);

// The whole batch at once against rows of two at a time, under each layout.
class LawOfMicroBatches : public ::testing::TestWithParam<Layout> {};

TEST_P(LawOfMicroBatches, OneStepInF64) {
  const auto serial = toy::train(toy::workload(), kSerial, 1, 1);
  const auto w = toy::workload({}, {{"micro_batch", 2}});
  EXPECT_EQ(toy::difference(serial, toy::train(w, GetParam().table, GetParam().ranks, 1), toy::kF64), "");
}

TEST_P(LawOfMicroBatches, OneStepInF32) {
  for (const std::string& backend : built_backends()) {
    const auto serial = toy::train(toy::workload({}, {{"dtype", "f32"}}), kSerial, 1, 1, backend);
    const auto w = toy::workload({}, {{"dtype", "f32"}, {"micro_batch", 2}});
    EXPECT_EQ(toy::difference(serial, toy::train(w, GetParam().table, GetParam().ranks, 1, backend), toy::kF32), "")
        << backend;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, LawOfMicroBatches,
                         ::testing::ValuesIn(layouts_named({"data2", "tensor2", "tensor4", "data2_tensor2", "y2_x2",
                                                            "tensor2_sequence", "data2_y2_x2"})),
                         kName);
INSTANTIATE_TEST_SUITE_P(Pipelines, LawOfMicroBatches, ::testing::ValuesIn(toy::kPipelines), kName);
INSTANTIATE_TEST_SUITE_P(Interleaved, LawOfMicroBatches, ::testing::ValuesIn(toy::kInterleaved), kName);
INSTANTIATE_TEST_SUITE_P(Stores, LawOfMicroBatches,
                         ::testing::ValuesIn(layouts_named({"zero1_2", "zero2_2", "zero3_2", "zero3_4_kept",
                                                            "hybrid_shard4", "axonn8", "quad4d8"},
                                                           toy::kStores)),
                         kName);

}  // namespace
}  // namespace quadrille
