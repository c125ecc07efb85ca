// SPDX-License-Identifier: Apache-2.0
// The law for BERT: rows of masked words picked out of a sequence that may be split, padding of different lengths, and
// two losses with unequally many labels. Every layout equals the serial run; the serial run is held against finite
// differences and against the definition of its loss; what is peculiar to it is planted wrong and noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "kernels/backend.h"
#include "parallelism/world.h"
#include "tests/kernels/broken.h"
#include "tests/training/context_layouts.h"
#include "tests/training/counted.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

using toy::kSerial;
using toy::Layout;
using Changes = std::vector<std::pair<std::string, Json>>;

const auto kName = [](const auto& info) { return info.param.name; };

std::string differs(const Workload& w, const Layout& layout, int steps, const toy::Bounds& bounds,
                    const std::string& backend = "reference") {
  const auto serial = toy::train(w, kSerial, 1, steps, backend);
  return toy::difference(serial, toy::train(w, layout.table, layout.ranks, steps, backend), bounds);
}

class LawOfBert : public ::testing::TestWithParam<Layout> {};

TEST_P(LawOfBert, OneStepInF64) { EXPECT_EQ(differs(toy::masked_words(), GetParam(), 1, toy::kF64), ""); }

TEST_P(LawOfBert, FiveStepsOfMicroBatchesInF64) {
  toy::Bounds bounds = toy::kF64;
  bounds.tensor = bounds.norm = bounds.loss = 1e-10;
  EXPECT_EQ(differs(toy::masked_words({}, {{"micro_batch", 1}}), GetParam(), 5, bounds), "");
}

TEST_P(LawOfBert, OneStepInF32) {
  for (const Backend& b : backends()) {
    if (!b.absent_because.empty() || b.name == "counting") continue;
    const auto w = toy::masked_words({}, {{"dtype", "f32"}});
    EXPECT_EQ(differs(w, GetParam(), 1, toy::kF32, std::string(b.name)), "") << b.name;
  }
}

TEST_P(LawOfBert, BillsAddUpToTheModelFormula) {
  const auto run = toy::train(toy::masked_words(), GetParam().table, GetParam().ranks, 2);
  EXPECT_NEAR((run.work.useful + run.work.skipped) / run.model_flops_full, 1.0, 1e-12);
}

TEST_P(LawOfBert, MemoryIsWhatTheForecastSays) {
  const auto run = toy::train(toy::masked_words(), GetParam().table, GetParam().ranks, 2);
  EXPECT_EQ(run.memory.activations, run.forecast.activations);
  EXPECT_EQ(run.memory.weights, run.forecast.weights);
}

INSTANTIATE_TEST_SUITE_P(Layouts, LawOfBert, ::testing::ValuesIn(toy::kLayouts), kName);
INSTANTIATE_TEST_SUITE_P(Stores, LawOfBert, ::testing::ValuesIn(toy::kStores), kName);
INSTANTIATE_TEST_SUITE_P(Contexts, LawOfBert, ::testing::ValuesIn(toy::kContextLayouts), kName);

class LawOfBertInStages : public ::testing::TestWithParam<Layout> {};

TEST_P(LawOfBertInStages, TwoStepsInF64) {
  EXPECT_EQ(differs(toy::masked_words({{"layers", 3}}, {{"micro_batch", 1}}), GetParam(), 2, toy::kF64), "");
}

TEST_P(LawOfBertInStages, MemoryIsWhatTheForecastSays) {
  const auto w = toy::masked_words({{"layers", 3}}, {{"micro_batch", 1}});
  const auto run = toy::train(w, GetParam().table, GetParam().ranks, 2);
  EXPECT_EQ(run.memory.activations, run.forecast.activations);
}

INSTANTIATE_TEST_SUITE_P(Pipelines, LawOfBertInStages, ::testing::ValuesIn(toy::kPipelines), kName);
INSTANTIATE_TEST_SUITE_P(Interleaved, LawOfBertInStages, ::testing::ValuesIn(toy::kInterleaved), kName);

// One rank, with this trainer and its data of `rows` rows.
template <class Body>
void serially(const Changes& model, const Changes& training, std::int64_t rows, Body&& body) {
  run_threads({}, [&](std::unique_ptr<Communicator> world) {
    Workload w = toy::masked_words(model, training);
    w.strategy = Json::object();
    const Mesh mesh(std::move(world), {});
    const auto device = make_host_device();
    Ledger ledger;
    const auto data = law_data(w, rows);
    Trainer trainer(w, mesh, backend_named("reference"), *device, ledger);
    body(trainer, *data);
  });
}

const Changes kStill = {{"rate", parse_json(R"({"peak": 1e-300})", "t")}, {"clip_norm", 0}};

// Of Σ of the main loss and the further one scaled to it, with dropout and micro-batches.
TEST(SerialBert, GradientsEqualFiniteDifferences) {
  Changes training = kStill;
  training.emplace_back("micro_batch", 2);
  serially({}, training, 24, [](Trainer& trainer, const Dataset& data) {
    trainer.perturb(0.2, 3);
    const auto loss = [&](const std::string& name, std::int64_t index, double change) {
      trainer.shift(name, index, change);
      trainer.step(data, 0);
      const StepReport r = *trainer.flush();
      trainer.shift(name, index, -change);
      return r.loss * r.labels;
    };
    for (const std::string& name : trainer.parameter_names()) {
      loss(name, 0, 0);
      const auto gradient = trainer.whole_gradient(name);
      const auto largest = std::max_element(gradient.begin(), gradient.end(),
                                            [](double a, double b) { return std::abs(a) < std::abs(b); });
      ASSERT_GT(std::abs(*largest), 0) << name;
      for (const std::int64_t i : {static_cast<std::int64_t>(largest - gradient.begin()), std::int64_t{0},
                                   static_cast<std::int64_t>(gradient.size()) - 1}) {
        constexpr double kStep = 1e-5;
        const double measured = (loss(name, i, kStep) - loss(name, i, -kStep)) / (2 * kStep);
        EXPECT_NEAR(gradient[static_cast<std::size_t>(i)], measured, 1e-6 * std::max(1.0, std::abs(*largest)))
            << name << "[" << i << "]";
      }
    }
  });
}

// With the classes of the next sentence decided by their bias alone their loss is known, and the rest is what
// evaluation says of the same rows.
TEST(SerialBert, LossIsTheSumOfTwoMeans) {
  Changes training = kStill;
  training.emplace_back("label_smoothing", 0);
  serially({{"dropout", 0}}, training, 8, [](Trainer& trainer, const Dataset& data) {
    trainer.perturb(0.2, 3);
    const auto weight = trainer.whole_value("next.weight"), bias = trainer.whole_value("next.bias");
    for (std::size_t i = 0; i < weight.size(); ++i)
      trainer.shift("next.weight", static_cast<std::int64_t>(i), -weight[i]);
    trainer.step(data, 0);
    const StepReport report = *trainer.flush();
    double from_elsewhere = 0, counted = 0;
    for (std::int64_t row = 0; row < 8; ++row) {
      const Batch sample = single_sample(data, 0, row);
      const std::int32_t next = sample.integers("next")[0];
      counted += next >= 0, from_elsewhere += next == 1;
    }
    ASSERT_GT(counted, 0);
    ASSERT_NE(counted, report.labels);
    EXPECT_EQ(report.labels, static_cast<double>(data.labels()));
    const double share = from_elsewhere / counted, apart = bias[1] - bias[0];
    const double next = (1 - share) * std::log1p(std::exp(apart)) + share * std::log1p(std::exp(-apart));
    EXPECT_NEAR(report.loss, trainer.evaluate(data).quality + next, 1e-12);
  });
}

TEST(SerialBert, StartsAsItsPaperSays) {
  serially({{"embed", 32}}, {}, 8, [](Trainer& trainer, const Dataset&) {
    for (const char* name : {"table", "positions", "layers.1.qkv.weight", "pooler.weight", "head.transform.weight"}) {
      const auto values = trainer.whole_value(name);
      double squares = 0;
      for (const double x : values) squares += x * x / static_cast<double>(values.size());
      EXPECT_NEAR(std::sqrt(squares), 0.02, 0.003) << name;
    }
    for (const char* name : {"head.bias", "next.bias", "layers.0.down.bias", "embed.norm.bias"})
      for (const double x : trainer.whole_value(name)) EXPECT_EQ(x, 0) << name;
    for (const double x : trainer.whole_value("layers.1.norm2.gain")) EXPECT_EQ(x, 1);
  });
}

// ---- what is peculiar to it, forgotten
const Ops* planted_ops = nullptr;

class WithoutScale : public BrokenOps {
 public:
  WithoutScale() : BrokenOps(reference_ops(), Fault::none) {}
  Cost cross_entropy_backward(Stream& stream, const Tensor& dlogits, const Tensor& logits, const Tensor& max,
                              const Tensor& sums, const Tensor& labels, const Tensor&,
                              const CrossEntropy& how) const override {
    return BrokenOps::cross_entropy_backward(stream, dlogits, logits, max, sums, labels, {}, how);
  }
};

// The counts of this rank's own micro-batch.
class CountsOfOneRank : public BrokenOps {
 public:
  CountsOfOneRank() : BrokenOps(reference_ops(), Fault::none) {}
  Cost cross_entropy_backward(Stream& stream, const Tensor& dlogits, const Tensor& logits, const Tensor& max,
                              const Tensor& sums, const Tensor& labels, const Tensor& counts,
                              const CrossEntropy& how) const override {
    if (!counts) return BrokenOps::cross_entropy_backward(stream, dlogits, logits, max, sums, labels, {}, how);
    const Tensor own = stream.device().empty({2}, DType::f64);
    stream.copy(own, counts);
    const auto ids = labels.host<std::int32_t>();
    own.host<double>()[1] = static_cast<double>(std::ranges::count_if(ids, [](std::int32_t id) { return id >= 0; }));
    return BrokenOps::cross_entropy_backward(stream, dlogits, logits, max, sums, labels, own, how);
  }
};

std::string noticed(const BrokenOps& broken, const char* table, int ranks) {
  const auto w = toy::masked_words();
  const auto serial = toy::train(w, kSerial, 1, 1);
  EXPECT_EQ(toy::difference(serial, toy::train(w, table, ranks, 1), toy::kF64), "");
  planted_ops = &broken;
  toy::Hooks hooks;
  hooks.ops = []() -> const Ops& { return *planted_ops; };
  return toy::difference(serial, toy::train(w, table, ranks, 1, "reference", hooks), toy::kF64);
}

constexpr const char* kData = R"({"mesh": [["data", 2]], "axes": {"batch": "data"}})";
constexpr const char* kContext = R"({"mesh": [["c", 2]], "axes": {"sequence": "c"}})";

TEST(BertFaults, ALossThatIsNotScaledIsNoticed) { EXPECT_NE(noticed(WithoutScale(), kData, 2), ""); }
TEST(BertFaults, ALossScaledByItsOwnRankIsNoticed) { EXPECT_NE(noticed(CountsOfOneRank(), kData, 2), ""); }

TEST(BertFaults, PaddingThatIsSeenIsNoticed) {
  Forgetting forgetting;
  forgetting.lengths = [](Tensor& lengths) { lengths = {}; };
  EXPECT_NE(noticed(BrokenOps(reference_ops(), Fault::none, forgetting), kContext, 2), "");
}

TEST(BertFaults, PlacesThatAreTakenForLocalOnesAreNoticed) {
  Forgetting first, jump;
  first.first_token = [](std::int64_t& token) { token = 0; };
  jump.jump = [](Jump& gap) { gap = {}; };
  EXPECT_NE(noticed(BrokenOps(reference_ops(), Fault::none, first),
                    R"({"mesh": [["c", 2]], "axes": {"sequence": "c"}, "context": {"balanced": false}})", 2),
            "");
  EXPECT_NE(noticed(BrokenOps(reference_ops(), Fault::none, jump), kContext, 2), "");
}

// ---- what it sends
Forecast counted(const char* table, int ranks, const Changes& training = {}) {
  Workload w = toy::masked_words({}, training);
  w.strategy = parse_json(table, "table");
  return toy::counted(w, ranks, 0);
}

// Buckets (word table, the other tables, two layers, heads), the totals of two losses and a norm, and once a step two
// counts, however many micro-batches there are.
TEST(BertVolumes, TheSecondLossCostsOneMessageOfTwoNumbers) {
  for (const int micro_batch : {0, 1}) {
    const Forecast f = counted(kData, 2, {{"micro_batch", micro_batch}});
    EXPECT_EQ(toy::over(f, "data").calls, 5 + 1 + 1);
    const double h = 8, v = 13, layer = 4 * (h * h + h) + 2 * 4 * h * h + 5 * h + 4 * h;
    const double weights = v * h + (8 + 2) * h + 2 * h + 2 * layer + 2 * (h * h + h) + 2 * h + v + 2 * h + 2;
    EXPECT_DOUBLE_EQ(toy::over(f, "data").elements, toy::ring(2, weights + 5 + 2));
  }
}

// Three masked words and the first token of eight rows, forward only.
TEST(BertVolumes, PickedRowsAreSummedOnceOverASplitSequence) {
  const Forecast f = counted(kContext, 2);
  const double h = 8, v = 13, rows = 8, layer = 4 * (h * h + h) + 2 * 4 * h * h + 5 * h + 4 * h;
  const double picked = rows * (3 + 1) * h, tables = v * h + (8 + 2) * h + 2 * h, totals = 5;
  EXPECT_EQ(toy::over(f, "c").calls, 4 + 2 + 1);  // the heads see all picked rows and owe nothing
  EXPECT_DOUBLE_EQ(toy::over(f, "c").elements, toy::ring(2, tables + 2 * layer + picked + totals));
}

}  // namespace
}  // namespace quadrille
