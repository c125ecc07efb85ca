// SPDX-License-Identifier: Apache-2.0
// Optimizers: several steps of the toy model, each number held to the published formulas written down here once more,
// in f64 and by parameter: which parameters decay and adapt, what a norm is taken of, what the number of a step does.
// Then the law for those that need norms of whole parameters, and what their state weighs.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "kernels/backend.h"
#include "parallelism/world.h"
#include "tests/training/counted.h"
#include "tests/training/layouts.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

using Vector = std::vector<double>;

double norm(const Vector& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  return std::sqrt(squares);
}

// One parameter's step: value and state change, given the gradient of the mean loss (clipped).
struct Memory {
  Vector first, second;
};
struct Formula {
  const char* name;
  std::string optimizer;  // the keys of training.optimizer
  std::function<void(Vector& value, const Vector& gradient, Memory&, double rate, int step, bool adapts)> apply;
};

constexpr double kDecay = 0.1;

void lamb(Vector& value, const Vector& gradient, Memory& memory, double rate, int step, bool adapts, bool corrected) {
  const double beta1 = 0.8, beta2 = 0.9, epsilon = 1e-6;
  Vector update(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    memory.first[i] += (1 - beta1) * (gradient[i] - memory.first[i]);
    memory.second[i] += (1 - beta2) * (gradient[i] * gradient[i] - memory.second[i]);
    double m = memory.first[i], v = memory.second[i];
    if (corrected) m /= 1 - std::pow(beta1, step), v /= 1 - std::pow(beta2, step);
    update[i] = m / (std::sqrt(v) + epsilon) + (adapts ? kDecay : 0) * value[i];
  }
  const double ratio = adapts ? norm(value) / norm(update) : 1;
  for (std::size_t i = 0; i < value.size(); ++i) value[i] -= rate * ratio * update[i];
}

void lars(Vector& value, const Vector& gradient, Memory& memory, double rate, bool adapts, bool nesterov, bool scaled) {
  const double momentum = 0.9, trust = 0.02, epsilon = 1e-3, decay = adapts ? kDecay : 0;
  if (adapts) rate *= trust * norm(value) / (norm(gradient) + decay * norm(value) + epsilon);
  for (std::size_t i = 0; i < value.size(); ++i) {
    double moved = gradient[i] + decay * value[i];
    if (!scaled) moved *= rate;
    memory.first[i] = momentum * memory.first[i] + moved;
    const double change = nesterov ? moved + momentum * memory.first[i] : memory.first[i];
    value[i] -= scaled ? rate * change : change;
  }
}

void adam(Vector& value, const Vector& gradient, Memory& memory, double rate, int step, bool decays, bool decoupled) {
  const double beta1 = 0.8, beta2 = 0.9, epsilon = 1e-6, decay = decays ? kDecay : 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const double g = gradient[i] + (decoupled ? 0 : decay * value[i]), before = value[i];
    memory.first[i] += (1 - beta1) * (g - memory.first[i]);
    memory.second[i] += (1 - beta2) * (g * g - memory.second[i]);
    value[i] -= rate * (memory.first[i] / (1 - std::pow(beta1, step))) /
                (std::sqrt(memory.second[i] / (1 - std::pow(beta2, step))) + epsilon);
    if (decoupled) value[i] -= rate * decay * before;
  }
}

std::vector<Formula> formulas() {
  std::vector<Formula> all;
  const std::string moments = R"("beta1": 0.8, "beta2": 0.9, "epsilon": 1e-6, "weight_decay": 0.1)";
  const std::string momentum = R"("momentum": 0.9, "trust_coefficient": 0.02, "epsilon": 1e-3, "weight_decay": 0.1)";
  for (const bool decoupled : {false, true})
    all.push_back({decoupled ? "adamw" : "adam",
                   fmt::format(R"({{"kind": "{}", {}}})", decoupled ? "adamw" : "adam", moments),
                   [decoupled](Vector& w, const Vector& g, Memory& m, double rate, int step, bool adapts) {
                     adam(w, g, m, rate, step, adapts, decoupled);
                   }});
  for (const bool corrected : {true, false})
    all.push_back({corrected ? "lamb" : "lamb_not_corrected",
                   fmt::format(R"({{"kind": "lamb", "bias_correction": {}, {}}})", corrected, moments),
                   [corrected](Vector& w, const Vector& g, Memory& m, double rate, int step, bool adapts) {
                     lamb(w, g, m, rate, step, adapts, corrected);
                   }});
  for (const bool scaled : {false, true})
    for (const bool nesterov : {false, true})
      all.push_back(
          {scaled     ? nesterov ? "lars_scaled_nesterov" : "lars_scaled"
           : nesterov ? "lars_nesterov"
                      : "lars",
           fmt::format(R"({{"kind": "lars", "scaled_momentum": {}, "nesterov": {}, {}}})", scaled, nesterov, momentum),
           [=](Vector& w, const Vector& g, Memory& m, double rate, int, bool adapts) {
             lars(w, g, m, rate, adapts, nesterov, scaled);
           }});
  return all;
}

Workload workload(const std::string& optimizer, const char* dtype = "f64") {
  // The rate warms up: a velocity that holds past rates differs from one that does not.
  Workload w = toy::workload({}, {{"optimizer", parse_json(optimizer, "t")},
                                  {"dtype", dtype},
                                  {"rate", parse_json(R"({"peak": 0.02, "warmup_steps": 3})", "t")}});
  w.strategy = Json::object();
  return w;
}

// Matrices and word tables; biases, gains and positions neither decay nor adapt.
bool adapts(const std::string& parameter) {
  return parameter == "table" || parameter.find(".weight") != std::string::npos;
}

class OptimizerFormula : public ::testing::TestWithParam<Formula> {};

TEST_P(OptimizerFormula, HoldsOverSeveralSteps) {
  run_threads({}, [&](std::unique_ptr<Communicator> world) {
    const Mesh mesh(std::move(world), {});
    const Workload w = workload(GetParam().optimizer);
    const toy::AddressedText data(24, 8, 13);
    Ledger ledger;
    const std::unique_ptr<Device> device = make_host_device();
    Trainer trainer(w, mesh, backend_named("reference"), *device, ledger);
    trainer.perturb(0.2, 3);
    std::map<std::string, Vector> wanted;
    std::map<std::string, Memory> memory;
    for (const std::string& name : trainer.parameter_names()) {
      wanted[name] = trainer.whole_value(name);
      memory[name] = {Vector(wanted[name].size()), Vector(wanted[name].size())};
    }
    int excluded = 0;
    for (int step = 1; step <= 5; ++step) {
      trainer.step(data, step - 1);
      const StepReport report = *trainer.flush();
      const double factor = std::min(1.0, w.training.clip_norm / report.gradient_norm) / report.labels;
      for (auto& [name, value] : wanted) {
        Vector gradient = trainer.whole_gradient(name);
        for (double& g : gradient) g *= factor;
        GetParam().apply(value, gradient, memory[name], 0.02 * std::min(1.0, step / 3.0), step, adapts(name));
        const Vector found = trainer.whole_value(name);
        const double scale = norm(value) / std::sqrt(static_cast<double>(value.size()));
        for (std::size_t i = 0; i < value.size(); ++i)
          ASSERT_NEAR(found[i], value[i], 1e-12 * scale) << name << "[" << i << "] after step " << step;
        value = found;  // rounding does not add up
        if (!adapts(name)) ++excluded;
      }
    }
    EXPECT_GT(excluded, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, OptimizerFormula, ::testing::ValuesIn(formulas()),
                         [](const auto& info) { return std::string(info.param.name); });

// Neither values nor what the optimizer remembers: the step after it is that of a run which never had it.
TEST(Optimizers, AStepThatIsNotFiniteChangesNothing) {
  const char* gain = "head.norm.gain";
  constexpr double kFar = 1e300;  // the loss is finite, the squares of gradients are not
  for (const Formula& f : formulas()) {
    run_threads({}, [&](std::unique_ptr<Communicator> world) {
      const Mesh mesh(std::move(world), {});
      const toy::AddressedText data(24, 8, 13);
      Ledger one, other;
      const Workload w = workload(f.optimizer);
      const std::unique_ptr<Device> device = make_host_device();
      const Backend& backend = backend_named("reference");
      Trainer struck(w, mesh, backend, *device, one), spared(w, mesh, backend, *device, other);
      for (Trainer* t : {&struck, &spared}) {
        t->perturb(0.2, 3);
        t->step(data, 0);
        EXPECT_TRUE(t->flush()->finite);
        t->shift(gain, 0, kFar);
      }
      const std::uint64_t before = struck.replica_hash();
      struck.step(data, 1);
      EXPECT_FALSE(struck.flush()->finite) << f.name;
      EXPECT_EQ(struck.replica_hash(), before) << f.name;
      for (Trainer* t : {&struck, &spared}) {
        t->shift(gain, 0, -kFar);
        t->step(data, 2);
        EXPECT_TRUE(t->flush()->finite);
      }
      EXPECT_EQ(struck.replica_hash(), spared.replica_hash()) << f.name;
    });
  }
}

// The law: any part of a parameter may lie on any rank. With an epsilon in LARS's ratio, because sums that are all
// twice what they should be would leave a ratio of norms as it is.
constexpr const char* kLars =
    R"({"kind": "lars", "weight_decay": 0.1, "trust_coefficient": 0.1, "momentum": 0.9, "epsilon": 0.05})";
constexpr const char* kLamb = R"({"kind": "lamb", "weight_decay": 0.1, "epsilon": 1e-4})";

class LawOfNorms : public ::testing::TestWithParam<toy::Layout> {
 protected:
  static std::string differs(const char* optimizer, const char* dtype, int steps, const toy::Bounds& bounds,
                             const std::string& backend) {
    const Workload w = toy::workload(
        {},
        {{"optimizer", parse_json(optimizer, "t")}, {"dtype", dtype}, {"rate", parse_json(R"({"peak": 0.05})", "t")}});
    return toy::difference(toy::train(w, toy::kSerial, 1, steps, backend),
                           toy::train(w, GetParam().table, GetParam().ranks, steps, backend), bounds);
  }
};

TEST_P(LawOfNorms, OneStepInF64) {
  for (const char* optimizer : {kLars, kLamb}) EXPECT_EQ(differs(optimizer, "f64", 1, toy::kF64, "reference"), "");
}

TEST_P(LawOfNorms, FiveStepsInF32) {
  for (const Backend& backend : backends()) {
    if (!backend.absent_because.empty() || backend.name == "counting") continue;
    for (const char* optimizer : {kLars, kLamb})
      EXPECT_EQ(differs(optimizer, "f32", 5, toy::kF32, std::string(backend.name)), "") << optimizer;
  }
}

TEST_P(LawOfNorms, MemoryIsWhatTheForecastSays) {
  for (const char* optimizer : {kLars, kLamb}) {
    const auto run = toy::train(toy::workload({}, {{"optimizer", parse_json(optimizer, "t")}}), GetParam().table,
                                GetParam().ranks, 2);
    EXPECT_EQ(run.memory.optimizer, run.forecast.optimizer);
    EXPECT_EQ(run.memory.activations, run.forecast.activations);
  }
}

const auto kName = [](const auto& info) { return info.param.name; };
std::vector<toy::Layout> named(const std::vector<toy::Layout>& among, const std::vector<std::string>& names) {
  std::vector<toy::Layout> found;
  for (const std::string& name : names)
    for (const toy::Layout& layout : among)
      if (layout.name == name) found.push_back(layout);
  EXPECT_EQ(found.size(), names.size());
  return found;
}
INSTANTIATE_TEST_SUITE_P(Layouts, LawOfNorms,
                         ::testing::ValuesIn(named(toy::kLayouts, {"data2", "tensor2", "data2_tensor2", "embed2",
                                                                   "vocab_only3", "data2_y2_x2", "tensor2_sequence"})),
                         kName);
INSTANTIATE_TEST_SUITE_P(Stores, LawOfNorms, ::testing::ValuesIn(toy::kStores), kName);
INSTANTIATE_TEST_SUITE_P(Pipelines, LawOfNorms,
                         ::testing::ValuesIn(named(toy::kPipelines,
                                                   {"pipe2", "pipe4_with_empty_stages", "pipe2_data2", "pipe2_zero3",
                                                    "pipe2_tensor2_sequence", "pipe2_depth2_x2"})),
                         kName);

// Mixed precision: LAMB's first step is nearly of one size whatever the gradient, so only a small one stays near.
TEST(Optimizers, InBf16TheyStayNearTheExactRun) {
  for (const char* optimizer : {kLars, kLamb}) {
    const auto run = [&](const char* dtype) {
      const Workload w = toy::workload({}, {{"optimizer", parse_json(optimizer, "t")},
                                            {"dtype", dtype},
                                            {"rate", parse_json(R"({"peak": 0.02})", "t")}});
      return toy::train(w, "{}", 1, 1);
    };
    EXPECT_EQ(toy::difference(run("f64"), run("bf16"), toy::kBf16), "") << optimizer;
  }
}

TEST(Optimizers, StateIsParametersTimesBytesAndTheNorms) {
  const toy::Gpt gpt;
  struct Kind {
    const char* training;
    double states;
    bool norms;
  };
  const Kind kinds[] = {{R"({"optimizer": {"kind": "adam"}})", 2, false},
                        {R"({"optimizer": {"kind": "adamw"}})", 2, false},
                        {R"({"optimizer": {"kind": "lamb"}})", 2, true},
                        {R"({"optimizer": {"kind": "lars"}})", 1, true},
                        {R"({"optimizer": {"kind": "sgd"}})", 0, false}};
  const double named = 2.0 + 12 * static_cast<double>(gpt.layers) + 2;  // table, positions; of a layer; last norm
  for (const Kind& kind : kinds)
    for (const int ranks : {1, 4}) {
      const Forecast f = toy::counted(
          gpt.workload(R"({"mesh": [["data", "*"]], "axes": {"batch": "data"}})", parse_json(kind.training, "t")),
          ranks, 0);
      EXPECT_EQ(static_cast<double>(f.memory.optimizer),
                4 * kind.states * gpt.parameters(1) + (kind.norms ? 16 * named : 0))
          << kind.training;
    }
}

// One message of two numbers a parameter more than AdamW's, over all ranks.
TEST(Optimizers, NormsAreOneMessage) {
  const toy::Gpt gpt;
  const auto over_data = [&](const char* kind) {
    return toy::over(
        toy::counted(gpt.workload(R"({"mesh": [["data", "*"]], "axes": {"batch": "data"}})",
                                  parse_json(fmt::format(R"({{"optimizer": {{"kind": "{}"}}}})", kind), "t")),
                     4, 1),
        "data");
  };
  const Traffic adamw = over_data("adamw");
  const double named = 2.0 + 12 * static_cast<double>(gpt.layers) + 2;
  for (const char* kind : {"lars", "lamb"}) {
    EXPECT_EQ(over_data(kind).calls, adamw.calls + 1);
    EXPECT_DOUBLE_EQ(over_data(kind).elements, adamw.elements + toy::ring(4, 2 * named));
  }
}

}  // namespace
}  // namespace quadrille
