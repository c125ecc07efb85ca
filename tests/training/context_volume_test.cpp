// SPDX-License-Identifier: Apache-2.0
// The counting run of a split sequence against closed formulas: messages and elements of each way to the keys, equal
// causal work of all ranks, biases that cost no message; and what is refused. Notation: L layers, m tokens of a data
// replica, h embed, g ranks; ring volume of core/ledger.h.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>

#include "core/error.h"
#include "kernels/backend.h"
#include "parallelism/world.h"
#include "tests/refusal.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

constexpr std::int64_t kLayers = 3, kEmbed = 64, kHeads = 8, kTokens = 96, kVocabulary = 40, kBatch = 2;
constexpr double kM = kBatch * kTokens, kMh = kM * kEmbed;

Workload gpt(const std::string& table, std::int64_t kv_heads = kHeads, std::int64_t tokens = kTokens) {
  Workload w;
  w.model = parse_json(fmt::format(R"({{"kind": "gpt", "layers": {}, "embed": {}, "heads": {}, "kv_heads": {},
                                        "tokens": {}, "vocabulary": {}}})",
                                   kLayers, kEmbed, kHeads, kv_heads, tokens, kVocabulary),
                       "model");
  Json resolved;
  w.training = read_training(
      parse_json(fmt::format(R"({{"batch_size": {}, "steps": 1, "rate": {{"peak": 0.1}}}})", kBatch), "training"),
      resolved);
  w.vocabulary = kVocabulary;
  w.strategy = parse_json(table, "table");
  return w;
}
std::string context(int g, const std::string& how) {
  return fmt::format(R"({{"mesh": [["c", {}]], "axes": {{"sequence": "c"}}, "context": {{{}}}}})", g, how);
}
Forecast counted(const Workload& w, int ranks, int rank, const char* backend = "reference") {
  return forecast(w, backend_named(backend), ranks, rank);
}
Traffic over(const Forecast& f, const std::string& group, const std::string& kind) {
  const auto found = f.step_messages.find({group, kind});
  return found == f.step_messages.end() ? Traffic{} : found->second;
}

TEST(ContextVolume, GatheredKeysAndTheirGradients) {
  for (const int g : {2, 4, 8})
    for (const std::int64_t kv_heads : {kHeads, kHeads / 4})
      for (const char* how : {R"("attention": "gather")", R"("attention": "gather", "balanced": false)"}) {
        const Forecast f = counted(gpt(context(g, how), kv_heads), g, g - 1);
        const double keys = 2 * kMh * static_cast<double>(kv_heads) / kHeads;
        for (const char* kind : {"all_gather", "reduce_scatter"}) {
          EXPECT_EQ(over(f, "c", kind).calls, kLayers);
          EXPECT_DOUBLE_EQ(over(f, "c", kind).elements, (g - 1.0) / g * keys * kLayers);
        }
        EXPECT_DOUBLE_EQ(over(f, "c", "all_reduce").elements,
                         2 * (g - 1.0) / g * (static_cast<double>(f.parameters) + 3));
        EXPECT_EQ(f.step_messages.size(), 3u);
      }
}

TEST(ContextVolume, TurnedToHeadsAndBack) {
  for (const int g : {2, 4, 8}) {
    const Forecast f = counted(gpt(context(g, R"("attention": "turn")")), g, 0);
    EXPECT_EQ(over(f, "c", "all_to_all").calls, 4 * kLayers);
    EXPECT_DOUBLE_EQ(over(f, "c", "all_to_all").elements, 8 * (g - 1.0) / (g * g) * kMh * kLayers);
    EXPECT_EQ(f.step_messages.size(), 2u);
  }
}

TEST(ContextVolume, RoundTheRing) {
  for (const int g : {2, 4, 8})
    for (const std::int64_t kv_heads : {kHeads, kHeads / 4})
      for (const int rank : {0, g - 1}) {
        const Forecast f = counted(gpt(context(g, R"("attention": "ring")"), kv_heads), g, rank);
        const double keys = 2 * kMh * static_cast<double>(kv_heads) / kHeads;
        EXPECT_EQ(over(f, "c", "send").calls, 3 * (g - 1) * kLayers);
        EXPECT_EQ(over(f, "c", "receive").calls, 3 * (g - 1) * kLayers);
        EXPECT_DOUBLE_EQ(over(f, "c", "send").elements, 3 * (g - 1.0) / g * keys * kLayers);
        EXPECT_EQ(f.step_messages.size(), 3u);
      }
}

// Executed FLOPs of attention: 2 products forward, 5 backward, 2·head each, over the causal pairs.
double attention_work(double pairs) {
  return 7 * 2 * (static_cast<double>(kEmbed) / kHeads) * pairs * kHeads * kBatch * kLayers;
}

TEST(ContextWork, IsEqualOnAllRanksWhenBalanced) {
  const double serial = counted(gpt("{}"), 1, 0).step_work.executed();
  for (const int g : {2, 3, 4, 8})
    for (const char* how : {"gather", "ring", "turn"}) {
      if (std::string(how) == "turn" && kHeads % g != 0) continue;
      const Workload w = gpt(context(g, fmt::format(R"("attention": "{}")", how)));
      for (int rank = 0; rank < g; ++rank)
        EXPECT_DOUBLE_EQ(counted(w, g, rank).step_work.executed(), serial / g) << how << " " << rank << " of " << g;
    }
}

TEST(ContextWork, IsUnequalInNaturalOrder) {  // rank i: n queries that each see the i·n keys before its own
  const int g = 4;
  const double n = static_cast<double>(kTokens) / g;
  for (const char* how : {"gather", "ring"}) {
    const Workload w = gpt(context(g, fmt::format(R"("attention": "{}", "balanced": false)", how)));
    const double first = counted(w, g, 0).step_work.executed();
    for (int rank = 1; rank < g; ++rank)
      EXPECT_NEAR(counted(w, g, rank).step_work.executed() - first, attention_work(rank * n * n), 1e-3);
  }
}

// A back end that takes queries in blocks computes for a block what its last query sees.
TEST(ContextWork, IsEqualWithinOneBlockOnTheCpu) {
  if (!backend_named("cpu").absent_because.empty()) GTEST_SKIP();
  const std::int64_t tokens = 80, block = backend_named("cpu").attention.block;
  const int g = 4;  // chunks of 10, no multiple of the block
  const Workload w = gpt(context(g, R"("attention": "gather")"), kHeads, tokens);
  double least = 1e300, most = 0;
  for (int rank = 0; rank < g; ++rank) {
    const double work = counted(w, g, rank, "cpu").step_work.executed();
    least = std::min(least, work), most = std::max(most, work);
  }
  EXPECT_LE(most - least, attention_work(static_cast<double>(block * tokens)));
}

// A bias is added before a sum is paid, by one rank: it owes nothing where its value owed.
TEST(JoinedBias, OwesNothingWhereADebtIsScattered) {
  const Forecast f =
      counted(gpt(R"({"mesh": [["x", 2]], "axes": {"sequence": "x", "heads": "x", "mlp": "x", "vocab": "x"}})"), 2, 1);
  // Norms (gain and bias, two a layer and one more) and positions; the totals. Loss: three sums a row.
  const double owed = 2.0 * kEmbed * (2 * kLayers + 1) + kTokens * kEmbed;
  EXPECT_DOUBLE_EQ(over(f, "x", "all_reduce").elements, owed + 3 + 3 * kM);
  EXPECT_EQ(over(f, "x", "all_reduce").calls, kLayers + 2 + 1 + 1);
}

TEST(JoinedBias, CostsNoMessageWhereHeadsPass) {
  const std::string axes =
      R"("mesh": [["y", 2], ["x", 2]], "axes": {"embed": "y", "heads": "x", "mlp": "x", "vocab": "x"})";
  const Forecast plain = counted(gpt("{" + axes + "}"), 4, 3);
  const Forecast passing = counted(gpt("{" + axes + R"(, "passing": [["heads", "heads", "y"]]})"), 4, 3);
  // One sum a layer behind qkv becomes a scatter, and the sum of its gradient a gather.
  EXPECT_EQ(over(plain, "y", "all_reduce").calls - over(passing, "y", "all_reduce").calls,
            over(passing, "y", "reduce_scatter").calls);
  EXPECT_EQ(over(passing, "y", "reduce_scatter").calls, 2 * kLayers);
}

// ---- which positions a rank holds

std::vector<std::vector<Slice>> dealt(const std::string& table, int ranks, std::int64_t tokens) {
  std::vector<std::vector<Slice>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    WorldOptions options;
    options.ranks = ranks, options.counting_rank = rank;
    run_counting(options, [&](std::unique_ptr<Communicator> world) {
      const Json strategy = parse_json(table, "table");
      const Mesh mesh(std::move(world), mesh_of(strategy, ranks));
      const Plan plan(strategy, mesh);
      const Dims dims = {{Axis::sequence, tokens}};
      all.push_back(plan.runs(dims[0], plan.at_rest(dims)));
    });
  }
  return all;
}
using Runs = std::vector<Slice>;

TEST(Runs, BalancedPartsAreTheChunksFromBothEnds) {
  EXPECT_EQ(dealt(context(3, ""), 3, 12), (std::vector<Runs>{{{0, 2}, {10, 2}}, {{2, 2}, {8, 2}}, {{4, 4}}}));
  EXPECT_EQ(dealt(context(3, R"("balanced": false)"), 3, 11), (std::vector<Runs>{{{0, 4}}, {{4, 4}}, {{8, 3}}}));
  EXPECT_EQ(dealt(context(2, R"("attention": "turn")"), 2, 7), (std::vector<Runs>{{{0, 4}}, {{4, 3}}}));
}
TEST(Runs, OfAPartCutAgainAreItsOwn) {
  const std::string axes = R"("axes": {"sequence": ["c", "x"], "heads": "x"})";
  EXPECT_EQ(dealt(R"({"mesh": [["c", 2], ["x", 2]], )" + axes + "}", 4, 8),
            (std::vector<Runs>{{{0, 2}}, {{6, 2}}, {{2, 2}}, {{4, 2}}}));
  EXPECT_EQ(dealt(R"({"mesh": [["c", 2], ["x", 3]], )" + axes + "}", 6, 8),
            (std::vector<Runs>{{{0, 2}}, {{6, 1}}, {{7, 1}}, {{2, 2}}, {{4, 1}}, {{5, 1}}}));
  EXPECT_EQ(dealt(R"({"mesh": [["c", 1], ["x", 2]], )" + axes + "}", 2, 8), (std::vector<Runs>{{{0, 4}}, {{4, 4}}}));
}
TEST(Runs, OfAWholeSequenceAreAllChunksInStoredOrder) {
  WorldOptions options;
  options.ranks = 2;
  run_counting(options, [&](std::unique_ptr<Communicator> world) {
    const Json strategy = parse_json(context(2, ""), "table");
    const Mesh mesh(std::move(world), mesh_of(strategy, 2));
    const Plan plan(strategy, mesh);
    EXPECT_EQ(plan.runs({Axis::sequence, 8}, States{}), (Runs{{0, 2}, {6, 2}, {2, 4}}));
    EXPECT_THROW(plan.runs({Axis::sequence, 10}, States{}), Error);
  });
}

// ---- refusals

std::string refusal(const std::string& table, int ranks, std::int64_t kv_heads = kHeads,
                    std::int64_t tokens = kTokens) {
  try {
    check_workload(gpt(table, kv_heads, tokens), ranks);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}
TEST(ContextRefusal, TokensThatDoNotDivideWhenBalanced) {
  says(refusal(context(4, ""), 4, kHeads, 20), {"model.tokens 20", "2 x 4 equal chunks", "c = 4", "multiple of 8",
                                                "legal parts: 1, 2, 5, 10", "\"balanced\": false"});
  EXPECT_EQ(refusal(context(4, R"("balanced": false)"), 4, kHeads, 21), "accepted");
  EXPECT_EQ(refusal(context(4, R"("attention": "turn")"), 4, kHeads, 21), "accepted");
}
TEST(ContextRefusal, HeadsThatDoNotDivideWhenTurned) {
  EXPECT_EQ(refusal(context(8, R"("attention": "turn")"), 8, 2), "accepted");  // keys and values have replicas
  says(
      refusal(
          R"({"mesh": [["c", 4], ["x", 4]], "axes": {"sequence": "c", "heads": "x"}, "context": {"attention": "turn"}})",
          16),
      {"model.heads 8 / 4", "4 equal parts", "legal parts: 1, 2", "\"ring\""});
}
TEST(ContextRefusal, AContextThatNothingUses) {
  says(refusal(R"({"mesh": [["data", 2]], "axes": {"batch": "data"}, "context": {"attention": "ring"}})", 2),
       {"\"context\" is given", "no mesh axis without heads"});
  says(refusal(R"({"mesh": [["x", 2]], "axes": {"sequence": "x", "heads": "x"}, "context": {}})", 2),
       {"\"context\" is given"});
}
TEST(ContextRefusal, WordsThatAreNotKnown) {
  says(refusal(context(2, R"("attention": "rnig")"), 2), {"rnig", "ring"});
  says(refusal(context(2, R"("atention": "ring")"), 2), {"atention", "attention"});
  says(refusal(context(2, R"("attention": "turn", "balanced": true)"), 2),
       {"context.balanced", "\"turn\"", "leave it out"});
}
TEST(ContextRefusal, HeadsOutsideOfTheSequence) {
  says(refusal(R"({"mesh": [["x", 2], ["c", 2]], "axes": {"sequence": ["x", "c"], "heads": "x"}})", 4),
       {"\"sequence\" rests on mesh axis \"x\"", "outside of \"c\"", "list \"x\" last"});
  EXPECT_EQ(refusal(R"({"mesh": [["x", 1], ["c", 2]], "axes": {"sequence": ["x", "c"], "heads": "x"}})", 2),
            "accepted");
}

}  // namespace
}  // namespace quadrille
