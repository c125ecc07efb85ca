// SPDX-License-Identifier: Apache-2.0
// See log_configuration.h.
#include "benchmarks/harness/log_configuration.h"

#include <algorithm>

#include "benchmarks/harness/environment.h"
#include "datasets/sha256.h"

namespace quadrille {

namespace {

// Extents of the mesh axes that split a layer's own work, each counted once.
std::int64_t tensor_extent(const Json& strategy, const std::vector<MeshAxis>& mesh) {
  std::int64_t extent = 1;
  for (const MeshAxis& along : mesh) {
    for (const char* axis : {"embed", "heads", "mlp", "vocab"}) {
      const auto on = mesh_axes_of(strategy, axis);
      if (std::find(on.begin(), on.end(), along.name) == on.end()) continue;
      extent *= along.extent;
      break;
    }
  }
  return extent;
}

void add_optimizer(Json& values, const TrainingConfig& training) {
  const OptimizerConfig& optimizer = training.optimizer;
  const RateConfig& rate = training.rate;
  const std::int64_t end = rate.steps > 0 ? rate.steps : training.steps;
  values.set("steps", training.steps);
  values.set("optimizer", optimizer.kind);
  values.set("optimizer_family", optimizer.kind == "adamw" ? "adam" : optimizer.kind);
  values.set("peak_rate", rate.peak);
  values.set("final_rate", rate.schedule == "constant" ? rate.peak : rate.final_rate);
  values.set("warmup_steps", rate.warmup_steps);
  values.set("schedule_steps", end);
  values.set("decay_steps", std::max<std::int64_t>(0, end - rate.warmup_steps));
  values.set("schedule", rate.schedule + " with linear warmup");
  values.set("beta_1", optimizer.beta1);
  values.set("beta_2", optimizer.beta2);
  values.set("epsilon", optimizer.epsilon);
  values.set("momentum", optimizer.momentum);
  values.set("weight_decay", optimizer.weight_decay);
  if (training.clip_norm > 0) values.set("clip_norm", training.clip_norm);
}

// As checkers spell them.
std::string number_format(const std::string& named) {
  return named == "f64" ? "fp64" : named == "f32" ? "fp32" : named == "bf16" ? "bfloat16" : named;
}

void add_parallelism(Json& values, const Experiment& experiment) {
  const Json& strategy = experiment.workload.strategy;
  const std::vector<MeshAxis> mesh = mesh_of(strategy, experiment.ranks);
  const TrainingConfig& training = experiment.workload.training;
  const std::int64_t rows = training.batch_size / extent_of(strategy, "batch", mesh);
  const std::int64_t micro_batch = training.micro_batch > 0 ? training.micro_batch : rows;
  std::int64_t pipeline = 1;
  for (const MeshAxis& along : mesh)
    if (along.name == pipeline_axis_of(strategy)) pipeline = along.extent;
  values.set("accumulation", std::max<std::int64_t>(1, rows / std::max<std::int64_t>(1, micro_batch)));
  values.set("micro_batch", micro_batch);
  values.set("tensor", tensor_extent(strategy, mesh));
  values.set("pipeline", pipeline);
  values.set("context", extent_of(strategy, "sequence", mesh));
  values.set("expert", 1);
  for (const char* where : {"precision_linear", "precision_attention", "precision_messages"})
    values.set(where, number_format(training.precision()));
}

void add_aim(Json& values, const Experiment& experiment) {
  Json target;
  if (experiment.run.target) {
    target = Json::object();
    target.set("metric", experiment.run.target->metric);
    target.set("value", experiment.run.target->value);
    target.set("direction", experiment.run.target->direction);
    target.set("unit", experiment.data.evaluate ? experiment.data.evaluate->unit() : "token");
  }
  values.set("target", target);
  values.set("configuration_digest", configuration_digest(experiment.resolved, experiment.backend, experiment.ranks));
}

}  // namespace

std::string configuration_digest(const Json& resolved, std::string_view backend, int ranks) {
  Json document = Json::object();
  for (const auto& [key, value] : resolved.members())
    if (key != "description" && key != "sources" && key != "fetch") document.set(key, value);
  if (Json* run = document.find("run"); run && run->is_object())
    for (const char* key : {"seed", "runs"}) run->erase(key);
  document.set("backend", backend);
  document.set("ranks", ranks);
  return sha256_of(document.text());
}

std::string benchmark_name(const Experiment& experiment) {
  return experiment.run.ruleset.empty() ? experiment.suite : experiment.run.published;
}

Json configuration_values(const Experiment& experiment, std::int64_t seed, bool timed_claims) {
  Json values = Json::object();
  values.set("benchmark", benchmark_name(experiment));
  values.set("organisation", "none, not a submission");
  values.set("platform", cpu_model());
  // Closed: everything as the published benchmark has it. A changed suite is not that, and ours never are.
  const bool closed = !experiment.run.ruleset.empty() && experiment.changes.empty();
  values.set("division", closed ? "closed" : "open");
  values.set("status", "research");
  values.set("cache_clear", false);  // page caches are the system's; the data is scanned within the timed interval
  values.set("seed", seed);
  values.set("config_filename", experiment.suite + ".json");
  values.set("batch_size", experiment.workload.training.batch_size);
  values.set("tokens", experiment.tokens);
  values.set("checkpoint_step", 0);  // training begins with random weights
  add_optimizer(values, experiment.workload.training);
  add_parallelism(values, experiment);
  add_aim(values, experiment);
  values.set("timed_claims", timed_claims);
  return values;
}

RunLog::Units log_units(const Experiment& experiment) {
  const RunConfig& run = experiment.run;
  const TrainingConfig& training = experiment.workload.training;
  const std::int64_t steps = run.evaluate_every > 0 ? run.evaluate_every : training.steps;
  return {experiment.data.train ? experiment.data.train->size() : 0,
          experiment.data.evaluate ? experiment.data.evaluate->size() : 0, experiment.tokens,
          steps * training.batch_size};
}

}  // namespace quadrille
