// SPDX-License-Identifier: Apache-2.0
// The law: every layout equals the serial run. One SGD step from perturbed weights, all gradients and new weights; twenty
// AdamW steps; in f64 to rounding, in f32 to the noise of summation.
#include <gtest/gtest.h>

#include "tests/training/toy.h"

namespace quadrille {
namespace {

struct Layout {
  std::string name;
  int ranks;
  std::string table;
};
void PrintTo(const Layout& l, std::ostream* out) { *out << l.name; }

const std::vector<Layout> kLayouts = {
    {"data2", 2, R"({"mesh": [["data", "*"]], "axes": {"batch": "data"}})"},
    {"data4", 4, R"({"mesh": [["data", "*"]], "axes": {"batch": "data"}})"},
    {"data8", 8, R"({"mesh": [["data", "*"]], "axes": {"batch": "data"}})"},
    {"data2_depth2", 4, R"({"mesh": [["data", 2], ["depth", 2]], "axes": {"batch": ["data", "depth"]}})"},
    {"tensor2", 2, R"({"mesh": [["x", 2]], "axes": {"heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"tensor4", 4, R"({"mesh": [["x", 4]], "axes": {"heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"data2_tensor2", 4, R"({"mesh": [["data", 2], ["x", 2]], "axes": {"batch": "data", "heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"data2_tensor4", 8, R"({"mesh": [["data", 2], ["x", 4]], "axes": {"batch": "data", "heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"tensor2_data2", 4, R"({"mesh": [["x", 2], ["data", 2]], "axes": {"batch": "data", "heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"mlp_only2", 2, R"({"mesh": [["x", 2]], "axes": {"mlp": "x"}})"},
    {"vocab_only3", 3, R"({"mesh": [["x", 3]], "axes": {"vocab": "x"}})"},
    {"embed2", 2, R"({"mesh": [["y", 2]], "axes": {"embed": "y"}})"},
    {"y2_x2", 4, R"({"mesh": [["y", 2], ["x", 2]], "axes": {"embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"data2_y2_x2", 8, R"({"mesh": [["data", 2], ["y", 2], ["x", 2]], "axes": {"batch": "data", "embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}})"},
    {"tensor2_sequence", 2, R"({"mesh": [["x", 2]], "axes": {"heads": "x", "mlp": "x", "vocab": "x", "sequence": "x"}})"},
    {"data2_tensor4_sequence", 8, R"({"mesh": [["data", 2], ["x", 4]], "axes": {"batch": "data", "heads": "x", "mlp": "x", "vocab": "x", "sequence": "x"}})"},
    {"heads_pass_y", 4,
     R"({"mesh": [["y", 2], ["x", 2]], "axes": {"embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}, "passing": [["heads", "heads", "y"]]})"},
};

class Law : public ::testing::TestWithParam<Layout> {};
constexpr const char* kSerial = "{}";

TEST_P(Law, OneStepInF64) {
  const auto serial = toy::train(toy::workload(), kSerial, 1, 1);
  EXPECT_EQ(toy::difference(serial, toy::train(toy::workload(), GetParam().table, GetParam().ranks, 1), toy::kF64), "");
}

TEST_P(Law, TwentyAdamWStepsInF64) {
  const auto w = toy::workload({}, {{"optimizer", parse_json(R"({"kind": "adamw", "weight_decay": 0.1})", "t")}, {"rate", parse_json(R"({"peak": 0.003})", "t")}});
  const auto serial = toy::train(w, kSerial, 1, 20);
  toy::Bounds bounds = toy::kF64;
  bounds.tensor = 1e-10;   // twenty steps of Adam's division by small second moments
  EXPECT_EQ(toy::difference(serial, toy::train(w, GetParam().table, GetParam().ranks, 20), bounds), "");
}

TEST_P(Law, OneStepInF32) {
  const auto w = toy::workload({}, {{"dtype", "f32"}});
  const auto serial = toy::train(w, kSerial, 1, 1);
  EXPECT_EQ(toy::difference(serial, toy::train(w, GetParam().table, GetParam().ranks, 1), toy::kF32), "");
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

INSTANTIATE_TEST_SUITE_P(Layouts, Law, ::testing::ValuesIn(kLayouts), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace quadrille
