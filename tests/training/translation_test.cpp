// SPDX-License-Identifier: Apache-2.0
// The law for an encoder-decoder: memory that passes through every layer and stage of a decoder, sources of unequal
// length, one table with three owners. Every layout equals the serial run; that is held against finite differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "kernels/backend.h"
#include "models/model.h"
#include "models/nn/parameter.h"
#include "parallelism/world.h"
#include "tests/refusal.h"
#include "tests/training/context_layouts.h"
#include "tests/training/faulty_communicator.h"
#include "tests/training/toy.h"
#include "tests/training/translation_layouts.h"

namespace quadrille {
namespace {

using toy::kSerial;
using toy::Layout;
using Changes = std::vector<std::pair<std::string, Json>>;

const auto kName = [](const auto& info) { return info.param.name; };

// Three tables, learned positions, gated MLPs without biases, unequal stacks, sources as long as targets.
Changes other() {
  return {{"tied", false},      {"positions", "learned"}, {"activation", "gated_silu"}, {"norm", "rms"},
          {"bias", false},      {"attention_bias", true}, {"encoder_layers", 1},        {"decoder_layers", 3},
          {"source_tokens", 8}, {"dropout", 0.05},        {"attention_dropout", 0},     {"activation_dropout", 0.2}};
}

std::string differs(const Workload& w, const Layout& layout, int steps, const toy::Bounds& bounds,
                    const std::string& backend = "reference") {
  const auto serial = toy::train(w, kSerial, 1, steps, backend);
  return toy::difference(serial, toy::train(w, layout.table, layout.ranks, steps, backend), bounds);
}

class LawOfTranslation : public ::testing::TestWithParam<Layout> {};

TEST_P(LawOfTranslation, OneStepInF64) { EXPECT_EQ(differs(toy::translation(), GetParam(), 1, toy::kF64), ""); }

TEST_P(LawOfTranslation, OtherFormInF64) {
  EXPECT_EQ(differs(toy::translation(other()), GetParam(), 1, toy::kF64), "");
}

TEST_P(LawOfTranslation, FiveStepsOfMicroBatchesInF64) {
  toy::Bounds bounds = toy::kF64;
  bounds.tensor = bounds.norm = bounds.loss = 1e-10;
  const auto serial = toy::train(toy::translation(), kSerial, 1, 5);
  const auto w = toy::translation({}, {{"micro_batch", 1}});
  EXPECT_EQ(toy::difference(serial, toy::train(w, GetParam().table, GetParam().ranks, 5), bounds), "");
}

TEST_P(LawOfTranslation, BillsAndMemoryAreThoseOfTheFormulaAndTheForecast) {
  const auto run = toy::train(toy::translation(), GetParam().table, GetParam().ranks, 2);
  EXPECT_NEAR((run.work.useful + run.work.skipped) / run.model_flops_full, 1.0, 1e-12);
  EXPECT_EQ(run.memory.activations, run.forecast.activations);
  EXPECT_EQ(run.memory.weights, run.forecast.weights);
  EXPECT_EQ(run.memory.optimizer, run.forecast.optimizer);
}

TEST_P(LawOfTranslation, OneStepInF32) {
  for (const Backend& b : backends()) {
    const std::string backend(b.name);
    if (!b.absent_because.empty() || backend == "counting") continue;
    // Without the corners of a ReLU, where f32 may go the other way.
    const auto w = toy::translation({{"activation", "gelu"}}, {{"dtype", "f32"}});
    EXPECT_EQ(differs(w, GetParam(), 1, toy::kF32, backend), "") << backend;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, LawOfTranslation, ::testing::ValuesIn(toy::kLayouts), kName);
INSTANTIATE_TEST_SUITE_P(Stores, LawOfTranslation, ::testing::ValuesIn(toy::kStores), kName);
// What is dropped inside of an MLP must know its positions: three runs of them are too many.
bool dealt_out_in_three_runs(const Layout& layout) { return layout.name == "gather2_words"; }

std::vector<Layout> contexts() {
  std::vector<Layout> found = toy::kContextLayouts;
  std::erase_if(found, dealt_out_in_three_runs);
  found.push_back({"gather2_words_plain", 2,
                   R"({"mesh": [["c", 2]], "axes": {"sequence": "c", "mlp": "c", "vocab": "c"},
                       "context": {"balanced": false}})"});
  return found;
}
INSTANTIATE_TEST_SUITE_P(Contexts, LawOfTranslation, ::testing::ValuesIn(contexts()), kName);

TEST(DropoutInAnMlp, RefusesThreeRunsOfPositions) {
  const auto at = std::find_if(toy::kContextLayouts.begin(), toy::kContextLayouts.end(), dealt_out_in_three_runs);
  ASSERT_NE(at, toy::kContextLayouts.end());
  says(message_of([&] { toy::train(toy::translation(), at->table, at->ranks, 1); }),
       {"mlp.up", "3 runs of tokens", "\"balanced\": false"});
  EXPECT_EQ(differs(toy::translation({{"activation_dropout", 0}}), *at, 1, toy::kF64), "");
}

// Micro-batches of two rows a rank, as many as stages want.
class LawOfTranslationInStages : public ::testing::TestWithParam<Layout> {};

void stages_equal_serial(const Changes& model, const Layout& layout) {
  const auto serial = toy::train(toy::translation(model), kSerial, 1, 2);
  const auto w = toy::translation(model, {{"micro_batch", 2}});
  EXPECT_EQ(toy::difference(serial, toy::train(w, layout.table, layout.ranks, 2), toy::kF64), "");
}

TEST_P(LawOfTranslationInStages, TwoStepsInF64) { stages_equal_serial({}, GetParam()); }
TEST_P(LawOfTranslationInStages, OtherFormInF64) { stages_equal_serial(other(), GetParam()); }

TEST_P(LawOfTranslationInStages, BillsAndMemoryAreThoseOfTheFormulaAndTheForecast) {
  const auto run = toy::train(toy::translation({}, {{"micro_batch", 2}}), GetParam().table, GetParam().ranks, 2);
  EXPECT_NEAR((run.work.useful + run.work.skipped) / run.model_flops_full, 1.0, 1e-12);
  EXPECT_EQ(run.memory.activations, run.forecast.activations);
  EXPECT_EQ(run.memory.weights, run.forecast.weights);
}

INSTANTIATE_TEST_SUITE_P(Stacks, LawOfTranslationInStages, ::testing::ValuesIn(toy::kStacks), kName);
INSTANTIATE_TEST_SUITE_P(Pipelines, LawOfTranslationInStages, ::testing::ValuesIn(toy::kPipelines), kName);
INSTANTIATE_TEST_SUITE_P(Interleaved, LawOfTranslationInStages, ::testing::ValuesIn(toy::kInterleaved), kName);

// Of four stages three own the table: the first, the last, and the one that ends the encoder. They sum its gradient.
TEST(TableOfThreeStages, IsNoticedWhereItsGradientIsNotTheSum) {
  const auto w = toy::translation({}, {{"micro_batch", 2}});
  const auto serial = toy::train(toy::translation(), kSerial, 1, 1);
  const char* table = R"({"mesh": [["pipe", 4]], "axes": {}, "pipeline": {"axis": "pipe"}})";
  const auto noticed = [&](const MessageFault& fault) {
    toy::Hooks hooks;
    hooks.world = [&](std::unique_ptr<Communicator> right) {
      return std::make_unique<FaultyCommunicator>(std::move(right), fault);
    };
    try {
      return toy::difference(serial, toy::train(w, table, 4, 1, "reference", hooks), toy::kF64);
    } catch (const Error& e) {
      return std::string(e.what());  // replicas that no longer agree
    }
  };
  using Effect = MessageFault::Effect;
  EXPECT_EQ(noticed({"none", "pipe", Effect::left_out}), "");
  for (const Effect effect : {Effect::left_out, Effect::paid_twice})
    EXPECT_NE(noticed({"all_reduce", "pipe", effect, 13 * 8}), "");
}

// Sources and targets of lengths that do not divide; a rank may have no token of one of them.
TEST(UnevenSequences, EqualTheSerialRun) {
  for (const auto& [how, ranks] : {std::pair{"gather", 3}, std::pair{"turn", 2}, std::pair{"ring", 3}}) {
    const Layout layout{how, ranks,
                        fmt::format(R"({{"mesh": [["c", {}]], "axes": {{"sequence": "c"}},
                                         "context": {{"attention": "{}", "balanced": false}}}})",
                                    ranks, how)};
    for (const auto& [source, target] : {std::pair{7, 4}, std::pair{3, 9}, std::pair{2, 5}, std::pair{6, 2}})
      EXPECT_EQ(differs(toy::translation({{"source_tokens", source}, {"tokens", target}}), layout, 2, toy::kF64), "")
          << how << " " << source << " " << target;
  }
}

TEST(UnevenSequences, AreRefusedWhereChunksMustBeEqual) {
  const char* table = R"({"mesh": [["c", 2]], "axes": {"sequence": "c"}})";
  const auto w = [](int source, int target) {
    return toy::translation({{"source_tokens", source}, {"tokens", target}});
  };
  says(message_of([&] { toy::train(w(6, 8), table, 2, 1); }), {"model.source_tokens 6", "multiple of 4"});
  says(message_of([&] { toy::train(w(8, 6), table, 2, 1); }), {"model.tokens 6", "multiple of 4"});
}

// What a source holds behind its end changes nothing; what it holds before does.
class WithSources : public Dataset {
 public:
  WithSources(const Dataset& pairs, std::int32_t at_end, std::int32_t added)
      : pairs_(pairs), at_end_(at_end), added_(added) {}
  Fields fields() const override { return pairs_.fields(); }
  std::int64_t size() const override { return pairs_.size(); }
  std::int64_t vocabulary() const override { return pairs_.vocabulary(); }
  double units() const override { return pairs_.units(); }
  std::string unit() const override { return pairs_.unit(); }
  std::int64_t labels() const override { return pairs_.labels(); }
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override {
    pairs_.read(epoch, index, row);
    for (std::int32_t& id : row.integers("source")) id = id < 0 ? at_end_ : (id + added_) % 13;
  }
  void scan() const override {}
  Json description() const override { return Json::object(); }

 private:
  const Dataset& pairs_;
  std::int32_t at_end_, added_;
};

TEST(Sources, EndWhereTheirPaddingBegins) {
  run_threads({}, [&](std::unique_ptr<Communicator> world) {
    Workload w = toy::translation({{"dropout", 0}});
    w.strategy = Json::object();
    const Mesh mesh(std::move(world), {});
    const auto device = make_host_device();
    Ledger ledger;
    const auto data = law_data(w, 24);
    Trainer trainer(w, mesh, backend_named("reference"), *device, ledger);
    trainer.perturb(0.2, 3);
    const auto loss = [&](std::int32_t at_end, std::int32_t added) {
      return trainer.evaluate(WithSources(*data, at_end, added)).quality;
    };
    EXPECT_EQ(loss(-1, 0), loss(-7, 0));  // still padding
    EXPECT_NE(loss(-1, 0), loss(5, 0));   // words now
    EXPECT_NE(loss(-1, 0), loss(-1, 1));
  });
}

// The same words with any room behind them.
class FixedWords : public Dataset {
 public:
  explicit FixedWords(Fields fields) : fields_(std::move(fields)) {}
  Fields fields() const override { return fields_; }
  std::int64_t size() const override { return 6; }
  std::int64_t vocabulary() const override { return 13; }
  double units() const override { return 48; }
  std::string unit() const override { return "token"; }
  std::int64_t labels() const override { return 48; }
  void read(std::int64_t, std::int64_t index, const Row& row) const override {
    const auto fill = [&](const char* field, std::int64_t words, std::int64_t stride) {
      const auto ids = row.integers(field);
      for (std::int64_t t = 0; t < static_cast<std::int64_t>(ids.size()); ++t)
        ids[static_cast<std::size_t>(t)] = t < words ? static_cast<std::int32_t>((index * 7 + t * stride) % 13) : -1;
    };
    fill("source", 1 + index, 5), fill("ids", 8, 3), fill("labels", 8, 4);
  }
  void scan() const override {}
  Json description() const override { return Json::object(); }

 private:
  Fields fields_;
};

TEST(Sources, MayHaveAnyRoomBehindThem) {
  const auto quality = [](std::int64_t room) {
    double seen = 0;
    run_threads({}, [&](std::unique_ptr<Communicator> world) {
      Workload w = toy::translation({{"dropout", 0}, {"source_tokens", room}});
      w.strategy = Json::object();
      const Mesh mesh(std::move(world), {});
      const auto device = make_host_device();
      Ledger ledger;
      Trainer trainer(w, mesh, backend_named("reference"), *device, ledger);
      trainer.perturb(0.2, 3);
      seen = trainer.evaluate(FixedWords(describe_model(w.model, 13)->fields())).quality;
    });
    return seen;
  };
  EXPECT_NEAR(quality(6), quality(11), 1e-13);
}

// Loss of the first batch after adding `change` to one element, from perturbed weights.
void gradients_equal_finite_differences(const Changes& model) {
  run_threads({}, [&](std::unique_ptr<Communicator> world) {
    Workload w = toy::translation(model, {{"rate", parse_json(R"({"peak": 1e-300})", "t")}, {"clip_norm", 0}});
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
      const auto count = static_cast<std::int64_t>(gradient.size());
      for (const std::int64_t i : {std::int64_t{0}, count / 3, count - 1}) {
        constexpr double kStep = 1e-6;  // a ReLU has corners: few lie so near
        const double measured = (loss(name, i, kStep) - loss(name, i, -kStep)) / (2 * kStep);
        EXPECT_NEAR(gradient[static_cast<std::size_t>(i)], measured, 1e-6 * std::max(1.0, largest))
            << name << "[" << i << "]";
      }
    }
  });
}

TEST(SerialTranslation, GradientsEqualFiniteDifferences) { gradients_equal_finite_differences({}); }
TEST(SerialTranslation, GradientsOfTheOtherFormEqualFiniteDifferences) { gradients_equal_finite_differences(other()); }
TEST(SerialTranslation, GradientsOfGeluEqualFiniteDifferences) {
  gradients_equal_finite_differences({{"activation", "gelu"}, {"decoder_layers", 1}});
}

std::int64_t parameters_of(const char* model) {
  const auto description = describe_model(parse_json(model, "t"), 2);
  std::int64_t count = 0;
  run_threads({}, [&](std::unique_ptr<Communicator> world) {
    const Mesh mesh(std::move(world), {});
    const Plan plan(Json::object(), mesh);
    Parameters parameters(plan);
    description->build(parameters, 0);
    count = parameters.count();
  });
  return count;
}

// Vaswani et al. 2017, table 3, in the form of MLPerf's reference: 6 + 6 layers, one table of 33,708 words for both
// languages and the head. A layer's attention has 4 h² weights, its MLP 2 h f weights and f + h biases, and each
// sublayer a norm of 2 h; a norm ends each stack.
constexpr const char* kBig = R"({"kind": "translation", "encoder_layers": 6, "embed": 1024, "heads": 16, "mlp": 4096,
                                 "source_tokens": 256, "tokens": 256, "vocabulary": 33708})";

TEST(TranslationSizes, ParametersOfTheBigTransformer) {
  const std::int64_t h = 1024, f = 4096, attention = 4 * h * h, mlp = 2 * h * f + f + h, norm = 2 * h;
  const std::int64_t encoder = 6 * (attention + mlp + 2 * norm), decoder = 6 * (2 * attention + mlp + 3 * norm);
  EXPECT_EQ(parameters_of(kBig), 33708 * h + encoder + decoder + 2 * norm);
  EXPECT_EQ(parameters_of(kBig), 210'804'736);
}

TEST(TranslationSizes, WorkOfTheBigTransformer) {
  const auto big = describe_model(parse_json(kBig, "t"), 2);
  EXPECT_EQ(big->forward_flops(1, false), 40'265'318'400.0 + 54'760'833'024.0 + 17'672'699'904.0);
  EXPECT_EQ(big->forward_flops(3, false) - big->forward_flops(3, true), 3 * 6 * 2.0 * 256 * 256 * 1024);
  EXPECT_EQ(big->row_work().count, 1);
  EXPECT_EQ(big->tokens(), 256);
}

TEST(TranslationSizes, RefuseWhatContradicts) {
  const auto refuses = [](const Changes& changes, const std::vector<std::string>& words) {
    says(message_of([&] { describe_model(toy::translation(changes).model, 13); }), words);
  };
  refuses({{"heads", 3}}, {"model.heads 3", "model.embed 8"});
  refuses({{"attention_dropout", 1}}, {"model.attention_dropout is 1"});
  refuses({{"vocabulary", 12}}, {"model.vocabulary is 12", "ids up to 12"});
  refuses({{"source_tokens", 0}}, {"model.source_tokens is 0"});
  refuses({{"activation", "tanh"}}, {"activation", "relu"});
}

// Glorot's deviation of each projection by itself, and rows of the table that become of unit size.
TEST(SerialTranslation, StartsAsItsPapersSay) {
  run_threads({}, [&](std::unique_ptr<Communicator> world) {
    Workload w = toy::translation({{"embed", 64}, {"mlp", 256}, {"vocabulary", 211}});
    w.strategy = Json::object();
    const Mesh mesh(std::move(world), {});
    const auto device = make_host_device();
    Ledger ledger;
    Trainer trainer(w, mesh, backend_named("reference"), *device, ledger);
    const auto variance = [&](const char* name) {
      const auto values = trainer.whole_value(name);
      double squares = 0;
      for (const double x : values) squares += x * x / static_cast<double>(values.size());
      return squares;
    };
    const std::pair<const char*, double> wanted[] = {
        {"encoder.embed.table", 1.0 / 64},      {"encoder.0.attention.qkv.weight", 1.0 / 64},
        {"decoder.1.cross.q.weight", 1.0 / 64}, {"decoder.1.cross.kv.weight", 1.0 / 64},
        {"decoder.0.mlp.up.weight", 2.0 / 320}, {"encoder.1.mlp.down.weight", 2.0 / 320}};
    for (const auto& [name, v] : wanted) EXPECT_NEAR(variance(name), v, 0.1 * v) << name;
  });
}

}  // namespace
}  // namespace quadrille
