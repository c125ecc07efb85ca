// SPDX-License-Identifier: Apache-2.0
// The law for residual networks: convolutions, batch norm over ranks, pools, a split height. Every layout equals the
// serial run, evaluation with moving averages included; the serial run is held against finite differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "kernels/backend.h"
#include "parallelism/world.h"
#include "tests/training/image_layouts.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

using toy::kSerial;
using toy::Layout;
using Changes = std::vector<std::pair<std::string, Json>>;

const auto kName = [](const auto& info) { return info.param.name; };

// A batch norm sees one micro-batch at a time, so the serial run must have the same.
std::string differs(const Changes& model, Changes training, const Layout& layout, int steps, const toy::Bounds& bounds,
                    std::int64_t rows = 0, std::int64_t own_rows = 0, const std::string& backend = "reference") {
  Changes of_layout = training;
  if (rows > 0) training.emplace_back("micro_batch", rows), of_layout.emplace_back("micro_batch", own_rows);
  const auto serial = toy::train(toy::images(model, training), kSerial, 1, steps, backend);
  return toy::difference(serial, toy::train(toy::images(model, of_layout), layout.table, layout.ranks, steps, backend),
                         bounds);
}

Changes form(bool basic) {
  if (!basic) return {};
  return {{"block", "basic"}, {"stem", "small"}, {"base", 8}, {"height", 9}, {"zero_last_gain", false}};
}

class LawOfImages : public ::testing::TestWithParam<Layout> {};

TEST_P(LawOfImages, BottlenecksInF64) { EXPECT_EQ(differs({}, {}, GetParam(), 1, toy::kF64), ""); }

TEST_P(LawOfImages, BasicBlocksInF64) { EXPECT_EQ(differs(form(true), {}, GetParam(), 1, toy::kF64), ""); }

TEST_P(LawOfImages, FiveStepsInF64) {
  toy::Bounds bounds = toy::kF64;
  bounds.tensor = bounds.norm = bounds.loss = 1e-10;
  EXPECT_EQ(differs({}, {{"rate", parse_json(R"({"peak": 0.01})", "t")}}, GetParam(), 5, bounds), "");
}

TEST_P(LawOfImages, BillsAddUpToTheModelFormula) {
  const auto run = toy::train(toy::images(), GetParam().table, GetParam().ranks, 2);
  EXPECT_NEAR((run.work.useful + run.work.skipped) / run.model_flops_full, 1.0, 1e-12);
}

TEST_P(LawOfImages, MemoryIsWhatTheForecastSays) {
  const auto run = toy::train(toy::images(), GetParam().table, GetParam().ranks, 2);
  EXPECT_EQ(run.memory.activations, run.forecast.activations);
  EXPECT_EQ(run.memory.weights, run.forecast.weights);
}

TEST_P(LawOfImages, OneStepInF32) {
  for (const Backend& b : backends()) {
    const std::string backend(b.name);
    if (!b.absent_because.empty() || backend == "counting" || !b.convolutions) continue;
    EXPECT_EQ(differs({}, {{"dtype", "f32"}}, GetParam(), 1, toy::kF32, 0, 0, backend), "") << backend;
  }
}

INSTANTIATE_TEST_SUITE_P(Heights, LawOfImages, ::testing::ValuesIn(toy::kHeights), kName);

std::vector<Layout> named(const std::vector<Layout>& among, const std::vector<std::string>& names) {
  std::vector<Layout> found;
  for (const std::string& name : names) {
    const auto at = std::find_if(among.begin(), among.end(), [&](const Layout& l) { return l.name == name; });
    require(at != among.end(), "no layout is called \"{}\"", name);
    found.push_back(*at);
  }
  return found;
}

INSTANTIATE_TEST_SUITE_P(Layouts, LawOfImages,
                         ::testing::ValuesIn(named(toy::kLayouts,
                                                   {"data2", "data8", "data2_depth2", "tensor2", "tensor4",
                                                    "data2_tensor2", "tensor2_data2", "mlp_only2", "vocab_only3",
                                                    "embed2", "y2_x2", "data2_y2_x2"})),
                         kName);
INSTANTIATE_TEST_SUITE_P(Stores, LawOfImages,
                         ::testing::ValuesIn(named(toy::kStores,
                                                   {"zero1_2", "zero2_2", "zero3_2", "zero3_4_kept", "hybrid_shard4",
                                                    "two_level_sum8", "axonn8", "axonn8_recomputed", "quad4d8"})),
                         kName);

// Micro-batches: rows of one over all ranks, and of one rank.
struct Staged {
  Layout layout;
  std::int64_t rows, own_rows;
};
void PrintTo(const Staged& s, std::ostream* out) { *out << s.layout.name; }

class LawOfImagesInStages : public ::testing::TestWithParam<Staged> {};

TEST_P(LawOfImagesInStages, TwoStepsInF64) {
  const Staged& s = GetParam();
  EXPECT_EQ(differs({}, {}, s.layout, 2, toy::kF64, s.rows, s.own_rows), "");
}

std::vector<Staged> staged() {
  std::vector<Staged> found;
  for (const char* name : {"pipe2", "gpipe2", "pipe2_sends_carried"})
    found.push_back({named(toy::kPipelines, {name})[0], 2, 2});
  for (const char* name : {"pipe2_data2", "pipe2_zero3", "pipe2_zero2_recomputed"})
    found.push_back({named(toy::kPipelines, {name})[0], 4, 2});
  found.push_back({named(toy::kInterleaved, {"interleaved2"})[0], 2, 2});
  found.push_back({{"pipe2_height3", 6,
                    R"({"mesh": [["pipe", 2], ["h", 3]], "axes": {"height": "h"}, "pipeline": {"axis": "pipe"}})"},
                   4,
                   4});
  found.push_back({named(toy::kLayouts, {"data2_y2_x2"})[0], 4, 2});
  return found;
}
INSTANTIATE_TEST_SUITE_P(Stages, LawOfImagesInStages, ::testing::ValuesIn(staged()),
                         [](const auto& info) { return info.param.layout.name; });

// Statistics of parts of the batch: the serial run makes the same parts.
class LawOfGroups : public ::testing::TestWithParam<Layout> {};

TEST_P(LawOfGroups, OneStepInF64) {
  EXPECT_EQ(differs({{"norm_groups", 2}}, {}, GetParam(), 1, toy::kF64), "");
  EXPECT_EQ(differs({{"norm_groups", 4}}, {}, GetParam(), 1, toy::kF64), "");
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, LawOfGroups,
    ::testing::Values(
        Layout{"data2", 2, R"({"mesh": [["data", 2]], "axes": {"batch": "data"}})"},
        Layout{"data2_depth2", 4, R"({"mesh": [["data", 2], ["depth", 2]], "axes": {"batch": ["data", "depth"]}})"},
        Layout{"data2_height2", 4, R"({"mesh": [["data", 2], ["h", 2]], "axes": {"batch": "data", "height": "h"}})"}),
    kName);

TEST(Groups, ThatDoNotFollowTheMeshAreRefused) {
  const char* table = R"({"mesh": [["data", 8]], "axes": {"batch": "data"}})";
  try {
    toy::train(toy::images({{"norm_groups", 4}}), table, 8, 1);
    FAIL() << "4 groups of 8 ranks on one mesh axis";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("norm_groups"), std::string::npos) << error.what();
  }
}

TEST(Groups, HaveStatisticsOfTheirOwn) {
  const auto one = toy::train(toy::images(), kSerial, 1, 1),
             two = toy::train(toy::images({{"norm_groups", 2}}), kSerial, 1, 1);
  EXPECT_NE(one.losses, two.losses);
}

// Evaluation reads the averages: steps that do not move the weights bring them nearer to the batches' own.
TEST(MovingAverages, DecideTheEvaluation) {
  const auto evaluated = [](double momentum, int steps) {
    const auto w = toy::images({{"norm_momentum", momentum}}, {{"rate", parse_json(R"({"peak": 1e-300})", "t")}});
    return *toy::train(w, kSerial, 1, steps).evaluation;
  };
  EXPECT_NE(evaluated(0.9, 1), evaluated(0.9, 2));
  EXPECT_NE(evaluated(0.9, 1), evaluated(0.5, 1));
  EXPECT_EQ(evaluated(0.9, 1), evaluated(0.9, 1));
}

// Loss of the first batch after adding `change` to one element, from perturbed weights.
void gradients_equal_finite_differences(const Changes& model) {
  run_threads({}, [&](std::unique_ptr<Communicator> world) {
    Workload w = toy::images(model, {{"rate", parse_json(R"({"peak": 1e-300})", "t")}, {"clip_norm", 0}});
    w.strategy = Json::object();
    const Mesh mesh(std::move(world), {});
    const auto device = make_host_device();
    Ledger ledger;
    const auto data = law_data(w, 24);
    Trainer trainer(w, mesh, backend_named("reference"), *device, ledger);
    trainer.perturb(0.2, 3);
    const auto loss = [&](const std::string& name, std::int64_t index, double change) {
      trainer.shift(name, index, change);
      trainer.step(*data, 0);
      const StepReport r = *trainer.flush();
      trainer.shift(name, index, -change);
      return r.loss * r.labels;
    };
    for (const std::string& name : trainer.parameter_names()) {
      loss(name, 0, 0);
      const auto gradient = trainer.whole_gradient(name);
      double largest = 0;
      for (double g : gradient) largest = std::max(largest, std::abs(g));
      ASSERT_GT(largest, 0) << name;
      for (const std::int64_t i : {std::int64_t{0}, static_cast<std::int64_t>(gradient.size()) - 1}) {
        constexpr double kStep = 1e-6;  // ReLU and the largest of a window have corners: few lie so near
        const double measured = (loss(name, i, kStep) - loss(name, i, -kStep)) / (2 * kStep);
        EXPECT_NEAR(gradient[static_cast<std::size_t>(i)], measured, 1e-6 * std::max(1.0, largest))
            << name << "[" << i << "]";
      }
    }
  });
}

// The memory that ops take for themselves stays within what is forecast.
TEST_P(LawOfImages, ScratchIsNoMoreThanForecast) {
  for (const Backend& b : backends()) {
    if (!b.absent_because.empty() || !b.scratch_needed || !b.convolutions) continue;
    const auto run =
        toy::train(toy::images({}, {{"dtype", "f32"}}), GetParam().table, GetParam().ranks, 1, std::string(b.name));
    EXPECT_LE(run.memory.scratch, run.forecast.scratch);
    EXPECT_GT(run.memory.scratch, 0);
  }
}

// Initial weights: He's for convolutions, gains of 1 but for the last of a block, biases of 0.
TEST(SerialImages, StartAsTheirPapersSay) {
  run_threads({}, [&](std::unique_ptr<Communicator> world) {
    for (const bool zero : {true, false}) {
      Workload w = toy::images({{"base", 32}, {"zero_last_gain", zero}});
      w.strategy = Json::object();
      const Mesh mesh(world->split([](int) { return 0; }, "one"), {});
      const auto device = make_host_device();
      Ledger ledger;
      Trainer trainer(w, mesh, backend_named("reference"), *device, ledger);
      const auto all = [](const std::vector<double>& v, double wanted) {
        return std::all_of(v.begin(), v.end(), [&](double x) { return x == wanted; });
      };
      EXPECT_TRUE(all(trainer.whole_value("stages.1.0.conv3.gain"), zero ? 0 : 1));
      EXPECT_TRUE(all(trainer.whole_value("stages.1.0.conv2.gain"), 1));
      EXPECT_TRUE(all(trainer.whole_value("stages.1.0.shortcut.gain"), 1));
      EXPECT_TRUE(all(trainer.whole_value("stages.1.0.conv3.bias"), 0));
      const auto weight = trainer.whole_value("stages.1.0.conv2.weight");  // 3x3, 64 channels made
      double squares = 0;
      for (const double x : weight) squares += x * x / static_cast<double>(weight.size());
      EXPECT_NEAR(squares, 2.0 / (9 * 64), 0.1 / (9 * 64));
    }
  });
}

TEST(SerialImages, GradientsOfBottlenecksEqualFiniteDifferences) { gradients_equal_finite_differences({}); }
TEST(SerialImages, GradientsOfBasicBlocksEqualFiniteDifferences) { gradients_equal_finite_differences(form(true)); }
TEST(SerialImages, GradientsOfGroupsEqualFiniteDifferences) {
  gradients_equal_finite_differences({{"norm_groups", 2}, {"zero_last_gain", false}});
}

}  // namespace
}  // namespace quadrille
