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

constexpr const char* kOverlap = R"(, "overlap": ["input_gradient", "reduce_scatter", "all_gather"]})";

// The table with all that may travel beside the maths.
std::string overlapped(const std::string& table) {
  if (table.find("\"overlap\"") != std::string::npos) return table;
  return table.substr(0, table.rfind('}')) + kOverlap;
}

std::vector<Layout> layouts() {
  const std::vector<std::string> names = {"data4",
                                          "tensor2",
                                          "data2_tensor2",
                                          "tensor2_sequence",
                                          "embed2",
                                          "y2_x2",
                                          "zero3_2",
                                          "zero3_4_kept",
                                          "gpipe2",
                                          "pipe2",
                                          "pipe2_zero3",
                                          "pipe2_tensor2_sequence",
                                          "store_with_padding3"};
  std::vector<Layout> found;
  for (const auto* all : {&toy::kLayouts, &toy::kStores, &toy::kPipelines})
    for (const Layout& layout : *all)
      if (layout.ranks <= standin::kDevices && std::find(names.begin(), names.end(), layout.name) != names.end())
        found.push_back(layout);
  return found;
}

class LawOnGpus : public ::testing::TestWithParam<std::tuple<Layout, Collectives>> {
 protected:
  ~LawOnGpus() override { EXPECT_EQ(standin::forgive(), std::vector<std::string>()); }
};

TEST_P(LawOnGpus, HoldsWithOverlap) {
  const auto& [layout, collectives] = GetParam();
  toy::Hooks hooks;
  hooks.devices.collectives = collectives;
  hooks.devices.timeout_seconds = 30;
  Workload w = toy::workload({}, {{"dtype", "f32"}});
  const auto serial = toy::train(w, toy::kSerial, 1, 2, "cuda");
  const auto split = toy::train(w, overlapped(layout.table), layout.ranks, 2, "cuda", hooks);
  EXPECT_EQ(toy::difference(serial, split, toy::kF32), "");
  EXPECT_EQ(split.memory.activations, split.forecast.activations);
}

INSTANTIATE_TEST_SUITE_P(Layouts, LawOnGpus,
                         ::testing::Combine(::testing::ValuesIn(layouts()),
                                            ::testing::Values(Collectives::nccl, Collectives::host)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name +
                                  (std::get<1>(info.param) == Collectives::nccl ? "_nccl" : "_host");
                         });

}  // namespace
}  // namespace quadrille
