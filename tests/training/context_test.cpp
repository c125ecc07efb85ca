// SPDX-License-Identifier: Apache-2.0
// A sequence that stays split through attention equals the serial run under every way to the keys, in both orders of
// positions, beside every other split; and the tests have teeth: what is peculiar to it is planted wrong.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <tuple>

#include "core/error.h"
#include "kernels/backend.h"
#include "parallelism/forwarding_communicator.h"
#include "tests/kernels/broken.h"
#include "tests/training/context_layouts.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

using toy::kContextLayouts;
using toy::kSerial;
using toy::Layout;
using Changes = std::vector<std::pair<std::string, Json>>;

std::vector<std::string> built_backends() {
  std::vector<std::string> names;
  for (const Backend& backend : backends())
    if (backend.absent_because.empty() && backend.name != "counting") names.emplace_back(backend.name);
  return names;
}

Changes adamw(const char* dtype) {
  return {
      {"optimizer", parse_json(toy::kAdamW, "t")}, {"rate", parse_json(R"({"peak": 0.003})", "t")}, {"dtype", dtype}};
}

// Rotary positions, rms norms, gated MLP, a head of its own; groups of shared keys and values.
Changes llama(std::int64_t kv_heads = 2) {
  return {{"positions", "rotary"}, {"norm", "rms"},        {"activation", "gated_silu"},
          {"bias", false},         {"kv_heads", kv_heads}, {"tied_head", false}};
}

std::string differs(const Workload& w, const Layout& layout, int steps, const toy::Bounds& bounds,
                    const std::string& backend = "reference") {
  const auto serial = toy::train(w, kSerial, 1, steps, backend);
  return toy::difference(serial, toy::train(w, layout.table, layout.ranks, steps, backend), bounds);
}

class Context : public ::testing::TestWithParam<Layout> {};

TEST_P(Context, OneStepInF64) { EXPECT_EQ(differs(toy::workload(), GetParam(), 1, toy::kF64), ""); }

TEST_P(Context, TwentyAdamWStepsInF64) {
  toy::Bounds bounds = toy::kF64;
  bounds.tensor = 1e-10;  // twenty steps of Adam's division by small second moments
  EXPECT_EQ(differs(toy::workload({}, adamw("f64")), GetParam(), 20, bounds), "");
}

TEST_P(Context, InF32) {
  for (const std::string& backend : built_backends()) {
    EXPECT_EQ(differs(toy::workload({}, {{"dtype", "f32"}}), GetParam(), 1, toy::kF32, backend), "") << backend;
    EXPECT_EQ(differs(toy::workload({}, adamw("f32")), GetParam(), 20, toy::kF32AdamW, backend), "") << backend;
  }
}

TEST_P(Context, MicroBatches) {
  const auto serial = toy::train(toy::workload(), kSerial, 1, 1);
  const auto w = toy::workload({}, {{"micro_batch", 1}});
  EXPECT_EQ(toy::difference(serial, toy::train(w, GetParam().table, GetParam().ranks, 1), toy::kF64), "");
}

// Two shared keys for four heads: where these are cut in four, each part has a replica.
TEST_P(Context, RotaryPositionsAndSharedKeys) {
  EXPECT_EQ(differs(toy::workload(llama()), GetParam(), 1, toy::kF64), "");
  for (const std::string& backend : built_backends())
    EXPECT_EQ(differs(toy::workload(llama(), {{"dtype", "f32"}}), GetParam(), 1, toy::kF32, backend), "") << backend;
}

TEST_P(Context, BillsAndMemoryAreThoseOfTheFormulaAndTheForecast) {
  const auto run = toy::train(toy::workload(), GetParam().table, GetParam().ranks, 2);
  EXPECT_NEAR((run.work.useful + run.work.skipped) / run.model_flops_full, 1.0, 1e-12);
  EXPECT_EQ(run.memory.activations, run.forecast.activations);
  EXPECT_EQ(run.memory.weights, run.forecast.weights);
  EXPECT_EQ(run.memory.optimizer, run.forecast.optimizer);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Context, ::testing::ValuesIn(kContextLayouts),
                         [](const auto& info) { return info.param.name; });

// Seven tokens over two and three ranks, and three over four: a rank may have none.
TEST(UnevenTokens, EqualTheSerialRun) {
  const std::tuple<const char*, int, int> some[] = {{"gather", 7, 2}, {"gather", 3, 4}, {"turn", 7, 2},
                                                    {"turn", 3, 4},   {"ring", 7, 3},   {"ring", 3, 4}};
  for (const auto& [how, tokens, ranks] : some) {
    const Layout layout{how, ranks,
                        fmt::format(R"({{"mesh": [["c", {}]], "axes": {{"sequence": "c"}},
                                         "context": {{"attention": "{}", "balanced": false}}}})",
                                    ranks, how)};
    EXPECT_EQ(differs(toy::workload({{"tokens", tokens}}), layout, 2, toy::kF64), "") << how << " " << tokens;
    for (const std::string& backend : built_backends())
      EXPECT_EQ(differs(toy::workload({{"tokens", tokens}}, {{"dtype", "f32"}}), layout, 1, toy::kF32, backend), "")
          << how << " " << tokens << " " << backend;
  }
}

// Where a bias is split on a mesh axis on which its product owes it cannot join: it is added after settling.
TEST(JoinedBias, ComesLateWhereItIsSplitAlongTheDebt) {
  const Layout everything{"everything", 2,
                          R"({"mesh": [["x", 2]], "axes": {"embed": "x", "heads": "x", "mlp": "x", "vocab": "x"},
                              "may_gather": ["embed", "heads", "mlp", "vocab"]})"};
  EXPECT_EQ(differs(toy::workload(), everything, 2, toy::kF64), "");
}

// ---- teeth

const Ops* planted_ops = nullptr;  // a Backend names its ops by a plain function

// What the comparison says when `hooks` spoil the run of this layout.
std::string noticed(const std::string& name, const Workload& w, const toy::Hooks& hooks) {
  for (const Layout& layout : kContextLayouts) {
    if (layout.name != name) continue;
    const auto serial = toy::train(w, kSerial, 1, 1);
    EXPECT_EQ(toy::difference(serial, toy::train(w, layout.table, layout.ranks, 1), toy::kF64), "");
    try {
      return toy::difference(serial, toy::train(w, layout.table, layout.ranks, 1, "reference", hooks), toy::kF64);
    } catch (const Error& e) {
      return e.what();
    }
  }
  fail("no layout is called {}", name);
}

struct Planted {
  const char* what;
  std::string layout;
  Forgetting forgetting;
  bool rotary = false;
};
std::vector<Planted> planted() {
  std::vector<Planted> all;
  const auto attention = [&](const char* what, const char* layout, void (*change)(Attention&)) {
    Planted p{what, layout, {}};
    p.forgetting.attention = change;
    all.push_back(p);
  };
  for (const char* layout : {"gather4", "ring4"}) {
    attention("queries masked by local index", layout, [](Attention& a) { a.q_first = 0, a.q_jump = {}; });
    attention("second run of queries masked as if next to the first", layout, [](Attention& a) { a.q_jump = {}; });
    attention("dropout of attention drawn by each rank for itself", layout, [](Attention& a) {
      if (!a.causal || a.dropout == 0) return;
      a.key ^= static_cast<Key>(a.q_first);
    });
  }
  attention("keys masked by local index", "ring4", [](Attention& a) { a.kv_first = 0, a.kv_jump = {}; });
  attention("second run of keys masked as if next to the first", "ring4", [](Attention& a) { a.kv_jump = {}; });
  attention("dropout of attention drawn by local head", "turn2", [](Attention& a) { a.first_head = 0; });
  Planted elements{"dropout drawn by local token", "gather4", {}};
  elements.forgetting.dropout = [](Dropout& d) { d.jump = {}; };
  all.push_back(elements);
  Planted turns{"positions turned by local token", "gather4", {}, true};
  turns.forgetting.rotary = [](Rotary& r) { r.jump = {}; };
  all.push_back(turns);
  return all;
}

TEST(ContextFaults, OptionsForgottenAreNoticed) {
  for (const Planted& p : planted()) {
    const BrokenOps broken(reference_ops(), Fault::none, p.forgetting);
    planted_ops = &broken;
    toy::Hooks hooks;
    hooks.ops = []() -> const Ops& { return *planted_ops; };
    EXPECT_NE(noticed(p.layout, toy::workload(p.rotary ? llama() : Changes{}), hooks), "")
        << p.layout << ": " << p.what;
  }
}

class WithoutMerge : public BrokenOps {
 public:
  WithoutMerge() : BrokenOps(reference_ops(), Fault::none) {}
  Cost attention_merge(Stream&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) const override {
    return {};
  }
};

TEST(ContextFaults, PartsThatAreNotMergedAreNoticed) {
  const WithoutMerge broken;
  planted_ops = &broken;
  toy::Hooks hooks;
  hooks.ops = []() -> const Ops& { return *planted_ops; };
  EXPECT_NE(noticed("ring2", toy::workload(), hooks), "");
}

// One of a rank's messages to its neighbour carries zeros.
class EmptyLetter : public ForwardingCommunicator {
 public:
  EmptyLetter(std::unique_ptr<Communicator> right, int which)
      : ForwardingCommunicator(std::move(right)), which_(which) {}
  Ticket send(const Tensor& t, int to, Stream& s) override {
    if (sent_++ != which_) return right_->send(t, to, s);
    const Tensor nothing = s.device().empty(t.shape(), t.dtype());
    s.zero(nothing);
    return right_->send(nothing, to, s);
  }
  std::unique_ptr<Communicator> split(const std::function<int(int)>& colour_of, std::string name) override {
    return std::make_unique<EmptyLetter>(right_->split(colour_of, std::move(name)), which_);
  }

 private:
  int which_, sent_ = 0;
};

// Two layers: forward g-1 blocks of keys each, backward as many again and as many sums that must come home.
TEST(ContextFaults, EveryMessageOfTheRingMatters) {
  const auto w = toy::workload();
  for (const auto& [layout, ranks] : {std::pair{"ring2", 2}, std::pair{"ring4", 4}})
    for (int which = 0; which < 2 * 3 * (ranks - 1); ++which) {
      toy::Hooks hooks;
      hooks.world = [&](std::unique_ptr<Communicator> right) {
        return std::make_unique<EmptyLetter>(std::move(right), which);
      };
      EXPECT_NE(noticed(layout, w, hooks), "") << layout << ", message " << which;
    }
}

}  // namespace
}  // namespace quadrille
