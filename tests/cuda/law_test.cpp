// SPDX-License-Identifier: Apache-2.0
// The law on fake GPUs: every layout of the law tests, computed by the cuda back end, equals its serial run: in f64, so
// that rounding hides nothing, and in bf16. What ranks allocate is what the forecast says.
#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "tests/cuda/standin/standin.h"
#include "tests/training/layouts.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

using toy::Layout;

class LawOnGpus : public ::testing::TestWithParam<Layout> {
 protected:
  void TearDown() override { EXPECT_EQ(standin::forgive(), std::vector<std::string>()); }

  // Over NCCL where there is a GPU for each rank; else they share, and numbers go through host memory.
  toy::Outcome train(const Workload& w, int steps) {
    toy::Hooks hooks;
    hooks.devices.share = GetParam().ranks > standin::kDevices;
    return toy::train(w, GetParam().table, GetParam().ranks, steps, "cuda", hooks);
  }
  std::string differs(const Workload& w, int steps, const toy::Bounds& bounds) {
    return toy::difference(toy::train(w, toy::kSerial, 1, steps, "cuda"), train(w, steps), bounds);
  }
};

TEST_P(LawOnGpus, OneStepInF64) {
  const Workload w = toy::workload();
  const toy::Outcome run = train(w, 1);
  EXPECT_EQ(toy::difference(toy::train(w, toy::kSerial, 1, 1, "cuda"), run, toy::kF64), "");
  EXPECT_EQ(run.memory.activations, run.forecast.activations);
  EXPECT_EQ(run.memory.weights, run.forecast.weights);
  EXPECT_EQ(run.memory.optimizer, run.forecast.optimizer);
  EXPECT_EQ(run.memory.scratch, run.forecast.scratch);
}

const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Layouts, LawOnGpus, ::testing::ValuesIn(toy::kLayouts), kName);
INSTANTIATE_TEST_SUITE_P(Stores, LawOnGpus, ::testing::ValuesIn(toy::kStores), kName);
INSTANTIATE_TEST_SUITE_P(Pipelines, LawOnGpus, ::testing::ValuesIn(toy::kPipelines), kName);

// The other number types go the same ways, so a few layouts do.
class TypesOnGpus : public LawOnGpus {};

TEST_P(TypesOnGpus, OneStepInBf16) {
  const Workload w = toy::workload({}, {{"dtype", "bf16"}});
  const toy::Outcome run = train(w, 1);
  EXPECT_EQ(toy::difference(toy::train(w, toy::kSerial, 1, 1, "cuda"), run, toy::kBf16), "");
  EXPECT_EQ(run.memory.activations, run.forecast.activations);
  EXPECT_EQ(run.memory.scratch, run.forecast.scratch);
}

// More steps than a step's work is looked at before it is kept and done again in one call.
TEST_P(TypesOnGpus, FiveAdamWStepsInF32) {
  const Workload w = toy::workload(
      {},
      {{"optimizer", parse_json(toy::kAdamW, "t")}, {"rate", parse_json(R"({"peak": 0.003})", "t")}, {"dtype", "f32"}});
  EXPECT_EQ(differs(w, 5, toy::kF32AdamW), "");
}

std::vector<Layout> few() {
  std::vector<Layout> found;
  for (const auto* all : {&toy::kLayouts, &toy::kStores, &toy::kPipelines})
    for (const Layout& layout : *all)
      for (const char* name : {"data2", "data2_tensor2", "tensor2_sequence", "y2_x2", "zero3_2", "pipe2"})
        if (layout.name == name) found.push_back(layout);
  return found;
}
INSTANTIATE_TEST_SUITE_P(Few, TypesOnGpus, ::testing::ValuesIn(few()), kName);

// The judge of the cuda back end is the reference: a serial run of each gives the same training.
TEST(SerialOnAGpu, EqualsTheReference) {
  const Workload w = toy::workload();
  EXPECT_EQ(toy::difference(toy::train(w, toy::kSerial, 1, 3, "reference"), toy::train(w, toy::kSerial, 1, 3, "cuda"),
                            toy::kF64),
            "");
}

// Without dropout a step's work is kept and done again: what differs from step to step, such as how many labels count
// in each of two losses, must come to the device all the same.
TEST(SerialOnAGpu, StepsOfTwoLossesAreReplayed) {
  const Workload w = toy::masked_words({{"dropout", 0}}, {{"micro_batch", 4}});
  toy::Hooks hooks;
  std::int64_t replayed = 0;
  hooks.after_steps = [&](Trainer& trainer, int) { replayed = trainer.replayed_steps(); };
  const auto run = toy::train(w, toy::kSerial, 1, 6, "cuda", hooks);
  toy::Bounds bounds = toy::kF64;
  bounds.loss = bounds.norm = bounds.tensor = 1e-10;
  EXPECT_EQ(toy::difference(toy::train(w, toy::kSerial, 1, 6, "reference"), run, bounds), "");
  EXPECT_GT(replayed, 0);
}

// Masked words, padding and two losses, over ranks.
TEST(BertOnGpus, EqualsTheReference) {
  const Workload w = toy::masked_words({}, {{"micro_batch", 2}});
  const auto serial = toy::train(w, toy::kSerial, 1, 2, "reference");
  for (const char* table :
       {R"({"mesh": [["data", 2]], "axes": {"batch": "data"}})",
        R"({"mesh": [["x", 2]], "axes": {"heads": "x", "mlp": "x", "vocab": "x", "sequence": "x"}})",
        R"({"mesh": [["c", 2]], "axes": {"sequence": "c"}, "context": {"attention": "ring"}})",
        R"({"mesh": [["pipe", 2]], "axes": {}, "pipeline": {"axis": "pipe", "schedule": "1f1b"}})"})
    EXPECT_EQ(toy::difference(serial, toy::train(w, table, 2, 2, "cuda"), toy::kF64), "") << table;
}

}  // namespace
}  // namespace quadrille
