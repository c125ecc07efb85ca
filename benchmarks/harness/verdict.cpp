// SPDX-License-Identifier: Apache-2.0
// See verdict.h.
#include "benchmarks/harness/verdict.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "benchmarks/harness/text.h"

namespace quadrille {

namespace {

void reason(Verdict& verdict, std::string text) {
  verdict.valid = false;
  verdict.reasons.push_back(std::move(text));
}

void note(Verdict& verdict, std::string text) { verdict.notes.push_back(std::move(text)); }

}  // namespace

void rule_stopped_properly(const Record& record, Verdict& verdict) {
  if (record.stop_reason == stop::kDiverged) {
    const std::int64_t step = record.steps.empty() ? 0 : record.steps.back().step;
    reason(verdict, fmt::format("diverged: loss or gradients of step {} were not finite", step));
  } else if (record.stop_reason == stop::kTime && !record.target) {
    reason(verdict, "the time limit came before the last step");
  }
}

void rule_target_reached(const Record& record, Verdict& verdict) {
  if (!record.target) {
    note(verdict, "no target: a run of fixed steps, not a time to train");
    return;
  }
  const Target& target = *record.target;
  const bool known = std::any_of(record.evaluations.begin(), record.evaluations.end(),
                                 [&](const EvaluationLine& e) { return target.reached_by(e.quality); });
  if (record.seconds_to_target && !known)
    reason(verdict, "a time to target is given, but no evaluation reached it");
  else if (!record.seconds_to_target && record.evaluations.empty())
    reason(verdict, fmt::format("target not reached: never evaluated ({})", record.stop_reason));
  else if (!record.seconds_to_target)
    reason(verdict, fmt::format("target not reached: last {} {}, wanted {} {} ({})", target.metric,
                                text_number(record.evaluations.back().quality),
                                target.direction == "at_most" ? "at most" : "at least", text_number(target.value),
                                record.stop_reason));
}

void rule_steps_complete(const Record& record, Verdict& verdict) {
  for (std::size_t i = 0; i < record.steps.size(); ++i) {
    const StepLine& line = record.steps[i];
    if (line.step != static_cast<std::int64_t>(i) + 1) {
      reason(verdict,
             fmt::format("step {} stands where step {} should: each step must be reported once", line.step, i + 1));
      return;
    }
    if ((!line.finite || !std::isfinite(line.loss)) && record.stop_reason != stop::kDiverged) {
      reason(verdict, fmt::format("the loss of step {} is not finite, but the run went on", line.step));
      return;
    }
  }
}

void rule_evaluation_complete(const Record& record, Verdict& verdict) {
  for (const EvaluationLine& line : record.evaluations)
    if (line.labels != static_cast<double>(record.evaluation_labels)) {
      reason(verdict, fmt::format("the evaluation after step {} counted {} labels, the set has {}", line.step,
                                  static_cast<long long>(line.labels), record.evaluation_labels));
      return;
    }
}

void rule_flops_equal_formula(const Record& record, Verdict& verdict) {
  constexpr double kTolerance = 1e-6;
  const double counted = record.flops.training.useful + record.flops.training.skipped;
  const double formula = record.flops.model_full_per_step * static_cast<double>(record.flops.steps);
  if (std::abs(counted - formula) > kTolerance * std::max(std::abs(formula), 1.0))
    reason(verdict,
           fmt::format("useful plus skipped FLOPs are {:.9g}, the model's formula says {:.9g}", counted, formula));
}

void rule_below_peak(const Record& record, Verdict& verdict) {
  const Utilisation& u = record.utilisation;
  const std::array<std::pair<const char*, const std::optional<double>*>, 5> all = {{
      {"model utilisation of the measured peak", &u.mfu_full_of_measured_peak},
      {"hardware utilisation of the measured peak", &u.hfu_of_measured_peak},
      {"model utilisation of the datasheet peak", &u.mfu_full_of_datasheet_peak},
      {"hardware utilisation of the datasheet peak", &u.hfu_of_datasheet_peak},
      {"utilisation over the timed interval", &u.model_full_of_peak_in_timed_interval},
  }};
  for (const auto& [name, value] : all)
    if (*value && !(**value <= 1))
      reason(verdict, fmt::format("{} is {}: above 100 % the FLOPs, the time or the peak is wrong", name,
                                  text_percent(**value)));
}

void rule_timed_backend(const Record& record, Verdict& verdict) {
  if (record.timed_claims) return;
  if (record.evidence == "emulated")
    note(verdict, "not valid as a timed claim: the links between ranks were emulated (--links)");
  else
    note(verdict,
         fmt::format("not valid as a timed claim: back end '{}' judges the others, and its times claim nothing",
                     record.backend));
}

void rule_enough_steps(const Record& record, Verdict& verdict) {
  if (record.step_statistics.status != "ok")
    note(verdict, fmt::format("{}: {} after warm-up, so no step time and no utilisation", record.step_statistics.status,
                              record.step_statistics.count));
}

void rule_phases_add_up(const Record& record, Verdict& verdict) {
  constexpr double kTolerance = 0.02;
  const auto other = record.phases_seconds.find("other");
  if (other != record.phases_seconds.end() && std::abs(other->second) > kTolerance * record.timed_seconds)
    note(verdict, fmt::format("the named phases leave {} of {} unexplained (more than {})", text_seconds(other->second),
                              text_seconds(record.timed_seconds), text_percent(kTolerance)));
}

void rule_memory_as_forecast(const Record& record, Verdict& verdict) {
  constexpr double kTolerance = 0.15;
  for (const RankLine& line : record.rank_lines) {
    const auto forecast = static_cast<double>(line.forecast.total()),
               measured = static_cast<double>(line.measured.total());
    if (std::abs(measured - forecast) <= kTolerance * forecast) continue;
    note(verdict, fmt::format("rank {} took {} where {} were forecast (more than {} apart)", line.rank,
                              text_bytes(measured), text_bytes(forecast), text_percent(kTolerance)));
    return;
  }
}

void rule_steady_probe(const Record& record, Verdict& verdict) {
  constexpr double kTolerance = 0.05;
  if (record.peak.spread_fraction > kTolerance)
    note(verdict, fmt::format("the peak probe varied by {}: something else was running, or the clock moves",
                              text_percent(record.peak.spread_fraction)));
}

void rule_clean_sources(const Record& record, Verdict& verdict) {
  const Json* modified = record.environment.find("source_modified");
  if (modified && modified->is_bool() && modified->boolean())
    note(verdict, "built from a source tree with uncommitted changes");
}

Verdict judge(const Record& record) {
  Verdict verdict;
  for (auto* rule : {rule_stopped_properly, rule_target_reached, rule_steps_complete, rule_evaluation_complete,
                     rule_flops_equal_formula, rule_below_peak, rule_timed_backend, rule_enough_steps,
                     rule_phases_add_up, rule_memory_as_forecast, rule_steady_probe, rule_clean_sources})
    rule(record, verdict);
  return verdict;
}

}  // namespace quadrille
