// SPDX-License-Identifier: Apache-2.0
// See screen.h.
#include "benchmarks/harness/screen.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "benchmarks/harness/environment.h"
#include "benchmarks/harness/text.h"

namespace quadrille {

namespace {

using Align = TextTable::Align;

std::string wrapped(const std::string& label, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += fmt::format("  {:<12}{}\n", label, line);
  return text;
}

// "--steps 5" when the command line set the number of steps, the run ended with them, and nothing else is to be said
// than that they did not lead to the target: somebody had a quick look. The verdict stays as it is.
std::string quick_look(const Record& record) {
  const Json* origin = record.origins.find("training.steps");
  const auto& reasons = record.verdict.reasons;
  const bool cut = origin && origin->is_string() && origin->string().starts_with("--steps ") &&
                   record.stop_reason == stop::kSteps && reasons.size() == 1 &&
                   reasons.front().starts_with("target not reached");
  return cut ? origin->string() : std::string();
}

std::string headline(const Record& record) {
  if (const std::string steps = quick_look(record); !steps.empty())
    return fmt::format("SCORE  none: a quick look, not a result (the steps were set by {})\n", steps);
  const char* verdict = !record.verdict.valid  ? "NOT VALID"
                        : !record.timed_claims ? "valid training, NOT VALID as a timed claim"
                                               : "valid";
  if (record.seconds_to_target && record.target)
    return fmt::format("SCORE  {:.3f} s to {} {} {}   ({})\n", *record.seconds_to_target, record.target->metric,
                       record.target->direction == "at_most" ? "<=" : ">=", text_number(record.target->value), verdict);
  if (record.target) return fmt::format("SCORE  none: target not reached   ({})\n", verdict);
  const StepStatistics& steps = record.step_statistics;
  if (steps.median_seconds)
    return fmt::format("SCORE  {} per step, median of {} steps   ({})\n", text_seconds(*steps.median_seconds),
                       steps.count, verdict);
  return fmt::format("SCORE  none: {}   ({})\n", steps.status, verdict);
}

std::string quality_line(const Record& record) {
  if (record.evaluations.empty()) return {};
  const EvaluationLine& last = record.evaluations.back();
  return fmt::format("  quality     {} after step {}, over {} {}s\n",
                     quality_text(metric_of(record.target, record.unit), last.quality), last.step,
                     text_grouped(static_cast<long long>(last.units)), record.unit);
}

// Whole rows, however many of their labels count.
std::string throughput_line(const Record& record) {
  if (!record.step_statistics.mean_seconds) return {};
  const RowWork work = record.row_work.value_or(RowWork{record.tokens_per_row, "token"});
  const double rate = static_cast<double>(record.batch_size * work.count) / *record.step_statistics.mean_seconds;
  return fmt::format("  throughput  {}\n", text_scaled(rate, work.unit + "s/s"));
}

std::string step_lines(const Record& record) {
  const StepStatistics& s = record.step_statistics;
  std::string text = fmt::format("  ended       {}, {} steps in {}\n", record.stop_reason, record.steps.size(),
                                 text_clock(record.timed_seconds));
  const auto seconds = [](const std::optional<double>& value) { return value ? text_seconds(*value) : "n/a"; };
  if (s.median_seconds)
    text +=
        fmt::format("  step time   median {}, p5 {}, p95 {}, min {}, max {} of {} steps ({} warm-up steps left out)\n",
                    seconds(s.median_seconds), seconds(s.p5_seconds), seconds(s.p95_seconds), seconds(s.min_seconds),
                    seconds(s.max_seconds), s.count, s.warm_up_steps);
  else
    text += fmt::format("  step time   {}: {} after {} warm-up steps\n", s.status, s.count, s.warm_up_steps);
  text += throughput_line(record);
  if (record.ranks == 1 && record.replica_comparisons)
    text += "  replicas    none to compare: one rank holds everything once\n";
  else if (record.replica_comparisons)
    text += fmt::format("  replicas    compared {} time{}, equal in every bit on every rank that holds them\n",
                        *record.replica_comparisons, *record.replica_comparisons == 1 ? "" : "s");
  return text;
}

std::string percent(const std::optional<double>& value) { return value ? text_percent(*value) : "n/a"; }
std::string rate(const std::optional<double>& value) { return value ? text_scaled(*value, "FLOP/s") : "n/a"; }

std::string utilisation_table(const Record& record) {
  const Utilisation& u = record.utilisation;
  TextTable table({{"utilisation", Align::left}, {"rate"}, {"of measured peak"}, {"of data sheet"}});
  table.row({"MFU, full attention", rate(u.model_full_flops_per_second), percent(u.mfu_full_of_measured_peak),
             percent(u.mfu_full_of_datasheet_peak)});
  table.row({"MFU, causal attention", rate(u.model_causal_flops_per_second), percent(u.mfu_causal_of_measured_peak),
             percent(u.mfu_causal_of_datasheet_peak)});
  table.row({"HFU, executed", rate(u.hardware_flops_per_second), percent(u.hfu_of_measured_peak),
             percent(u.hfu_of_datasheet_peak)});
  std::string text = fmt::format("\n{}", table.text());
  const Work& work = record.flops.training;
  const double executed = work.executed();
  if (executed > 0)
    text += fmt::format("  executed: {} useful, {} recomputed, {} repeated on replicas, {} padded; {} skipped\n",
                        text_percent(work.useful / executed), text_percent(work.recomputed / executed),
                        text_percent(work.repeated / executed), text_percent(work.padded / executed),
                        text_scaled(work.skipped, "FLOP"));
  return text;
}

// Largest first. What is below zero is a rounding of clocks: it counts as nothing, and the others share the whole.
std::string phase_lines(const Record& record) {
  constexpr double kLeastShown = 0.0005;
  std::vector<std::pair<double, std::string>> phases;
  double sum = 0;
  for (const auto& [name, seconds] : record.phases_seconds)
    if (seconds > 0) phases.emplace_back(seconds, name), sum += seconds;
  if (phases.empty()) return {};
  std::stable_sort(phases.begin(), phases.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text = "\n  where the time went:";
  for (const auto& [seconds, name] : phases)
    if (seconds >= kLeastShown * sum) text += fmt::format(" {} {},", name, text_percent(seconds / sum));
  text.back() = '\n';
  return text;
}

std::string traffic_table(const Record& record) {
  if (record.traffic.empty()) return {};
  TextTable table(
      {{"mesh axes", Align::left}, {"message", Align::left}, {"calls"}, {"bytes"}, {"time per rank"}, {"exposed"}});
  for (const TrafficLine& line : record.traffic)
    table.row({line.mesh_axes, line.kind, text_grouped(line.calls), text_bytes(line.bytes),
               text_seconds(line.seconds_mean), text_seconds(line.exposed_mean)});
  return fmt::format("\n{}  calls and bytes: sums over all ranks and steps\n", table.text());
}

std::string memory_table(const Record& record) {
  const RankLine* worst = nullptr;
  for (const RankLine& line : record.rank_lines)
    if (!worst || line.measured.total() > worst->measured.total()) worst = &line;
  if (!worst) return {};
  const auto bytes = [](std::int64_t value) { return text_bytes(static_cast<double>(value)); };
  TextTable table(
      {{"memory", Align::left}, {"weights"}, {"gradients"}, {"optimizer"}, {"activations"}, {"scratch"}, {"sum"}});
  const auto row = [&](const std::string& name, const MemoryReport& m) {
    table.row({name, bytes(m.weights), bytes(m.gradients), bytes(m.optimizer), bytes(m.activations), bytes(m.scratch),
               bytes(m.total())});
  };
  row("forecast", worst->forecast);
  row("measured", worst->measured);
  return fmt::format("\n{}  rank {}; the process's peak was {}\n", table.text(), worst->rank,
                     bytes(worst->process_bytes_peak));
}

}  // namespace

std::string mesh_text(const std::vector<std::pair<std::string, int>>& mesh) {
  std::string text;
  for (const auto& [name, extent] : mesh) text += fmt::format("{}{}({})", text.empty() ? "" : " x ", name, extent);
  return text.empty() ? "one rank" : text;
}

std::string suite_title(const Record& record) {
  const auto& notes = record.verdict.notes;
  const bool changed =
      std::any_of(notes.begin(), notes.end(), [](const std::string& note) { return note.starts_with(kChangedSuite); });
  return record.suite + (changed ? " (changed)" : "");
}

std::string opening_screen(const Experiment& experiment, const Launch& launch) {
  std::vector<std::pair<std::string, int>> mesh;
  for (const MeshAxis& axis : mesh_of(experiment.workload.strategy, experiment.ranks))
    mesh.emplace_back(axis.name, axis.extent);
  std::string text = fmt::format("{}   {}{}{}\n", program_name(), name_of_suite(experiment),
                                 experiment.description.empty() ? "" : ": ", experiment.description);
  text += fmt::format("  {} rank{} in world {}, strategy {}, mesh {}, back end {}\n\n", experiment.ranks,
                      experiment.ranks == 1 ? "" : "s", experiment.world, experiment.strategy, mesh_text(mesh),
                      experiment.backend);
  return text + launch_table(launch) + "\n";
}

std::string peak_line(const Peak& peak) {
  if (peak.measured_fma_flops_per_second <= 0 && peak.measured_gemm_flops_per_second > 0)
    return fmt::format("  peak of {} {}, {}: {} in a large product, data sheet {}\n", peak.cores, peak.instruction_set,
                       peak.number_type, text_scaled(peak.measured_gemm_flops_per_second, "FLOP/s"),
                       peak.datasheet_flops_per_second ? text_scaled(*peak.datasheet_flops_per_second, "FLOP/s")
                                                       : peak.datasheet_source);
  if (peak.measured_fma_flops_per_second <= 0) return fmt::format("  peak: not measured ({})\n", peak.note);
  return fmt::format("  peak of {} core{}, {}: {} in registers ({}), {} in a large product, clock {}\n", peak.cores,
                     peak.cores == 1 ? "" : "s", peak.number_type,
                     text_scaled(peak.measured_fma_flops_per_second, "FLOP/s"), peak.instruction_set,
                     text_scaled(peak.measured_gemm_flops_per_second, "FLOP/s"), text_scaled(peak.clock_hertz, "Hz"));
}

std::string run_line(const Experiment& experiment, int run, std::int64_t seed, std::int64_t parameters) {
  const auto& target = experiment.run.target;
  return fmt::format("  run {} of {}, seed {}: {} parameters, at most {} steps of {} rows, {}\n", run + 1,
                     experiment.run.runs, seed, text_grouped(parameters), experiment.workload.training.steps,
                     experiment.workload.training.batch_size,
                     target ? fmt::format("target {} {} {}", target->metric,
                                          target->direction == "at_most" ? "<=" : ">=", text_number(target->value))
                            : "no target");
}

std::string last_screen(const Record& record, const std::string& record_path) {
  std::string text = fmt::format("\n{}  {:<12}{}\n", headline(record), "suite", suite_title(record));
  text += wrapped(quick_look(record).empty() ? "not valid" : "no result", record.verdict.reasons);
  text += quality_line(record) + step_lines(record) + utilisation_table(record) + phase_lines(record) +
          traffic_table(record) + memory_table(record);
  if (!record.verdict.notes.empty()) text += fmt::format("\n{}", wrapped("note", record.verdict.notes));
  text += fmt::format("\n  not verified by MLCommons; compare with: quadrille compare {} --published\n", record_path);
  return text;
}

}  // namespace quadrille
