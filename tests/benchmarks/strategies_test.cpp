// SPDX-License-Identifier: Apache-2.0
// The strategies that ship: each says what it is in one line and equals the serial run; and a new one is one JSON file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "benchmarks/harness/locate.h"
#include "core/json.h"
#include "parallelism/world.h"
#include "tests/refusal.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

namespace fs = std::filesystem;

Json strategy(const std::string& name_or_path) {
  return read_json(locate_document("strategy", kStrategies, name_or_path));
}

// Every extent that is open becomes 2 if that makes no more than 8 ranks, else 1.
int ranks_of(const Json& table) {
  constexpr int kMost = 8;
  const Json* mesh = table.find("mesh");
  if (!mesh) return 1;
  std::int64_t ranks = 1;
  bool open = false;
  for (const Json& axis : mesh->items())
    if (axis.at(1).is_string())
      open = true;
    else
      ranks *= axis.at(1).integer();
  return static_cast<int>(open && 2 * ranks <= kMost ? 2 * ranks : ranks);
}

std::string differs_from_serial(const Json& table, int ranks) {
  const Workload w = toy::workload({{"layers", 4}}, {{"micro_batch", 1}});
  const Workload whole = toy::workload({{"layers", 4}});
  return toy::difference(toy::train(whole, "{}", 1, 2), toy::train(w, table.text(), ranks, 2), toy::kF64);
}

class Strategies : public ::testing::TestWithParam<std::string> {};

TEST_P(Strategies, SayWhatTheyAreInOneLine) {
  const std::string text = strategy(GetParam()).at("description").string();
  EXPECT_GE(text.size(), 20u);
  EXPECT_LE(text.size(), 150u);
  EXPECT_TRUE(text.ends_with(".")) << text;
}

TEST_P(Strategies, EqualTheSerialRun) {
  const Json table = strategy(GetParam());
  EXPECT_EQ(differs_from_serial(table, ranks_of(table)), "") << ranks_of(table) << " ranks";
}

// Of a residual network: a batch norm sees one micro-batch, so the serial run takes as many rows at once. Where a table
// cuts nothing but tokens on a mesh axis, there is nothing to cut in images.
TEST_P(Strategies, EqualTheSerialRunOnImages) {
  const Json table = strategy(GetParam());
  const int ranks = ranks_of(table);
  Workload w = toy::images({{"blocks", parse_json("[2, 2]", "t")}}, {{"batch_size", 16}, {"micro_batch", 2}});
  if (GetParam().starts_with("context")) {
    w.strategy = table;
    const std::string text = message_of([&] { check_workload(w, ranks); });
    EXPECT_NE(text.find("has nothing to cut there (\"sequence\" rests there)"), std::string::npos) << text;
    return;
  }
  WorldOptions options;
  options.ranks = ranks;
  std::int64_t rows = 0;
  run_counting(options, [&](std::unique_ptr<Communicator> world) {
    const Mesh mesh(std::move(world), mesh_of(table, ranks));
    rows = 2 * Plan(table, mesh).parts(Axis::batch);
  });
  const Workload whole =
      toy::images({{"blocks", parse_json("[2, 2]", "t")}}, {{"batch_size", 16}, {"micro_batch", rows}});
  EXPECT_EQ(toy::difference(toy::train(whole, "{}", 1, 2), toy::train(w, table.text(), ranks, 2), toy::kF64), "")
      << ranks << " ranks";
}

INSTANTIATE_TEST_SUITE_P(Shipped, Strategies, ::testing::ValuesIn(document_names(kStrategies)),
                         [](const auto& info) { return info.param; });

// Nothing of it is known to the program: three mesh axes with names of their own, and values that pass.
TEST(Strategies, ANewOneIsOneFile) {
  const fs::path folder = fs::temp_directory_path() / ("strategy_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const fs::path file = folder / "invented.json";
  std::ofstream(file) << R"({
    "description": "Features over warp, heads and words over weft, tokens over warp where they may.",
    "mesh": [["loom", "*"], ["warp", 2], ["weft", 2]],
    "axes": { "batch": "loom", "embed": "warp", "heads": "weft", "mlp": "weft", "vocab": "weft" },
    "passing": [["vocab", "sequence", "warp"], ["mlp", "sequence", "warp"]]
  })";
  const Json table = strategy(file.string());
  fs::remove_all(folder);
  EXPECT_EQ(differs_from_serial(table, 8), "");
}

}  // namespace
}  // namespace quadrille
