// SPDX-License-Identifier: Apache-2.0
// The counting run against closed formulas written down here: elements and messages of a step per rank under tensor and
// data parallelism (Shoeybi et al. 2019, arXiv 1909.08053; ring convention of core/ledger.h), bytes of weights,
// gradients and optimizer state, how activations grow; and plans for thousands of imaginary ranks.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "kernels/backend.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

// A GPT whose every dim divides by 8. n: numbers.
struct Gpt {
  std::int64_t layers = 3, embed = 64, heads = 8, kv_heads = 8, mlp = 256, tokens = 32, vocabulary = 96, batch = 16;
  bool llama = false;

  Workload workload(const std::string& table, Json training = Json::object()) const {
    Workload w;
    w.model = parse_json(llama ? R"({"kind": "gpt", "positions": "rotary", "norm": "rms", "activation": "gated_silu",
                                     "bias": false, "tied_head": false})"
                               : R"({"kind": "gpt"})",
                         "model");
    const std::pair<const char*, std::int64_t> sizes[] = {
        {"layers", layers}, {"embed", embed},   {"heads", heads},          {"kv_heads", kv_heads},
        {"mlp", mlp},       {"tokens", tokens}, {"vocabulary", vocabulary}};
    for (const auto& [key, value] : sizes) w.model.set(key, value);
    training.set("batch_size", batch);
    training.set("steps", 1);
    training.set("rate", parse_json(R"({"peak": 0.1})", "rate"));
    Json resolved;
    w.training = read_training(training, resolved);
    w.vocabulary = vocabulary;
    w.strategy = parse_json(table, "table");
    return w;
  }
  // Parameters of one rank when heads, mlp and vocabulary are cut in x parts.
  double parameters(std::int64_t x) const {
    const double h = static_cast<double>(embed), f = static_cast<double>(mlp), v = static_cast<double>(vocabulary);
    const double parts = static_cast<double>(x), l = static_cast<double>(layers);
    const double keys = 2 * h * static_cast<double>(kv_heads) / static_cast<double>(heads);
    if (llama) return 2 * v * h / parts + l * (2 * h + (h * (h + keys) + h * h + 3 * h * f) / parts) + h;
    const double layer =
        4 * h + (h * (h + keys) + h + keys) / parts + h * h / parts + h + (h * f + f) / parts + h * f / parts + h;
    return v * h / parts + static_cast<double>(tokens) * h + l * layer + 2 * h;
  }
};

constexpr const char* kData = R"({"mesh": [["data", "*"]], "axes": {"batch": "data"}})";
constexpr const char* kTensor = R"({"mesh": [["x", "*"]], "axes": {"heads": "x", "mlp": "x", "vocab": "x"}})";
std::string data_tensor(int x) {
  return fmt::format(R"({{"mesh": [["data", "*"], ["x", {}]],
                          "axes": {{"batch": "data", "heads": "x", "mlp": "x", "vocab": "x"}}}})",
                     x);
}

Forecast counted(const Workload& w, int ranks, int rank) {
  return forecast(w, backend_named("reference"), ranks, rank);
}
double ring(int g, double elements) { return 2.0 * (g - 1) / g * elements; }
Traffic over(const Forecast& f, const std::string& group, const std::string& kind = "all_reduce") {
  const auto found = f.step_messages.find({group, kind});
  return found == f.step_messages.end() ? Traffic{} : found->second;
}
std::size_t kinds(const Forecast& f) { return f.step_messages.size(); }

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

}  // namespace
}  // namespace quadrille
