// SPDX-License-Identifier: Apache-2.0
#include "tests/training/toy.h"

#include <mutex>

#include "core/error.h"
#include "parallelism/world.h"

namespace quadrille::toy {

namespace {

using Changes = std::vector<std::pair<std::string, Json>>;

Workload of_model(const char* text, std::int64_t vocabulary, const Changes& model, const Changes& training) {
  Workload w;
  w.model = parse_json(text, "toy model");
  for (const auto& [key, value] : model) w.model.set(key, value);
  Json t = parse_json(R"({"batch_size": 8, "steps": 20, "clip_norm": 0.5, "label_smoothing": 0.1, "dtype": "f64",
                          "optimizer": {"kind": "sgd", "momentum": 0.9}, "rate": {"peak": 0.1}})",
                      "toy training");
  for (const auto& [key, value] : training) t.set(key, value);
  Json resolved;
  w.training = read_training(t, resolved);
  w.seed = 7;
  w.vocabulary = vocabulary;
  return w;
}

}  // namespace

Workload workload(const Changes& model, const Changes& training) {
  return of_model(
      R"({"kind": "gpt", "layers": 2, "embed": 8, "heads": 4, "mlp": 32, "tokens": 8, "vocabulary": 13, "dropout": 0.1})",
      13, model, training);
}

Workload images(const Changes& model, const Changes& training) {
  return of_model(
      R"({"kind": "resnet", "blocks": [1, 1], "block": "bottleneck", "base": 4, "height": 17, "width": 12, "classes": 5})",
      5, model, training);
}

Workload masked_words(const Changes& model, const Changes& training) {
  return of_model(
      R"({"kind": "bert", "layers": 2, "embed": 8, "heads": 4, "mlp": 32, "tokens": 8, "masked": 3, "vocabulary": 13,
          "dropout": 0.1})",
      13, model, training);
}

Workload translation(const Changes& model, const Changes& training) {
  return of_model(
      R"({"kind": "translation", "encoder_layers": 2, "embed": 8, "heads": 4, "mlp": 32, "source_tokens": 16,
          "tokens": 8, "vocabulary": 13, "dropout": 0.1})",
      13, model, training);
}

Outcome train_rank(std::unique_ptr<Communicator> world, const Workload& w, const Backend& backend, int steps,
                   const Hooks& hooks) {
  const std::unique_ptr<Dataset> data = law_data(w, 24), held_out = law_data(w, 11);
  const int rank = world->rank(), ranks = world->size();
  if (backend.use_threads) backend.use_threads(1);
  const RankDevice device(backend, *world, hooks.devices);
  world = device.world(std::move(world));
  if (hooks.world) world = hooks.world(std::move(world));
  Ledger ledger;
  const StrategyMesh crew(std::move(world), w.strategy, ledger);
  const Mesh& mesh = crew.mesh();
  Trainer trainer(w, mesh, backend, device.device(), ledger);
  Outcome outcome;
  train_from_perturbed(trainer, *data, steps, outcome);
  if (hooks.after_steps) hooks.after_steps(trainer, rank);
  outcome.hash = trainer.replica_hash();
  outcome.work = ledger.work();
  outcome.messages = ledger.messages();
  const EvaluationReport report = trainer.evaluate(*held_out);
  outcome.evaluation = report.quality;
  if (w.training.dtype == DType::f64) outcome.correct = report.correct;
  read_tensors(trainer, outcome);
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

std::string difference(const Outcome& serial, const Outcome& layout, const Bounds& bounds) {
  std::string text;
  for (const Distance& d : distances(serial, layout, bounds))
    if (!d.within()) text += "  " + d.text() + "\n";
  return text;
}

}  // namespace quadrille::toy
