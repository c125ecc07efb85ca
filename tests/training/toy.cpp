// SPDX-License-Identifier: Apache-2.0
#include "tests/training/toy.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include <fmt/core.h>

#include "core/error.h"
#include "parallelism/world.h"

namespace quadrille::toy {

namespace {
constexpr Key kWords = 0x51f1, kMasks = 0x7a21;
bool kept(std::int64_t index, std::int64_t t) {
  return static_cast<std::int64_t>(
             bits_at(key_of(kMasks, static_cast<std::uint64_t>(index)), static_cast<std::uint64_t>(t)) % 8) <=
         index % 8;
}
}  // namespace

std::int64_t AddressedText::labels() const {
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < windows_; ++i)
    for (std::int64_t t = 0; t < tokens_; ++t) n += kept(i, t);
  return n;
}

void AddressedText::read(std::int64_t, std::int64_t index, std::span<std::int32_t> ids,
                         std::span<std::int32_t> labels) const {
  const auto word = [&](std::int64_t t) {
    return static_cast<std::int32_t>(
        bits_at(key_of(kWords, static_cast<std::uint64_t>(index)), static_cast<std::uint64_t>(t)) %
        static_cast<std::uint64_t>(vocabulary_));
  };
  for (std::int64_t t = 0; t < tokens_; ++t) {
    ids[static_cast<std::size_t>(t)] = word(t);
    labels[static_cast<std::size_t>(t)] = kept(index, t) ? word(t + 1) : -1;
  }
}

Workload workload(const std::vector<std::pair<std::string, Json>>& model,
                  const std::vector<std::pair<std::string, Json>>& training) {
  Workload w;
  w.model = parse_json(
      R"({"kind": "gpt", "layers": 2, "embed": 8, "heads": 4, "mlp": 32, "tokens": 8, "vocabulary": 13, "dropout": 0.1})",
      "toy model");
  for (const auto& [key, value] : model) w.model.set(key, value);
  Json t = parse_json(R"({"batch_size": 8, "steps": 20, "clip_norm": 0.5, "label_smoothing": 0.1, "dtype": "f64",
                          "optimizer": {"kind": "sgd", "momentum": 0.9}, "rate": {"peak": 0.1}})",
                      "toy training");
  for (const auto& [key, value] : training) t.set(key, value);
  Json resolved;
  w.training = read_training(t, resolved);
  w.seed = 7;
  w.vocabulary = 13;
  return w;
}

Outcome train_rank(std::unique_ptr<Communicator> world, const Workload& w, const Backend& backend, int steps,
                   const Hooks& hooks) {
  const std::int64_t tokens = w.model.at("tokens").integer();
  const AddressedText data(24, tokens, w.vocabulary), held_out(11, tokens, w.vocabulary);
  const int rank = world->rank(), ranks = world->size();
  if (backend.use_threads) backend.use_threads(1);
  if (hooks.world) world = hooks.world(std::move(world));
  const Mesh mesh(std::move(world), mesh_of(w.strategy, ranks));
  Ledger ledger;
  mesh.report_to(&ledger);
  Trainer trainer(w, mesh, backend, ledger);
  trainer.perturb(0.2, 3);
  Outcome outcome;
  const auto note = [&](const std::optional<StepReport>& report) {
    if (report) outcome.losses.push_back(report->loss), outcome.norms.push_back(report->gradient_norm);
  };
  for (int k = 0; k < steps; ++k) note(trainer.step(data, k));
  note(trainer.flush());
  if (hooks.after_steps) hooks.after_steps(trainer, rank);
  outcome.hash = trainer.replica_hash();
  outcome.work = ledger.work();
  outcome.messages = ledger.messages();
  outcome.evaluation = trainer.evaluate(held_out).quality;
  for (const auto& name : trainer.parameter_names()) {
    outcome.gradients[name] = trainer.whole_gradient(name);
    outcome.values[name] = trainer.whole_value(name);
  }
  outcome.model_flops_full = trainer.model_flops_full() * steps;
  outcome.memory = trainer.memory();
  outcome.forecast = forecast(w, backend, ranks, rank).memory;
  return outcome;
}

Outcome train(Workload w, const std::string& strategy, int ranks, int steps, const std::string& backend_name,
              const Hooks& hooks) {
  Backend backend = backend_named(backend_name);
  if (hooks.ops) backend.ops = hooks.ops;
  w.strategy = parse_json(strategy, "strategy");
  check_workload(w, ranks);
  Outcome outcome;
  Work work;
  std::mutex mutex;
  WorldOptions options;
  options.ranks = ranks;
  run_threads(options, [&](std::unique_ptr<Communicator> world) {
    const int rank = world->rank();
    Outcome mine = train_rank(std::move(world), w, backend, steps, hooks);
    const std::lock_guard lock(mutex);
    work += mine.work;
    if (rank == 0) outcome = std::move(mine);
  });
  outcome.work = work;
  return outcome;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  require(a.size() == b.size(), "tensors of {} and {} numbers", a.size(), b.size());
  double largest = 1e-30, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i]));
    difference = std::max(difference, std::isfinite(b[i]) ? std::abs(a[i] - b[i]) : INFINITY);
  }
  return difference / largest;
}

std::string difference(const Outcome& serial, const Outcome& layout, const Bounds& bounds) {
  std::string text;
  const auto check = [&](const std::string& what, double found, double bound) {
    if (!(found <= bound)) text += fmt::format("  {} differs by {:.2e}, bound {:.0e}\n", what, found, bound);
  };
  for (std::size_t k = 0; k < serial.losses.size(); ++k) {
    check(fmt::format("loss of step {}", k + 1),
          std::abs(serial.losses[k] - layout.losses.at(k)) / std::abs(serial.losses[k]), bounds.loss);
    check(fmt::format("norm of step {}", k + 1), std::abs(serial.norms[k] - layout.norms.at(k)) / serial.norms[k],
          bounds.norm);
  }
  check("evaluation", std::abs(serial.evaluation - layout.evaluation) / serial.evaluation, bounds.loss);
  for (const auto& [name, g] : serial.gradients)
    check("gradient of " + name, distance(g, layout.gradients.at(name)), bounds.tensor);
  for (const auto& [name, v] : serial.values)
    check("value of " + name, distance(v, layout.values.at(name)), bounds.tensor);
  return text;
}

}  // namespace quadrille::toy
