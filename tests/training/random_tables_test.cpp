// SPDX-License-Identifier: Apache-2.0
// Strategy tables drawn at random from the whole grammar. A table is refused before anything is allocated, or it can be
// planned for every rank and trains like one rank: there is no third way. The draws are a function of the seed; the
// environment's QUADRILLE_TABLES asks for more of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "core/error.h"
#include "kernels/backend.h"
#include "training/law/visit.h"

namespace quadrille {
namespace {

using Names = std::vector<std::string>;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  // Not a distribution of the library: those differ between libraries.
  std::size_t below(std::size_t end) { return random_() % end; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class List>
  const auto& of(const List& list) {
    return list[below(list.size())];
  }
  Json some(const Names& names, std::size_t most) {
    Json list = Json::array();
    for (std::size_t n = below(most + 1); n > 0; --n) list.push(of(names));
    return list;
  }

 private:
  std::mt19937_64 random_;
};

const Names kModelAxes = {"batch", "sequence", "embed", "heads", "mlp", "vocab"};

Json mesh(Draw& draw, int& ranks, Names& names) {
  const Names letters = {"a", "b", "c", "d"};
  constexpr int kExtents[] = {1, 2, 2, 2, 3, 4};
  constexpr int kMostRanks = 8;
  Json mesh = Json::array();
  ranks = 1;
  for (std::size_t n = 1 + draw.below(3); n > 0; --n) {
    const int extent = kExtents[draw.below(std::size(kExtents))];
    if (ranks * extent > kMostRanks) continue;
    ranks *= extent;
    names.push_back(letters[names.size()]);
    mesh.push(Json(Json::Array{Json(names.back()), Json(extent)}));
  }
  return mesh;
}

Json table(Draw& draw, int& ranks) {
  Names names;
  Json table = Json::object();
  table.set("mesh", mesh(draw, ranks, names));
  Json& axes = table.set("axes", Json::object());
  for (const std::string& axis : kModelAxes)
    if (draw.one_in(2)) axes.set(axis, draw.some(names, 2));
  if (draw.one_in(3)) {
    Json& passing = table.set("passing", Json::array());
    for (std::size_t n = draw.below(3); n > 0; --n)
      passing.push(Json(Json::Array{Json(draw.of(kModelAxes)), Json(draw.of(kModelAxes)), Json(draw.of(names))}));
  }
  if (draw.one_in(4)) table.set("may_gather", draw.some(kModelAxes, 2));
  if (draw.one_in(4)) {
    Json& context = table.set("context", Json::object());
    context.set("attention", draw.of(Names{"gather", "turn", "ring"}));
    context.set("balanced", draw.one_in(2));
  }
  if (draw.one_in(3)) {
    Json& store = table.set("store", Json::object());
    for (const char* what : {"weights", "gradients", "optimizer"})
      if (!draw.one_in(3)) store.set(what, draw.some(names, 2));
  }
  if (draw.one_in(4)) {
    Json& pipeline = table.set("pipeline", Json::object());
    pipeline.set("axis", draw.of(names));
    pipeline.set("schedule", draw.of(Names{"gpipe", "1f1b", "interleaved"}));
  }
  if (draw.one_in(4)) table.set("overlap", draw.some({"input_gradient", "reduce_scatter", "all_gather", "send"}, 3));
  if (draw.one_in(5)) table.set("sum", "axis_by_axis");
  if (draw.one_in(5)) table.set("recompute", "full");
  return table;
}

// A toy in f64, with micro-batches of one row per rank or of all its rows.
LawLayout toy(Draw& draw, Json strategy) {
  static const std::vector<LawLayout> layouts = LawSpace("gpt", 1, backend_named("reference")).layouts();
  static const LawLayout& plain = *std::find_if(layouts.begin(), layouts.end(), [](const LawLayout& l) {
    return l.serial.training.dtype == DType::f64 && l.serial_name.find("llama") == std::string::npos;
  });
  LawLayout layout = plain;
  layout.name = strategy.text();
  layout.workload = layout.serial;
  layout.workload.strategy = std::move(strategy);
  layout.workload.training.micro_batch = draw.one_in(2) ? 1 : 0;
  return layout;
}

// Empty: accepted.
std::string refusal_of(const Workload& w, int ranks) {
  try {
    check_workload(w, ranks);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(RandomTables, AreRefusedOrEqualTheSerialRun) {
  constexpr std::size_t kDraws = 4000, kTrainedOneIn = 12;
  const char* more = std::getenv("QUADRILLE_TABLES");
  const std::size_t draws = more ? std::strtoull(more, nullptr, 10) : kDraws;
  Draw draw(2026);
  std::size_t accepted = 0, trained = 0;
  for (std::size_t k = 0; k < draws; ++k) {
    int ranks = 1;
    const Json strategy = table(draw, ranks);
    const LawLayout layout = toy(draw, strategy);
    const std::string refusal = refusal_of(layout.workload, ranks);
    EXPECT_EQ(refusal.find("please report"), std::string::npos) << layout.name << "\n" << refusal;
    if (!refusal.empty()) continue;
    ++accepted;
    for (const int rank : {0, ranks - 1})
      EXPECT_NO_THROW(forecast(layout.workload, backend_named("reference"), ranks, rank)) << layout.name;
    if (ranks == 1 || accepted % kTrainedOneIn != 0) continue;
    ++trained;
    LawVisit how;
    how.options.ranks = ranks;
    for (const LawFinding& finding : visit({layout}, how)) {
      EXPECT_TRUE(finding.good()) << layout.name << "\n" << finding.refusal;
      for (const Distance& d : finding.beyond) ADD_FAILURE() << d.text();
    }
  }
  EXPECT_GT(accepted, draws / 50);
  EXPECT_GT(trained, draws / 1000);
  RecordProperty("accepted", static_cast<int>(accepted));
  RecordProperty("trained", static_cast<int>(trained));
  std::printf("%zu tables: %zu accepted and planned, %zu of them trained\n", draws, accepted, trained);
}

}  // namespace
}  // namespace quadrille
