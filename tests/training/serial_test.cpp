// SPDX-License-Identifier: Apache-2.0
// The run that all layouts are compared with must itself be right: gradients against finite differences of the loss,
// and what a step means (accumulation, clipping, learning rate, repeatability).
#include <gtest/gtest.h>

#include <cmath>

#include "parallelism/world.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

// Loss of the first batch after adding `change` to one element of a parameter, from perturbed weights.
class Probe {
 public:
  Probe(Workload w, const Mesh& mesh) : trainer_(std::move(w), mesh, backend_named("reference"), *device_, ledger_) {
    trainer_.perturb(0.2, 3);
  }
  double loss(const std::string& name, std::int64_t index, double change) {
    trainer_.shift(name, index, change);
    trainer_.step(data_, 0);
    const StepReport r = *trainer_.flush();
    trainer_.shift(name, index, -change);
    return r.loss * r.labels;
  }
  Trainer& trainer() { return trainer_; }

 private:
  std::unique_ptr<Device> device_ = make_host_device();
  Ledger ledger_;
  toy::AddressedText data_{24, 8, 13};
  Trainer trainer_;
};

void gradients_equal_finite_differences(const std::vector<std::pair<std::string, Json>>& model) {
  run_threads({}, [&](std::unique_ptr<Communicator> world) {
    Workload w = toy::workload(
        model, {{"rate", parse_json(R"({"peak": 1e-300})", "t")}, {"clip_norm", 0}});  // weights stay where they are
    w.strategy = Json::object();
    const Mesh mesh(std::move(world), {});
    Probe probe(w, mesh);
    probe.loss("table", 0, 0);
    for (const std::string& name : probe.trainer().parameter_names()) {
      const auto gradient = probe.trainer().whole_gradient(name);
      double largest = 0;
      for (double g : gradient) largest = std::max(largest, std::abs(g));
      ASSERT_GT(largest, 0) << name;
      for (std::int64_t i : {std::int64_t{0}, static_cast<std::int64_t>(gradient.size()) / 2,
                             static_cast<std::int64_t>(gradient.size()) - 1}) {
        constexpr double kStep = 1e-5;
        const double measured = (probe.loss(name, i, kStep) - probe.loss(name, i, -kStep)) / (2 * kStep);
        probe.loss(name, i, 0);
        EXPECT_NEAR(gradient[static_cast<std::size_t>(i)], measured, 1e-7 * std::max(1.0, largest))
            << name << "[" << i << "]";
      }
    }
  });
}

TEST(Serial, GradientsOfTheGpt2FormEqualFiniteDifferences) { gradients_equal_finite_differences({}); }

TEST(Serial, GradientsOfTheLlamaFormEqualFiniteDifferences) {
  gradients_equal_finite_differences({{"positions", "rotary"},
                                      {"norm", "rms"},
                                      {"activation", "gated_silu"},
                                      {"bias", false},
                                      {"kv_heads", 2},
                                      {"tied_head", false},
                                      {"mlp", 24}});
}

TEST(Serial, AccumulationEqualsOneLargeBatch) {
  const auto whole = toy::train(toy::workload(), "{}", 1, 3);
  const auto parts = toy::train(toy::workload({}, {{"micro_batch", 2}}), "{}", 1, 3);
  EXPECT_EQ(toy::difference(whole, parts, toy::kF64), "");
}

TEST(Serial, ClippingBoundsTheUpdate) {
  // Plain SGD moves by rate * clipped gradient: with a tiny clip the norm of the move is rate * clip.
  const auto config = [](double rate, double clip) {
    return toy::workload({}, {{"clip_norm", clip},
                              {"optimizer", parse_json(R"({"kind": "sgd"})", "t")},
                              {"rate", Json(Json::Object{{"peak", Json(rate)}})}});
  };
  const auto still = toy::train(config(1e-300, 0), "{}", 1, 1);
  const auto moved = toy::train(config(0.5, 1e-3), "{}", 1, 1);
  double squares = 0;
  for (const auto& [name, v] : still.values)
    for (std::size_t i = 0; i < v.size(); ++i) squares += std::pow(v[i] - moved.values.at(name)[i], 2);
  EXPECT_NEAR(std::sqrt(squares), 0.5 * 1e-3, 1e-12);
  EXPECT_EQ(still.norms, moved.norms) << "the reported norm is the one before clipping";
}

TEST(Serial, TheSameRunTwiceIsTheSameInEveryBit) {
  const auto w = toy::workload({}, {{"dtype", "f32"}});
  const std::string table =
      R"({"mesh": [["data", 2], ["x", 2]], "axes": {"batch": "data", "heads": "x", "mlp": "x", "vocab": "x"}})";
  const auto first = toy::train(w, table, 4, 5), second = toy::train(w, table, 4, 5);
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.hash, second.hash);
}

TEST(Serial, TheSeedChangesTheRun) {
  Workload other = toy::workload();
  other.seed = 8;
  EXPECT_NE(toy::train(toy::workload(), "{}", 1, 1).losses, toy::train(other, "{}", 1, 1).losses);
}

}  // namespace
}  // namespace quadrille
