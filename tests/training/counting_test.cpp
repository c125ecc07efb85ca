// SPDX-License-Identifier: Apache-2.0
// The counting run against closed formulas written down here: elements and messages of a step per rank under tensor and
// data parallelism (Shoeybi et al. 2019, arXiv 1909.08053; ring convention of core/ledger.h), bytes of weights,
// gradients and optimizer state, how activations grow; and plans for thousands of imaginary ranks.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

#include "kernels/backend.h"
#include "tests/training/counted.h"
#include "tests/training/toy.h"
#include "training/forecast.h"

namespace quadrille {
namespace {

using toy::counted;
using toy::Gpt;
using toy::kinds;
using toy::over;
using toy::ring;

constexpr const char* kData = R"({"mesh": [["data", "*"]], "axes": {"batch": "data"}})";
constexpr const char* kTensor = R"({"mesh": [["x", "*"]], "axes": {"heads": "x", "mlp": "x", "vocab": "x"}})";
std::string data_tensor(int x) {
  return fmt::format(R"({{"mesh": [["data", "*"], ["x", {}]],
                          "axes": {{"batch": "data", "heads": "x", "mlp": "x", "vocab": "x"}}}})",
                     x);
}

// Four sums of m·h a layer (behind proj and down; before qkv and up, of gradients), one behind the embedding, one of
// the gradient before the head; of each row's loss one maximum and three sums.
double tensor_elements(const Gpt& gpt, double m, int g) {
  const double h = static_cast<double>(gpt.embed), l = static_cast<double>(gpt.layers);
  return ring(g, 4 * l * m * h + 2 * m * h + 3 * m);
}
std::int64_t tensor_messages(const Gpt& gpt) { return 4 * gpt.layers + 3; }

TEST(Counting, TensorParallelism) {
  const Gpt gpt;
  const double m = static_cast<double>(gpt.batch * gpt.tokens);
  for (const int g : {2, 4, 8})
    for (const int rank : {0, g - 1}) {
      const Forecast f = counted(gpt.workload(kTensor), g, rank);
      EXPECT_DOUBLE_EQ(over(f, "x").elements, tensor_elements(gpt, m, g) + ring(g, 3));  // and the totals
      EXPECT_EQ(over(f, "x").calls, tensor_messages(gpt) + 1);
      EXPECT_DOUBLE_EQ(over(f, "x", "all_reduce(max)").elements, ring(g, m));
      EXPECT_EQ(over(f, "x", "all_reduce(max)").calls, 1);
      EXPECT_EQ(kinds(f), 2u);
    }
}

// A plan of many micro-batches counts a few and goes on in a straight line; the trainer's own count walks them all.
TEST(Counting, ManyMicroBatchesAreScaledFromAFew) {
  struct Case {
    const char* table;
    int ranks;
  };
  for (const auto& [table, ranks] :
       {Case{"{}", 1},
        Case{R"({"mesh": [["data", 2]], "axes": {"batch": "data"}, "store": {"weights": "data",
                                "gradients": "data", "optimizer": "data"}})",
             2},
        Case{R"({"mesh": [["pipe", 2]], "pipeline": {"schedule": "1f1b"}})", 2},
        Case{R"({"mesh": [["pipe", 2]], "pipeline": {"schedule": "gpipe"}})", 2},
        Case{R"({"mesh": [["pipe", 2]], "pipeline": {"schedule": "interleaved"}, "recompute": "full"})", 2}})
    for (int rank = 0; rank < ranks; ++rank) {
      Gpt gpt;
      gpt.layers = 4, gpt.batch = 64;
      Json training = Json::object();
      training.set("micro_batch", 1);
      const Workload w = gpt.workload(table, training);
      const Backend& backend = backend_named("reference");
      const Forecast whole = count(w, backend, mesh_of(w.strategy, ranks), ranks, rank).forecast;
      const Forecast f = counted(w, ranks, rank);
      EXPECT_EQ(f.memory.total(), whole.memory.total()) << table << rank;
      EXPECT_DOUBLE_EQ(f.step_work.executed(), whole.step_work.executed()) << table << rank;
      EXPECT_DOUBLE_EQ(f.model_flops_full, whole.model_flops_full);
      EXPECT_EQ(f.pipeline.micro_batches, whole.pipeline.micro_batches);
      EXPECT_DOUBLE_EQ(f.pipeline.bubble, whole.pipeline.bubble);
      ASSERT_EQ(f.step_messages.size(), whole.step_messages.size());
      for (const auto& [key, traffic] : whole.step_messages) {
        EXPECT_EQ(f.step_messages.at(key).calls, traffic.calls) << table << rank << key.second;
        EXPECT_DOUBLE_EQ(f.step_messages.at(key).bytes, traffic.bytes) << table << rank << key.second;
      }
    }
}
// Walking each would take minutes.
TEST(Counting, AMillionMicroBatchesArePlannedAtOnce) {
  Gpt gpt;
  gpt.batch = 1'000'000;
  Json training = Json::object();
  training.set("micro_batch", 1);
  EXPECT_EQ(counted(gpt.workload("{}", training), 1, 0).pipeline.micro_batches, 1'000'000);
}

TEST(Counting, DataParallelismSumsEveryGradientOnceOneMessageABucket) {
  const Gpt gpt;
  for (const int g : {2, 4, 16}) {
    const Forecast f = counted(gpt.workload(kData), g, g - 1);
    EXPECT_EQ(static_cast<double>(f.parameters), gpt.parameters(1));
    EXPECT_DOUBLE_EQ(over(f, "data").elements, ring(g, gpt.parameters(1)) + ring(g, 3));
    EXPECT_EQ(over(f, "data").calls, gpt.layers + 3 + 1);  // layers, embedding, head, tied table; totals
    EXPECT_EQ(kinds(f), 1u);
  }
}

TEST(Counting, BothTogether) {
  const Gpt gpt;
  const int d = 4, x = 2;
  const Forecast f = counted(gpt.workload(data_tensor(x)), d * x, 5);
  const double m = static_cast<double>(gpt.batch * gpt.tokens) / d;
  EXPECT_DOUBLE_EQ(over(f, "x").elements, tensor_elements(gpt, m, x));
  EXPECT_EQ(over(f, "x").calls, tensor_messages(gpt));
  EXPECT_DOUBLE_EQ(over(f, "data").elements, ring(d, gpt.parameters(x)));
  EXPECT_EQ(over(f, "data").calls, gpt.layers + 3);
  EXPECT_DOUBLE_EQ(over(f, "data+x").elements, ring(d * x, 3));
  EXPECT_EQ(over(f, "data+x").calls, 1);
}

TEST(Counting, MicroBatchesRepeatTheActivationsMessagesAndNotTheGradients) {
  const Gpt gpt;
  const int d = 2, x = 4;
  const Forecast f = counted(gpt.workload(data_tensor(x), parse_json(R"({"micro_batch": 2})", "t")), d * x, 0);
  const double m = static_cast<double>(gpt.batch * gpt.tokens) / d;
  const std::int64_t micro_batches = gpt.batch / d / 2;
  EXPECT_DOUBLE_EQ(over(f, "x").elements, tensor_elements(gpt, m, x));
  EXPECT_EQ(over(f, "x").calls, micro_batches * tensor_messages(gpt));
  EXPECT_DOUBLE_EQ(over(f, "data").elements, ring(d, gpt.parameters(x)));
  EXPECT_EQ(over(f, "data").calls, gpt.layers + 3);
}

TEST(Counting, MemoryOfStateIsParametersTimesBytes) {
  const Gpt gpt;
  const std::pair<const char*, double> optimizers[] = {{R"({"optimizer": {"kind": "adamw"}})", 2},
                                                       {R"({"optimizer": {"kind": "sgd", "momentum": 0.9}})", 1}};
  for (const auto& [training, states] : optimizers)
    for (const int x : {1, 2, 8}) {
      const Forecast f = counted(gpt.workload(data_tensor(x), parse_json(training, "t")), 2 * x, 1);
      const double bytes = 4 * gpt.parameters(x);
      EXPECT_EQ(static_cast<double>(f.memory.weights), bytes);
      EXPECT_EQ(static_cast<double>(f.memory.gradients), bytes);
      EXPECT_EQ(static_cast<double>(f.memory.optimizer), states * bytes);
    }
}

TEST(Counting, ActivationsAreThoseOfTheRowsOfOneReplica) {
  Gpt whole, half;
  half.batch = whole.batch / 2;
  EXPECT_EQ(counted(whole.workload(kData), 2, 0).memory.activations,
            counted(half.workload("{}"), 1, 0).memory.activations);
  const auto accumulated = parse_json(R"({"micro_batch": 8})", "t");
  EXPECT_EQ(counted(whole.workload("{}", accumulated), 1, 0).memory.activations,
            counted(half.workload("{}"), 1, 0).memory.activations);
}

TEST(Counting, EachLayerAddsTheSameActivations) {
  std::int64_t bytes[3];
  for (int k = 0; k < 3; ++k) {
    Gpt gpt;
    gpt.layers = 2 + k;
    bytes[k] = counted(gpt.workload(kTensor), 2, 0).memory.activations;
  }
  EXPECT_GT(bytes[1], bytes[0]);
  EXPECT_EQ(bytes[2] - bytes[1], bytes[1] - bytes[0]);
}

// The shape of Llama 3.1 8B: nothing of it is allocated.
TEST(Counting, PlansForThousandsOfRanks) {
  Gpt gpt;
  gpt.llama = true;
  gpt.layers = 32, gpt.embed = 4096, gpt.heads = 32, gpt.kv_heads = 8, gpt.mlp = 14336, gpt.tokens = 8192;
  gpt.vocabulary = 128256;
  EXPECT_EQ(gpt.parameters(1), 8030261248.0);  // the published count
  const int x = 8;
  for (const int ranks : {1024, 10000}) {
    const int d = ranks / x;
    gpt.batch = 2 * d;
    const Workload w = gpt.workload(data_tensor(x), parse_json(R"({"micro_batch": 1})", "t"));
    for (const int rank : {0, ranks - 1}) {
      const Forecast f = counted(w, ranks, rank);
      EXPECT_EQ(static_cast<double>(f.parameters), gpt.parameters(1));
      EXPECT_EQ(static_cast<double>(f.memory.weights), 4 * gpt.parameters(x));
      EXPECT_DOUBLE_EQ(over(f, "x").elements, tensor_elements(gpt, 2.0 * 8192, x));
      EXPECT_EQ(over(f, "x").calls, 2 * tensor_messages(gpt));
      EXPECT_NEAR(over(f, "data").elements / ring(d, gpt.parameters(x)), 1, 1e-12);
      EXPECT_EQ(over(f, "data").calls, gpt.layers + 2);  // no positions, no tied table
      EXPECT_EQ(over(f, "data+x").calls, 1);
    }
  }
}

// Attention alone needs scratch: a stage without layers has none, and is forecast none.
TEST(Forecast, ScratchOfStagesWithoutLayersIsNone) {
  std::array<std::int64_t, 4> held{}, wanted{};
  const char* const table = R"({"mesh": [["pipe", 4]], "pipeline": {}})";
  Workload w = toy::workload({}, {{"dtype", "f32"}});
  w.strategy = parse_json(table, "table.json");
  for (int rank = 0; rank < 4; ++rank)
    wanted[static_cast<std::size_t>(rank)] = forecast(w, backend_named("cpu"), 4, rank).memory.scratch;
  toy::Hooks hooks;
  hooks.after_steps = [&](Trainer& t, int rank) { held[static_cast<std::size_t>(rank)] = t.memory().scratch; };
  toy::train(w, table, 4, 1, "cpu", hooks);
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(held[rank] > 0, wanted[rank] > 0) << rank;
  EXPECT_GT(wanted[1], 0);
  EXPECT_EQ(wanted[2], 0);
}

}  // namespace
}  // namespace quadrille
