// SPDX-License-Identifier: Apache-2.0
// The volumes that published work states for each strategy, against what the counting run of our own trainer sends:
// ring elements per rank (docs/strategies.md). A layer is the difference of two models; nothing here is allocated.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/training/counted.h"

namespace quadrille {
namespace {

using toy::counted;
using toy::Gpt;
using toy::over;
using toy::ring;

constexpr const char* kTensor = R"({"mesh": [["x", "*"]], "axes": {"heads": "x", "mlp": "x", "vocab": "x"}})";

// The GPT of the vectors: h 1024, f 4h, 4096 tokens for each data replica when there are two of them.
Gpt gpt_of_the_vectors() {
  Gpt gpt;
  gpt.layers = 2, gpt.embed = 1024, gpt.heads = gpt.kv_heads = 16, gpt.mlp = 4096, gpt.tokens = 1024;
  gpt.vocabulary = 512, gpt.batch = 8;
  return gpt;
}

// Messages of one layer: those of a model with one layer more, less those of the model.
class Layer {
 public:
  Layer(Gpt gpt, const std::string& table, int ranks, const Json& training = Json::object(), int rank = 0)
      : few_(counted(gpt.workload(table, training), ranks, rank)) {
    ++gpt.layers;
    many_ = counted(gpt.workload(table, training), ranks, rank);
  }
  double elements(const std::string& group, const std::string& kind = "all_reduce") const {
    return over(many_, group, kind).elements - over(few_, group, kind).elements;
  }
  std::int64_t calls(const std::string& group, const std::string& kind = "all_reduce") const {
    return over(many_, group, kind).calls - over(few_, group, kind).calls;
  }
  double parameters() const { return static_cast<double>(many_.parameters - few_.parameters); }
  std::int64_t activation_bytes() const { return many_.memory.activations - few_.memory.activations; }

 private:
  Forecast few_, many_;
};

// Two numbers a row for each of two norms, forward and backward.
double norm_statistics(int y, double tokens) { return 4 * ring(y, 2 * tokens); }

// ---- products over one and two mesh axes

// Narayanan et al. 2021 (arXiv 2104.04473), 3.2: 8bsh(t-1)/t elements a layer and micro-batch.
TEST(Volumes, TensorParallelismMovesMegatronsVolume) {
  for (const int t : {2, 4, 8}) {
    const Gpt gpt = gpt_of_the_vectors();
    const Layer layer(gpt, kTensor, t);
    const double bsh = static_cast<double>(gpt.batch * gpt.tokens * gpt.embed);
    EXPECT_DOUBLE_EQ(layer.elements("x"), 8 * bsh * (t - 1) / t);
    EXPECT_EQ(layer.calls("x"), 4);
  }
}

// Korthikanti et al. 2022 (arXiv 2205.05198): the same bytes as gathers and scatters; what lies behind them owes on x.
TEST(Volumes, SequenceParallelismMovesTheSameAsGathersAndScatters) {
  const Gpt gpt = gpt_of_the_vectors();
  const std::string table =
      R"({"mesh": [["x", "*"]], "axes": {"heads": "x", "mlp": "x", "vocab": "x", "sequence": "x"}})";
  for (const int t : {2, 4}) {
    const Layer layer(gpt, table, t);
    const double bsh = static_cast<double>(gpt.batch * gpt.tokens * gpt.embed), part = 1.0 * (t - 1) / t;
    EXPECT_DOUBLE_EQ(layer.elements("x", "all_gather"), 4 * part * bsh);
    EXPECT_EQ(layer.calls("x", "all_gather"), 4);
    EXPECT_DOUBLE_EQ(layer.elements("x", "reduce_scatter"), 4 * part * bsh);
    EXPECT_EQ(layer.calls("x", "reduce_scatter"), 4);
    // Gains and biases of two norms: four vectors in one message. Those of proj and down join before they are
    // scattered.
    EXPECT_DOUBLE_EQ(layer.elements("x"), ring(t, 4.0 * static_cast<double>(gpt.embed)));
  }
}

// The vectors of h 1024, m 4096, all extents 2: Singh et al. 2025 (arXiv 2502.08145), equations 3 and 4 summed over the
// four matrices of a layer. x carries heads and MLP width, y the residual features.
constexpr const char* kFourD =
    R"({"mesh": [["data", 2], ["depth", 2], ["y", 2], ["x", 2]],
        "axes": {"batch": ["data", "depth"], "embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}})";
constexpr double kRowsOfOne = 2048;  // tokens of one rank: 4096 of a data replica over two in depth

TEST(Volumes, AFourDimensionalLayerMovesThePublishedVectors) {
  const Layer layer(gpt_of_the_vectors(), kFourD, 16);
  EXPECT_EQ(layer.elements("x"), 4194304);
  EXPECT_EQ(layer.elements("y"), 12582912 + norm_statistics(2, kRowsOfOne));
  EXPECT_EQ(layer.calls("x"), 4);
  EXPECT_EQ(layer.calls("y"), 4 + 4);
}

// Matrix by matrix: what a matrix makes is proportional to its width, so other widths of keys and MLP tell them apart.
TEST(Volumes, EachMatrixOfItMovesItsOwn) {
  const auto over_y = [](std::int64_t kv_heads, std::int64_t mlp) {
    Gpt gpt = gpt_of_the_vectors();
    gpt.kv_heads = kv_heads, gpt.mlp = mlp;
    const Layer layer(gpt, kFourD, 16);
    EXPECT_EQ(layer.elements("x"), 4 * 1048576) << "each of four matrices makes or takes the features of the stream";
    return layer.elements("y") - norm_statistics(2, kRowsOfOne);
  };
  const double all = over_y(16, 4096);
  const double keys = 2 * (all - over_y(8, 4096));  // of the 3h that QKV makes: 2h
  EXPECT_EQ(3 * keys / 2, 3145728);                 // QKV
  const double mlp = 2 * (all - over_y(16, 2048));
  EXPECT_EQ(mlp / 2, 4194304);                   // up forward, down backward
  EXPECT_EQ(all - 3 * keys / 2 - mlp, 1048576);  // proj
}

// A Llama-shaped layer: gate and up share the message of their input, keys are fewer than queries.
TEST(Volumes, ALlamaLayer) {
  Gpt gpt = gpt_of_the_vectors();
  gpt.llama = true, gpt.kv_heads = 4, gpt.mlp = 3584;
  const int g = 2;
  const Layer layer(gpt, kFourD, 16);
  const double h = 1024, keys = 256, f = 3584;
  EXPECT_DOUBLE_EQ(layer.elements("x"), 4 * ring(g, kRowsOfOne * h / g));
  EXPECT_EQ(layer.calls("x"), 4);
  // Forward QKV, gate and up; backward what proj and down send back.
  EXPECT_DOUBLE_EQ(layer.elements("y"),
                   ring(g, kRowsOfOne * (h + 2 * keys + 2 * f + h + f) / g) + norm_statistics(g, kRowsOfOne));
  for (const int t : {2, 4})
    EXPECT_DOUBLE_EQ(Layer(gpt, kTensor, t).elements("x"),
                     4 * ring(t, static_cast<double>(gpt.batch * gpt.tokens) * h));
}

// Scattering where work is repeated costs no element: each sum over y becomes a scatter now and a gather later.
TEST(Volumes, PassingOverYCostsNothing) {
  const std::string table =
      R"({"mesh": [["data", 2], ["depth", 2], ["y", 2], ["x", 2]],
          "axes": {"batch": ["data", "depth"], "embed": "y", "heads": "x", "mlp": "x", "vocab": "x"},
          "passing": [["heads", "heads", "y"], ["mlp", "sequence", "y"], ["vocab", "sequence", "y"]]})";
  const Layer layer(gpt_of_the_vectors(), table, 16);
  EXPECT_EQ(layer.elements("x"), 4194304);
  EXPECT_EQ(layer.elements("y") + layer.elements("y", "reduce_scatter") + layer.elements("y", "all_gather"),
            12582912 + norm_statistics(2, kRowsOfOne));
  EXPECT_EQ(layer.elements("y"), norm_statistics(2, kRowsOfOne)) << "no sum is left but those of the norms";
}

// ---- pjit and T5X: four rule sets (Yoo et al. 2022, arXiv 2204.06514; t5x/partitioning.py)

TEST(Volumes, TwoDimensionalActivationsMoveTheSameAsGathersAndScatters) {
  const std::string table = R"({"mesh": [["data", 2], ["model", 4]],
      "axes": {"batch": "data", "heads": "model", "mlp": "model", "vocab": "model"},
      "passing": [["embed", "embed", "model"]]})";
  const int x = 4;
  const Gpt gpt = gpt_of_the_vectors();
  const Layer layer(gpt, table, 8);
  const double m = static_cast<double>(gpt.batch * gpt.tokens) / 2, mh = m * static_cast<double>(gpt.embed);
  EXPECT_DOUBLE_EQ(layer.elements("model", "all_gather"), 4.0 * (x - 1) / x * mh);
  EXPECT_DOUBLE_EQ(layer.elements("model", "reduce_scatter"), 4.0 * (x - 1) / x * mh);
  EXPECT_EQ(layer.calls("model", "all_gather"), 4);
  EXPECT_EQ(layer.calls("model", "reduce_scatter"), 4);
  EXPECT_DOUBLE_EQ(layer.elements("model"), norm_statistics(x, m));
}

// 1D or 2D activations, 1D or 2D parameters: the sum of gradients over data, 2P(d-1)/d of a model rank's P, becomes two
// gathers of weights and a scatter of gradients, 3P(d-1)/d.
TEST(Volumes, TwoDimensionalParametersTurnASumIntoTwoGathersAndAScatter) {
  for (const bool two : {false, true}) {  // dims of activations
    const auto table = [&](const char* store) {
      return fmt::format(R"({{"mesh": [["data", 4], ["model", 2]], {} "store": {{{}}},
          "axes": {{"batch": "data", "heads": "model", "mlp": "model", "vocab": "model"}}}})",
                         two ? R"("passing": [["embed", "embed", "model"]],)" : "", store);
    };
    const double part = 3.0 / 4, h = 1024, f = 4096;
    const double norms = 4 * h;  // gains and biases, whole on every model rank like the biases of proj and down
    const double own = (12 * h * h + 3 * h + f) / 2 + 2 * h + norms;
    const Layer whole(gpt_of_the_vectors(), table(""), 8);
    EXPECT_EQ(whole.elements("data"), 2 * part * (two ? own - norms : own));
    EXPECT_EQ(whole.elements("data+model"), two ? ring(8, norms) : 0) << "where features are cut they owe on model too";
    const Layer cut(gpt_of_the_vectors(), table(R"("weights": "data", "gradients": "data", "optimizer": "data")"), 8);
    EXPECT_EQ(cut.elements("data", "all_gather"), 2 * part * own);
    EXPECT_EQ(cut.elements("data", "reduce_scatter"), part * own);
    EXPECT_EQ(cut.elements("data") + cut.elements("data+model"), 0);
  }
}

// ---- gradients and stored state

Json micro_batch(std::int64_t rows) { return Json(Json::Object{{"micro_batch", Json(rows)}}); }
std::string data_with(const std::string& store) {
  return R"({"mesh": [["data", "*"]], "axes": {"batch": "data"}, "store": {)" + store + "}}";
}
constexpr const char *kZero1 = R"("optimizer": "data")", *kZero2 = R"("gradients": "data", "optimizer": "data")",
                     *kZero3 = R"("weights": "data", "gradients": "data", "optimizer": "data")",
                     *kZero3Kept =
                         R"("weights": "data", "gradients": "data", "optimizer": "data", "keep_gathered": true)";

// Rajbhandari et al. 2020 (arXiv 1910.02054), 7: with n ranks and k micro-batches, in units of P(n-1)/n, stage 0 and 1
// move 2, stage 2 k+1, stage 3 3k; 2k where gathered weights are kept for backward.
TEST(Volumes, StoredStateMovesWhatZeroSays) {
  struct Case {
    std::string store;
    double all_reduce, gather, scatter;  // in units of P(n-1)/n, times k where marked
    bool gathers_each, scatters_each;
  };
  const Case cases[] = {{"", 2, 0, 0, false, false},
                        {kZero1, 0, 1, 1, false, false},
                        {kZero2, 0, 1, 1, false, true},
                        {kZero3, 0, 2, 1, true, true},
                        {kZero3Kept, 0, 1, 1, true, true}};
  for (const Case& c : cases)
    for (const int n : {2, 4})
      for (const int k : {1, 2}) {
        const Gpt gpt = gpt_of_the_vectors();
        const Layer layer(gpt, data_with(c.store), n, micro_batch(gpt.batch / n / k), n - 1);
        const double unit = layer.parameters() * (n - 1) / n;
        const std::string what = fmt::format("{{{}}}, {} ranks, {} micro-batches", c.store, n, k);
        EXPECT_DOUBLE_EQ(layer.elements("data"), c.all_reduce * unit) << what;
        EXPECT_DOUBLE_EQ(layer.elements("data", "all_gather"), c.gather * unit * (c.gathers_each ? k : 1)) << what;
        EXPECT_DOUBLE_EQ(layer.elements("data", "reduce_scatter"), c.scatter * unit * (c.scatters_each ? k : 1))
            << what;
      }
}

// Sharded inside groups of depth, replicated across: only 1/z of the gradients cross.
TEST(Volumes, HybridShardingSendsAPartAcross) {
  const std::string table = R"({"mesh": [["data", 4], ["depth", 2]], "axes": {"batch": ["data", "depth"]},
      "store": {"weights": "depth", "gradients": "depth", "optimizer": "depth"}})";
  const Layer layer(gpt_of_the_vectors(), table, 8);
  EXPECT_DOUBLE_EQ(layer.elements("depth", "all_gather"), layer.parameters());  // 2 (z-1)/z
  EXPECT_DOUBLE_EQ(layer.elements("depth", "reduce_scatter"), layer.parameters() / 2);
  EXPECT_DOUBLE_EQ(layer.elements("data"), ring(4, layer.parameters() / 2));
}

// The vectors of z and data for the four matrices together, and what norms and biases add: 1/2 of what a rank holds.
TEST(Volumes, WeightsStoredOverDepthMoveThePublishedVectors) {
  const std::string table =
      R"({"mesh": [["data", 2], ["depth", 2], ["y", 2], ["x", 2]],
          "axes": {"batch": ["data", "depth"], "embed": "y", "heads": "x", "mlp": "x", "vocab": "x"},
          "store": {"weights": "depth", "gradients": "depth", "optimizer": "depth", "keep_gathered": true}})";
  const Layer layer(gpt_of_the_vectors(), table, 16);
  const double matrices = 393216 + 131072 + 524288 + 524288;
  const double h = 1024, f = 4096, vectors = (6 * h + 3 * h + f) / 2;  // of a rank: those along h over y, others over x
  EXPECT_DOUBLE_EQ(layer.elements("depth", "all_gather"), matrices + vectors / 2);
  EXPECT_DOUBLE_EQ(layer.elements("depth", "reduce_scatter"), matrices + vectors / 2);
  EXPECT_DOUBLE_EQ(layer.elements("data"), matrices + vectors / 2);
  EXPECT_EQ(layer.elements("x"), 4194304);
  EXPECT_EQ(layer.elements("y"), 12582912 + norm_statistics(2, kRowsOfOne));
}

// Run again before their backward, layers send their forward twice: 12 over x and 38 over y instead of 8 and 24, less
// the last sum over x of a layer, whose result the next layer keeps.
TEST(Volumes, RecomputationSendsForwardsTwice) {
  const std::string table =
      R"({"mesh": [["data", 2], ["depth", 2], ["y", 2], ["x", 2]], "recompute": "full",
          "axes": {"batch": ["data", "depth"], "embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}})";
  const Layer layer(gpt_of_the_vectors(), table, 16);
  EXPECT_EQ(layer.elements("x") / 4194304, 12.0 / 8);
  EXPECT_EQ((layer.elements("y") - norm_statistics(2, kRowsOfOne) * 3 / 2) / 12582912, 38.0 / 24);
}

// Kumar et al. 2020 (arXiv 2011.03641): along rings of b, then across a of them with 1/b of it, then back.
TEST(Volumes, ASumAxisByAxisCrossesWithAPart) {
  for (const bool sharded : {false, true}) {
    const std::string table =
        fmt::format(R"({{"mesh": [["rings", 4], ["ring", 2]], "axes": {{"batch": ["rings", "ring"]}},
        "sum": "axis_by_axis", "store": {{"optimizer": {}}}}})",
                    sharded ? R"(["ring", "rings"])" : "[]");
    const Layer layer(gpt_of_the_vectors(), table, 8);
    const double p = layer.parameters();
    EXPECT_DOUBLE_EQ(layer.elements("ring", "reduce_scatter"), p / 2);
    EXPECT_DOUBLE_EQ(layer.elements("ring", "all_gather"), p / 2);
    const double across =
        layer.elements("rings") + layer.elements("rings", "reduce_scatter") + layer.elements("rings", "all_gather");
    EXPECT_DOUBLE_EQ(across, ring(4, p / 2));
  }
}

// A border of stages: the residual stream forward, its gradient backward, each micro-batch once; a tied table is summed
// between its two holders.
TEST(Volumes, StagesSendTheStreamAndItsGradient) {
  const std::string schedules[] = {R"("schedule": "gpipe")", R"("schedule": "1f1b")"};
  for (const std::string& schedule : schedules) {
    Gpt gpt = gpt_of_the_vectors();
    gpt.layers = 4;
    const std::string table = R"({"mesh": [["pipe", 4]], "pipeline": {)" + schedule + "}}";
    const double mh = static_cast<double>(gpt.batch * gpt.tokens * gpt.embed);
    for (const int rank : {0, 1, 3}) {
      const Forecast f = counted(gpt.workload(table, micro_batch(2)), 4, rank);
      EXPECT_DOUBLE_EQ(over(f, "pipe", "send").elements, (rank == 1 ? 2 : 1) * mh) << schedule << ", rank " << rank;
      EXPECT_EQ(over(f, "pipe", "send").calls, (rank == 1 ? 2 : 1) * gpt.batch / 2);
    }
  }
}

// Two runs of layers a rank: every border twice, and one from the last rank back to the first.
TEST(Volumes, InterleavedStagesSendTwiceAsMuch) {
  Gpt gpt = gpt_of_the_vectors();
  gpt.layers = 8;
  const std::string table = R"({"mesh": [["pipe", 4]], "pipeline": {"schedule": "interleaved", "chunks": 2}})";
  const double mh = static_cast<double>(gpt.batch * gpt.tokens * gpt.embed);
  for (const auto& [rank, borders] : {std::pair{0, 3}, {1, 4}, {3, 3}}) {
    const Forecast f = counted(gpt.workload(table, micro_batch(2)), 4, rank);
    EXPECT_DOUBLE_EQ(over(f, "pipe", "send").elements, borders * mh) << "rank " << rank;
  }
}

// ---- activations: what a layer keeps, in numbers of f32 per token (docs/strategies.md)

double kept_per_token(const Gpt& gpt, const std::string& table, int ranks) {
  const Layer layer(gpt, table, ranks);
  return static_cast<double>(layer.activation_bytes()) / 4 / static_cast<double>(gpt.batch * gpt.tokens);
}

TEST(Volumes, ALayerKeepsWhatItsOpsNeed) {
  Gpt gpt = gpt_of_the_vectors();
  const double h = 1024, a = 16, f = 4096;
  EXPECT_DOUBLE_EQ(kept_per_token(gpt, "{}", 1), 8 * h + 2 * f + a + 8);
  for (const int x : {2, 4}) EXPECT_DOUBLE_EQ(kept_per_token(gpt, kTensor, x), 4 * h + 8 + (4 * h + 2 * f + a) / x);
  gpt.kv_heads = 4;
  EXPECT_DOUBLE_EQ(kept_per_token(gpt, "{}", 1), 6 * h + 2 * h / 4 + 2 * f + a + 8);
  gpt.llama = true;
  EXPECT_DOUBLE_EQ(kept_per_token(gpt, "{}", 1), 6 * h + 2 * h / 4 + 3 * f + a + 8);
}

TEST(Volumes, ALayerThatRunsAgainKeepsItsInput) {
  EXPECT_DOUBLE_EQ(kept_per_token(gpt_of_the_vectors(), R"({"recompute": "full"})", 1), 1024);
}

TEST(Volumes, ALayerKeepsLessWhereItsTokensOrFeaturesAreCut) {
  const Gpt gpt = gpt_of_the_vectors();
  const double h = 1024, a = 16, f = 4096;
  const std::string sequence =
      R"({"mesh": [["x", 2]], "axes": {"heads": "x", "mlp": "x", "vocab": "x", "sequence": "x"}})";
  EXPECT_DOUBLE_EQ(kept_per_token(gpt, sequence, 2), 2 * h + (8 * h + 2 * f + a + 8) / 2);
  const std::string both =
      R"({"mesh": [["y", 2], ["x", 2]], "axes": {"embed": "y", "heads": "x", "mlp": "x", "vocab": "x"}})";
  EXPECT_DOUBLE_EQ(kept_per_token(gpt, both, 4), 4 * h / 2 + 8 + (4 * h + 2 * f + a) / 2);
}

}  // namespace
}  // namespace quadrille
