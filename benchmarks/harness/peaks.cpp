// SPDX-License-Identifier: Apache-2.0
// See peaks.h. Definitions: docs/metrics.md.
#include "benchmarks/harness/peaks.h"

#include <fmt/core.h>

#include <algorithm>

#include "benchmarks/harness/statistics.h"

namespace quadrille {

void add_datasheet_peak(Peak& peak, const std::string& chip, const std::string& number_type, int chips,
                        const Json& table) {
  for (const Json& row : table.at("rows").items()) {
    if (row.at("chip").string() != chip) continue;
    if (const Json* value = row.at("dense_flops_per_second").find(number_type)) {
      peak.datasheet_flops_per_second = value->number() * chips;
      peak.datasheet_source = row.at("source").string();
      return;
    }
  }
  peak.datasheet_source = fmt::format("n/a: no data sheet figure for '{}' in {}", chip, number_type);
}

StepStatistics step_statistics(const std::vector<StepLine>& steps) {
  StepStatistics statistics;
  std::vector<double> seconds;
  double labels = 0, sum = 0;
  for (const StepLine& line : steps) {
    if (line.warm_up) {
      ++statistics.warm_up_steps;
      continue;
    }
    seconds.push_back(line.seconds);
    labels += line.labels;
    sum += line.seconds;
  }
  statistics.count = static_cast<std::int64_t>(seconds.size());
  statistics.status = "too few steps";
  if (const auto spread = spread_of(seconds)) {
    statistics.status = "ok";
    statistics.median_seconds = spread->median;
    statistics.p5_seconds = spread->p5;
    statistics.p95_seconds = spread->p95;
    statistics.min_seconds = spread->min;
    statistics.max_seconds = spread->max;
    statistics.mean_seconds = spread->mean;
    if (sum > 0) statistics.labels_per_second = labels / sum;
  }
  return statistics;
}

Utilisation utilisation_of(const Record& record, const std::string& number_type) {
  Utilisation u;
  const auto divided = [](std::optional<double> rate, double peak) {
    return rate && peak > 0 ? std::optional<double>(*rate / peak) : std::nullopt;
  };
  const auto steps = static_cast<double>(record.flops.steps);
  if (const auto& mean = record.step_statistics.mean_seconds; mean && *mean > 0 && steps > 0) {
    u.model_full_flops_per_second = record.flops.model_full_per_step / *mean;
    u.model_causal_flops_per_second = record.flops.model_causal_per_step / *mean;
    u.hardware_flops_per_second = record.flops.training.executed() / steps / *mean;
  }
  // A peak of another number type says nothing about this run.
  const Peak& peak = record.peak;
  const double found =
      peak.measured_fma_flops_per_second > 0 ? peak.measured_fma_flops_per_second : peak.measured_gemm_flops_per_second;
  const double measured = peak.number_type == number_type ? found : 0;
  const double datasheet = record.peak.datasheet_flops_per_second.value_or(0);
  u.mfu_full_of_measured_peak = divided(u.model_full_flops_per_second, measured);
  u.mfu_causal_of_measured_peak = divided(u.model_causal_flops_per_second, measured);
  u.hfu_of_measured_peak = divided(u.hardware_flops_per_second, measured);
  u.mfu_full_of_datasheet_peak = divided(u.model_full_flops_per_second, datasheet);
  u.mfu_causal_of_datasheet_peak = divided(u.model_causal_flops_per_second, datasheet);
  u.hfu_of_datasheet_peak = divided(u.hardware_flops_per_second, datasheet);
  if (record.timed_seconds > 0)
    u.model_full_of_peak_in_timed_interval =
        divided(record.flops.model_full_per_step * steps / record.timed_seconds, measured);
  return u;
}

}  // namespace quadrille
