// SPDX-License-Identifier: Apache-2.0
// The law on fake GPUs: layouts of every kind of message, with messages beside the maths, equal the serial run on one
// GPU; over NCCL, and through host memory with a courier. Streams run late (or early), so a missing wait shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "kernels/backend.h"
#include "tests/cuda/standin/standin.h"
#include "tests/training/layouts.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

using toy::Layout;

constexpr const char* kOverlap = R"(, "overlap": ["input_gradient", "reduce_scatter", "all_gather", "send"]})";

// The table with all that may travel beside the maths.
std::string overlapped(const std::string& table) {
  if (table.find("\"overlap\"") != std::string::npos) return table;
  return table.substr(0, table.rfind('}')) + kOverlap;
}

std::vector<Layout> layouts(const std::vector<std::string>& names) {
  std::vector<Layout> found;
  for (const auto* all : {&toy::kLayouts, &toy::kStores, &toy::kPipelines})
    for (const Layout& layout : *all)
      if (layout.ranks <= standin::kDevices && std::find(names.begin(), names.end(), layout.name) != names.end())
        found.push_back(layout);
  return found;
}

class LawWithOverlap : public ::testing::TestWithParam<std::tuple<Layout, Collectives>> {
 protected:
  // One serial run serves all layouts.
  static const toy::Outcome& serial(const Workload& w) {
    static const toy::Outcome run = toy::train(w, toy::kSerial, 1, 1, "cuda");
    return run;
  }
  ~LawWithOverlap() override { EXPECT_EQ(standin::forgive(), std::vector<std::string>()); }
};

TEST_P(LawWithOverlap, HoldsWithOverlap) {
  const auto& [layout, collectives] = GetParam();
  toy::Hooks hooks;
  hooks.devices.collectives = collectives;
  hooks.devices.timeout_seconds = 30;
  const Workload w = toy::workload({}, {{"dtype", "f32"}});
  const auto split = toy::train(w, overlapped(layout.table), layout.ranks, 1, "cuda", hooks);
  EXPECT_EQ(toy::difference(serial(w), split, toy::kF32), "");
  EXPECT_EQ(split.memory.activations, split.forecast.activations);
}

const auto kName = [](const auto& info) { return std::get<0>(info.param).name; };
INSTANTIATE_TEST_SUITE_P(OverNccl, LawWithOverlap,
                         ::testing::Combine(::testing::ValuesIn(layouts({"data2_tensor2", "tensor2_sequence", "y2_x2",
                                                                         "zero3_2", "pipe2_zero3"})),
                                            ::testing::Values(Collectives::nccl)),
                         kName);
INSTANTIATE_TEST_SUITE_P(ThroughHostMemory, LawWithOverlap,
                         ::testing::Combine(::testing::ValuesIn(layouts({"data2_tensor2", "pipe2_zero3"})),
                                            ::testing::Values(Collectives::host)),
                         kName);

}  // namespace
}  // namespace quadrille
