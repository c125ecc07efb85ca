// SPDX-License-Identifier: Apache-2.0
#include "training/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace quadrille {

namespace {

void within(bool good, const Reader& reader, std::string_view key, const std::string& found, std::string_view wanted) {
  require(good, "{}: {} is {}: it must be {}", reader.origin_of(key), reader.path_of(key), found, wanted);
}

double positive(Reader& reader, std::string_view key, std::optional<double> fallback) {
  const double v = reader.number(key, fallback);
  within(v > 0 && std::isfinite(v), reader, key, fmt::format("{}", v), "a positive number");
  return v;
}

double not_negative(Reader& reader, std::string_view key, double fallback) {
  const double v = reader.number(key, fallback);
  within(v >= 0 && std::isfinite(v), reader, key, fmt::format("{}", v), "0 or a positive number");
  return v;
}

double fraction(Reader& reader, std::string_view key, double fallback) {
  const double v = reader.number(key, fallback);
  within(v >= 0 && v < 1, reader, key, fmt::format("{}", v), "in [0, 1)");
  return v;
}

std::int64_t count(Reader& reader, std::string_view key, std::optional<std::int64_t> fallback, std::int64_t least) {
  const std::int64_t v = reader.integer(key, fallback);
  within(v >= least, reader, key, std::to_string(v), fmt::format("at least {}", least));
  return v;
}

OptimizerConfig read_optimizer(const Json& object, Json& resolved) {
  Reader reader(object, "training.optimizer");
  OptimizerConfig c;
  c.kind = reader.choice("kind", {"adamw", "adam", "lamb", "lars", "sgd"}, "adamw");
  if (c.kind == "sgd" || c.kind == "lars") {
    c.momentum = fraction(reader, "momentum", c.kind == "lars" ? 0.9 : 0);
    c.nesterov = reader.boolean("nesterov", false);
    require(!c.nesterov || c.momentum > 0, "{}: training.optimizer.nesterov needs a momentum above 0",
            reader.origin_of("nesterov"));
  } else {
    c.beta1 = fraction(reader, "beta1", 0.9);
    c.beta2 = fraction(reader, "beta2", c.kind == "adamw" ? 0.95 : 0.999);
    c.epsilon = positive(reader, "epsilon", c.kind == "lamb" ? 1e-6 : 1e-8);
  }
  if (c.kind == "lars") {
    c.trust = positive(reader, "trust_coefficient", 0.001);
    c.epsilon = not_negative(reader, "epsilon", 0);
    c.scaled_momentum = reader.boolean("scaled_momentum", false);
  }
  if (c.kind == "lamb") c.bias_correction = reader.boolean("bias_correction", true);
  c.weight_decay = not_negative(reader, "weight_decay", 0);
  c.decay_all = reader.boolean("decay_all", false);
  reader.done();
  resolved = reader.resolved();
  return c;
}

constexpr std::int64_t kLongestSchedule = 1'000'000'000'000;  // steps; sums of such counts stay far from overflow

RateConfig read_rate(const Json& object, std::int64_t steps, Json& resolved) {
  Reader reader(object, "training.rate");
  RateConfig c;
  c.schedule = reader.choice("schedule", {"constant", "linear", "polynomial", "cosine", "inverse_sqrt"}, "constant");
  const bool ends = c.schedule != "constant" && c.schedule != "inverse_sqrt";
  c.peak = positive(reader, "peak", {});
  c.final_rate = ends ? not_negative(reader, "final", 0) : c.schedule == "constant" ? c.peak : 0;
  if (c.schedule == "polynomial") c.power = positive(reader, "power", 1);
  c.warmup_steps = count(reader, "warmup_steps", 0, 0);
  c.steps = ends ? count(reader, "steps", steps, 1) : steps;
  c.start_step = reader.integer("start_step", 0);
  within(c.start_step <= 0 && c.start_step >= -kLongestSchedule, reader, "start_step", std::to_string(c.start_step),
         fmt::format("in [{}, 0]: 0, or how many steps before the run the schedule began, with a minus",
                     -kLongestSchedule));
  reader.done();
  require(!ends || c.warmup_steps < c.steps - c.start_step,
          "training.rate.warmup_steps {} must be below training.rate.steps {}{}", c.warmup_steps, c.steps,
          c.start_step == 0 ? "" : fmt::format(" - training.rate.start_step {}", c.start_step));
  require(c.final_rate <= c.peak, "training.rate.final {} is above training.rate.peak {}", c.final_rate, c.peak);
  resolved = reader.resolved();
  return c;
}

}  // namespace

double rate_at(const RateConfig& c, std::int64_t step) {
  const auto s = static_cast<double>(step - c.start_step), warmup = static_cast<double>(c.warmup_steps);
  if (s <= warmup) return c.peak * s / warmup;
  if (c.schedule == "constant") return c.peak;
  if (c.schedule == "inverse_sqrt") return c.peak * std::sqrt(std::max(1.0, warmup) / s);
  const double decay_steps = std::max(1.0, static_cast<double>(c.steps - c.start_step) - warmup);
  const double done = std::min(1.0, (s - warmup) / decay_steps);
  const double left = c.schedule == "linear"       ? 1 - done
                      : c.schedule == "polynomial" ? std::pow(1 - done, c.power)
                                                   : 0.5 * (1 + std::cos(std::numbers::pi * done));
  return c.final_rate + (c.peak - c.final_rate) * left;
}

TrainingConfig read_training(const Json& object, Json& resolved) {
  Reader reader(object, "training");
  TrainingConfig c;
  c.batch_size = count(reader, "batch_size", {}, 1);
  c.micro_batch = count(reader, "micro_batch", 0, 0);
  c.batch_origin = reader.origin_of("batch_size");
  c.micro_origin = reader.origin_of("micro_batch");
  c.steps = count(reader, "steps", {}, 1);
  c.clip_norm = not_negative(reader, "clip_norm", 0);
  c.label_smoothing = fraction(reader, "label_smoothing", 0);
  const std::string precision = reader.choice("dtype", {"f32", "f64", "tf32", "bf16"}, "f32");
  c.tf32 = precision == "tf32";
  c.dtype = c.tf32 ? DType::f32 : dtype_from(precision);
  const Json empty = Json::object();
  const Json* optimizer = reader.value("optimizer");
  Json optimizer_resolved, rate_resolved;
  c.optimizer = read_optimizer(optimizer ? *optimizer : empty, optimizer_resolved);
  c.rate = read_rate(reader.needed("rate"), c.steps, rate_resolved);
  reader.done();
  resolved = reader.resolved();
  resolved.set("optimizer", optimizer_resolved);
  resolved.set("rate", rate_resolved);
  return c;
}

}  // namespace quadrille
