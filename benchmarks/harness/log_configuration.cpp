// SPDX-License-Identifier: Apache-2.0
// See log_configuration.h. Two orders matter to checkers: submission_division before init_stop, global_batch_size
// before whatever depends on it.
#include "benchmarks/harness/log_configuration.h"

#include <algorithm>

#include "benchmarks/harness/environment.h"
#include "datasets/sha256.h"

namespace quadrille {

namespace {

// Extents of the mesh axes that split a layer's own work, each counted once.
std::int64_t tensor_extent(const Json& strategy, const std::vector<MeshAxis>& mesh) {
  std::int64_t extent = 1;
  for (const MeshAxis& edge : mesh) {
    for (const char* axis : {"embed", "heads", "mlp", "vocab"}) {
      const auto on = mesh_axes_of(strategy, axis);
      if (std::find(on.begin(), on.end(), edge.name) == on.end()) continue;
      extent *= edge.extent;
      break;
    }
  }
  return extent;
}

void log_options(MlLog& log, const OptimizerConfig& optimizer) {
  if (optimizer.kind == "sgd" || optimizer.kind == "lars") {
    const std::string prefix = optimizer.kind + "_opt_";
    log.point(prefix + "momentum", optimizer.momentum);
    log.point(prefix + "weight_decay", optimizer.weight_decay);
    if (optimizer.kind == "lars") log.point("lars_epsilon", optimizer.epsilon);
    return;
  }
  const std::string prefix = "opt_" + optimizer.kind + "_";
  log.point(prefix + "beta_1", optimizer.beta1);
  log.point(prefix + "beta_2", optimizer.beta2);
  log.point(prefix + "epsilon", optimizer.epsilon);
  if (optimizer.kind == "adamw") log.point("opt_adamw_weight_decay", optimizer.weight_decay);
  if (optimizer.kind == "lamb") log.point("opt_lamb_weight_decay_rate", optimizer.weight_decay);
  if (optimizer.kind == "adam") log.point("opt_weight_decay", optimizer.weight_decay);
}

void log_optimizer(MlLog& log, const TrainingConfig& training) {
  log.point("opt_name", training.optimizer.kind);
  log.point("opt_base_learning_rate", training.rate.peak);
  log.point("opt_end_learning_rate",
            training.rate.schedule == "constant" ? training.rate.peak : training.rate.final_rate);
  log.point("opt_learning_rate_warmup_steps", training.rate.warmup_steps);
  const std::int64_t end = training.rate.steps > 0 ? training.rate.steps : training.steps;
  log.point("opt_learning_rate_decay_steps", std::max<std::int64_t>(0, end - training.rate.warmup_steps));
  log.point("opt_learning_rate_decay_schedule", training.rate.schedule + " with linear warmup");
  log_options(log, training.optimizer);
  if (training.clip_norm > 0) log.point("opt_gradient_clip_norm", training.clip_norm);
}

void log_parallelism(MlLog& log, const Experiment& experiment) {
  const Json& strategy = experiment.workload.strategy;
  const std::vector<MeshAxis> mesh = mesh_of(strategy, experiment.ranks);
  const TrainingConfig& training = experiment.workload.training;
  const std::int64_t rows = training.batch_size / extent_of(strategy, "batch", mesh);
  const std::int64_t micro_batch = training.micro_batch > 0 ? training.micro_batch : rows;
  std::int64_t pipeline = 1;
  for (const MeshAxis& edge : mesh)
    if (edge.name == pipeline_axis_of(strategy)) pipeline = edge.extent;
  log.point("gradient_accumulation_steps", std::max<std::int64_t>(1, rows / std::max<std::int64_t>(1, micro_batch)));
  log.point("micro_batch_size", micro_batch);
  log.point("tensor_parallelism", tensor_extent(strategy, mesh));
  log.point("pipeline_parallelism", pipeline);
  log.point("context_parallelism", extent_of(strategy, "sequence", mesh));
  log.point("expert_parallelism", 1);
  const std::string named = training.precision();
  const std::string precision = named == "f64" ? "fp64" : named == "f32" ? "fp32" : named;
  log.point("lowest_numerical_precision_in_linear", precision);
  log.point("lowest_numerical_precision_in_attn", precision);
  log.point("lowest_numerical_precision_in_comm", precision);
}

// Keys of our own: a score must not mix runs that aimed at different things.
void log_aim(MlLog& log, const Experiment& experiment) {
  Json target;
  if (experiment.run.target) {
    target = Json::object();
    target.set("metric", experiment.run.target->metric);
    target.set("value", experiment.run.target->value);
    target.set("direction", experiment.run.target->direction);
    target.set("unit", experiment.data.evaluate->unit());
  }
  log.point("quality_target", target);
  log.point("configuration_digest", configuration_digest(experiment.resolved, experiment.backend, experiment.ranks));
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

void log_configuration(MlLog& log, const Experiment& experiment, std::int64_t seed, double init_start,
                       bool timed_claims) {
  log.point("submission_benchmark", experiment.suite);
  log.point("submission_org", "none, not a submission");
  log.point("submission_platform", cpu_model());
  log.point("submission_division", "open");
  log.point("submission_status", "research");
  log.point("cache_clear", false);  // page caches are the system's; the data is scanned within the timed interval
  log.start("init_start", Json::object(), init_start);
  log.point("seed", seed);
  log.point("config_filename", experiment.suite + ".json");
  log.point("global_batch_size", experiment.workload.training.batch_size);
  log.point("max_sequence_length", experiment.tokens);
  log.point("max_steps", experiment.workload.training.steps);
  log_optimizer(log, experiment.workload.training);
  log_parallelism(log, experiment);
  log_aim(log, experiment);
  log.point("timed_claims", timed_claims);
}

}  // namespace quadrille
