// SPDX-License-Identifier: Apache-2.0
// See log_table.h. The keys are those of the public checker of training logs, set by set (docs/rules.md). Two orders
// matter to it: submission_division before init_stop, global_batch_size and warm-up before what depends on them.
#include "benchmarks/harness/log_table.h"

#include "core/error.h"

namespace quadrille {

namespace {

using Rows = std::vector<LogRow>;

const Rows& head() {
  static const Rows kRows = {{"submission_benchmark", "benchmark"}, {"submission_org", "organisation"},
                             {"submission_platform", "platform"},   {"submission_division", "division"},
                             {"submission_status", "status"},       {"cache_clear", "cache_clear"}};
  return kRows;
}

const Rows& after_init_start() {
  static const Rows kRows = {
      {"seed", "seed"}, {"config_filename", "config_filename"}, {"global_batch_size", "batch_size"}};
  return kRows;
}

// The last four are our own: a score must not mix runs that aimed at different things.
const Rows& tail() {
  static const Rows kRows = {{"gradient_accumulation_steps", "accumulation"},
                             {"micro_batch_size", "micro_batch"},
                             {"tensor_parallelism", "tensor"},
                             {"pipeline_parallelism", "pipeline"},
                             {"context_parallelism", "context"},
                             {"expert_parallelism", "expert"},
                             {"lowest_numerical_precision_in_linear", "precision_linear"},
                             {"lowest_numerical_precision_in_attn", "precision_attention"},
                             {"lowest_numerical_precision_in_comm", "precision_messages"},
                             {"quality_target", "target"},
                             {"configuration_digest", "configuration_digest"},
                             {"timed_claims", "timed_claims"}};
  return kRows;
}

LogTable llama_like(std::string_view benchmark, std::string_view max_steps) {
  return {benchmark,
          "epochs",
          {{"max_sequence_length", "tokens"},
           {"max_steps", max_steps},
           {"opt_name", "optimizer"},
           {"opt_base_learning_rate", "peak_rate"},
           {"opt_end_learning_rate", "final_rate"},
           {"opt_learning_rate_warmup_steps", "warmup_steps"},
           {"opt_learning_rate_decay_steps", "decay_steps"},
           {"opt_learning_rate_decay_schedule", "schedule"},
           {"opt_adamw_beta_1", "beta_1", "adamw"},
           {"opt_adamw_beta_2", "beta_2", "adamw"},
           {"opt_adamw_epsilon", "epsilon", "adamw"},
           {"opt_adamw_weight_decay", "weight_decay", "adamw"},
           {"opt_adam_beta_1", "beta_1", "adam"},
           {"opt_adam_beta_2", "beta_2", "adam"},
           {"opt_adam_epsilon", "epsilon", "adam"},
           {"opt_weight_decay", "weight_decay", "adam"},
           {"opt_lamb_beta_1", "beta_1", "lamb"},
           {"opt_lamb_beta_2", "beta_2", "lamb"},
           {"opt_lamb_epsilon", "epsilon", "lamb"},
           {"opt_lamb_weight_decay_rate", "weight_decay", "lamb"},
           {"lars_opt_momentum", "momentum", "lars"},
           {"lars_opt_weight_decay", "weight_decay", "lars"},
           {"lars_epsilon", "epsilon", "lars"},
           {"sgd_opt_momentum", "momentum", "sgd"},
           {"sgd_opt_weight_decay", "weight_decay", "sgd"},
           {"opt_gradient_clip_norm", "clip_norm", "", "", true}}};
}

// There Adam with decoupled decay is called adam, and the decay's end is counted from the first step.
LogTable gpt3() {
  return {"gpt3",
          "tokens",
          {{"max_sequence_length", "tokens"},
           {"max_steps", "steps"},
           {"opt_name", "optimizer_family"},
           {"opt_base_learning_rate", "peak_rate"},
           {"opt_end_learning_rate", "final_rate"},
           {"opt_learning_rate_warmup_steps", "warmup_steps"},
           {"opt_learning_rate_decay_steps", "schedule_steps"},
           {"opt_learning_rate_decay_schedule", "schedule"},
           {"opt_adam_beta_1", "beta_1"},
           {"opt_adam_beta_2", "beta_2"},
           {"opt_adam_epsilon", "epsilon"},
           {"opt_weight_decay", "weight_decay"},
           {"opt_gradient_clip_norm", "clip_norm"},
           {"init_checkpoint_step", "checkpoint_step"}}};
}

LogTable resnet() {
  return {"resnet",
          "epochs",
          {{"opt_name", "optimizer"},
           {"lars_opt_base_learning_rate", "peak_rate", "lars"},
           {"lars_opt_end_learning_rate", "final_rate", "lars"},
           {"lars_opt_learning_rate_decay_poly_power", "decay_power", "lars"},
           {"lars_opt_learning_rate_decay_steps", "decay_steps", "lars"},
           {"lars_epsilon", "epsilon", "lars"},
           {"lars_opt_learning_rate_warmup_epochs", "warmup_epochs", "lars"},
           {"lars_opt_momentum", "momentum", "lars"},
           {"lars_opt_weight_decay", "weight_decay", "lars"},
           {"sgd_opt_base_learning_rate", "peak_rate", "sgd"},
           {"sgd_opt_end_learning_rate", "final_rate", "sgd"},
           {"sgd_opt_learning_rate_decay_poly_power", "decay_power", "sgd"},
           {"sgd_opt_learning_rate_decay_steps", "decay_steps", "sgd"},
           {"sgd_opt_weight_decay", "weight_decay", "sgd"},
           {"sgd_opt_momentum", "momentum", "sgd"},
           {"opt_learning_rate_warmup_epochs", "warmup_epochs", "sgd"},
           {"model_bn_span", "norm_span"}}};
}

// Rounds up to 2.0 asked for opt_epsilon, later ones for opt_lamb_epsilon: a log has both.
LogTable bert() {
  return {"bert",
          "samples",
          {{"max_sequence_length", "tokens"},
           {"opt_name", "optimizer"},
           {"opt_base_learning_rate", "peak_rate"},
           {"opt_epsilon", "epsilon"},
           {"opt_lamb_epsilon", "epsilon"},
           {"opt_learning_rate_training_steps", "schedule_steps"},
           {"opt_learning_rate_warmup_steps", "warmup_steps"},
           {"num_warmup_steps", "warmup_steps"},
           {"start_warmup_step", "start_warmup_step"},
           {"opt_lamb_beta_1", "beta_1"},
           {"opt_lamb_beta_2", "beta_2"},
           {"opt_lamb_weight_decay_rate", "weight_decay"},
           {"opt_lamb_learning_rate_decay_poly_power", "decay_power"},
           {"opt_gradient_clip_norm", "clip_norm", "", "", true},
           {"init_checkpoint_step", "checkpoint_step"}}};
}

LogTable transformer() {
  return {"transformer",
          "epochs",
          {{"opt_name", "optimizer_family"},
           {"opt_base_learning_rate", "peak_rate"},
           {"opt_learning_rate_warmup_steps", "warmup_steps"},
           {"opt_adam_beta_1", "beta_1"},
           {"opt_adam_beta_2", "beta_2"},
           {"opt_adam_epsilon", "epsilon"},
           {"max_sequence_length", "tokens", "", "method"}}};
}

const std::vector<LogTable>& tables() {
  static const std::vector<LogTable> kTables = {
      resnet(), bert(), transformer(), gpt3(), llama_like("llama31_8b", "schedule_steps"), llama_like("", "steps")};
  return kTables;
}

}  // namespace

const LogTable& log_table(std::string_view benchmark) {
  for (const LogTable& table : tables())
    if (table.benchmark == benchmark) return table;
  return tables().back();
}

void log_values(MlLog& log, const LogTable& table, const Json& values, double init_start, double at) {
  const auto value_of = [&](std::string_view key, std::string_view name) -> const Json& {
    const Json* value = values.find(name);
    require(value, "the log of {} must say {}, but nothing gives a value for {}", values.at("benchmark").string(), key,
            name);
    return *value;
  };
  const auto write = [&](const Rows& rows) {
    for (const LogRow& row : rows) {
      if (!row.optimizer.empty() && value_of(row.key, "optimizer").string() != row.optimizer) continue;
      if (row.optional && !values.find(row.value)) continue;
      Json metadata = Json::object();
      if (!row.metadata.empty()) metadata.set(row.metadata, value_of(row.key, row.metadata));
      log.point(row.key, value_of(row.key, row.value), std::move(metadata), at);
    }
  };
  write(head());
  log.start("init_start", Json::object(), init_start);
  write(after_init_start());
  write(table.rows);
  write(tail());
}

}  // namespace quadrille
