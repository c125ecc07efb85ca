// SPDX-License-Identifier: Apache-2.0
// See record.h. Each `fields` is the one list of a struct's members, for writing and reading alike.
#include "benchmarks/harness/record.h"

#include <filesystem>
#include <map>

#include "benchmarks/harness/fields.h"
#include "core/error.h"

namespace quadrille {

std::string metric_of(const std::optional<Target>& target, const std::string& unit) {
  if (target) return target->metric;
  return unit == "image" ? std::string(kAccuracy) : fmt::format("{}{}", kNatsPer, unit);
}

std::string quality_text(const std::string& metric, double quality) {
  if (metric == kAccuracy) return fmt::format("accuracy {:.2f} %", 100 * quality);
  return fmt::format("{:.4f} nats per {}", quality,
                     metric.starts_with(kNatsPer) ? metric.substr(kNatsPer.size()) : metric);
}

template <class V>
void fields(V& v, Target& x) {
  v("metric", x.metric), v("value", x.value), v("direction", x.direction);
}
template <class V>
void fields(V& v, StepLine& x) {
  v("step", x.step), v("seconds", x.seconds), v("loss", x.loss), v("gradient_norm", x.gradient_norm), v("rate", x.rate);
  v("labels", x.labels), v("finite", x.finite), v("warm_up", x.warm_up);
}
template <class V>
void fields(V& v, EvaluationLine& x) {
  v("step", x.step), v("samples", x.samples), v("quality", x.quality), v("loss_sum", x.loss_sum), v("labels", x.labels);
  v("units", x.units), v("seconds", x.seconds), v("seconds_since_run_start", x.seconds_since_run_start);
  v("reached", x.reached), v("correct", x.correct);
}
template <class V>
void fields(V& v, MemoryReport& x) {
  v("weights_bytes", x.weights), v("gradients_bytes", x.gradients), v("optimizer_bytes", x.optimizer);
  v("activations_bytes", x.activations), v("scratch_bytes", x.scratch);
}
template <class V>
void fields(V& v, RankLine& x) {
  v("rank", x.rank), v("host", x.host), v("device", x.device), v("process", x.process), v("cpus", x.cpus);
  v("threads", x.threads), v("launch_seconds", x.launch_seconds), v("communicators_seconds", x.communicators_seconds);
  v("build_seconds", x.build_seconds), v("weights_seconds", x.weights_seconds), v("data_seconds", x.data_seconds);
  v("probe_seconds", x.probe_seconds), v("memory_forecast", x.forecast), v("memory_measured", x.measured);
  v("process_peak_bytes", x.process_bytes_peak), v("phases_seconds", x.phases_seconds);
}
template <class V>
void fields(V& v, TrafficLine& x) {
  v("mesh_axes", x.mesh_axes), v("kind", x.kind), v("calls", x.calls), v("elements", x.elements), v("bytes", x.bytes);
  v("mean_seconds", x.seconds_mean), v("max_seconds", x.seconds_max);
  v("mean_exposed_seconds", x.exposed_mean);
}
template <class V>
void fields(V& v, Work& x) {
  v("useful_flops", x.useful), v("recomputed_flops", x.recomputed), v("repeated_flops", x.repeated);
  v("padded_flops", x.padded), v("skipped_flops", x.skipped);
}
template <class V>
void fields(V& v, Flops& x) {
  v("model_full_flops_per_step", x.model_full_per_step), v("model_causal_flops_per_step", x.model_causal_per_step);
  v("training", x.training), v("steps", x.steps);
}
template <class V>
void fields(V& v, Peak& x) {
  v("measured_fma_flops_per_second", x.measured_fma_flops_per_second);
  v("measured_gemm_flops_per_second", x.measured_gemm_flops_per_second), v("clock_hertz", x.clock_hertz);
  v("spread_fraction", x.spread_fraction), v("cores", x.cores), v("instruction_set", x.instruction_set);
  v("number_type", x.number_type), v("datasheet_flops_per_second", x.datasheet_flops_per_second);
  v("datasheet_source", x.datasheet_source), v("note", x.note);
}
template <class V>
void fields(V& v, Power& x) {
  v("source", x.source), v("energy_joules", x.joules), v("mean_watts", x.mean_watts), v("max_watts", x.max_watts);
  v("longest_seconds_between_samples", x.longest_seconds_between_samples), v("samples", x.samples);
}
template <class V>
void fields(V& v, StepStatistics& x) {
  v("status", x.status), v("count", x.count), v("warm_up_steps", x.warm_up_steps),
      v("median_seconds", x.median_seconds);
  v("p5_seconds", x.p5_seconds), v("p95_seconds", x.p95_seconds), v("min_seconds", x.min_seconds);
  v("max_seconds", x.max_seconds), v("mean_seconds", x.mean_seconds), v("labels_per_second", x.labels_per_second);
}
template <class V>
void fields(V& v, Utilisation& x) {
  v("model_full_flops_per_second", x.model_full_flops_per_second);
  v("model_causal_flops_per_second", x.model_causal_flops_per_second);
  v("hardware_flops_per_second", x.hardware_flops_per_second);
  v("mfu_full_fraction_of_measured_peak", x.mfu_full_of_measured_peak);
  v("mfu_causal_fraction_of_measured_peak", x.mfu_causal_of_measured_peak);
  v("hfu_fraction_of_measured_peak", x.hfu_of_measured_peak);
  v("mfu_full_fraction_of_datasheet_peak", x.mfu_full_of_datasheet_peak);
  v("mfu_causal_fraction_of_datasheet_peak", x.mfu_causal_of_datasheet_peak);
  v("hfu_fraction_of_datasheet_peak", x.hfu_of_datasheet_peak);
  v("timed_interval_fraction_of_measured_peak", x.model_full_of_peak_in_timed_interval);
}
template <class V>
void fields(V& v, Verdict& x) {
  v("valid", x.valid), v("reasons", x.reasons), v("notes", x.notes);
}
template <class V>
void fields(V& v, std::pair<std::string, int>& x) {
  v("name", x.first), v("extent", x.second);
}
template <class V>
void fields(V& v, PipelineReport& x) {
  v("stages", x.stages), v("chunks", x.chunks), v("schedule", x.schedule), v("layers", x.layers);
  v("micro_batches", x.micro_batches), v("idle_fraction", x.bubble);
}

template <class V>
void fields(V& v, RowWork& x) {
  v("count", x.count), v("unit", x.unit);
}

template <class V>
void fields(V& v, Record& x) {
  v("schema_version", x.schema_version), v("kind", x.kind), v("evidence", x.evidence), v("program", x.program);
  v("suite", x.suite), v("description", x.description), v("unit", x.unit), v("started_utc", x.started_utc);
  v("run_index", x.run_index), v("seed", x.seed), v("stop_reason", x.stop_reason), v("verdict", x.verdict);
  v("target", x.target), v("seconds_to_target", x.seconds_to_target), v("timed_seconds", x.timed_seconds);
  v("phases_seconds", x.phases_seconds), v("step_statistics", x.step_statistics), v("utilisation", x.utilisation);
  v("peak", x.peak), v("power", x.power), v("flops", x.flops), v("ranks", x.ranks), v("world", x.world);
  v("backend", x.backend), v("timed_claims", x.timed_claims), v("strategy", x.strategy), v("mesh", x.mesh);
  v("pipeline", x.pipeline), v("key_value_replicas", x.key_value_replicas);
  v("replica_comparisons", x.replica_comparisons), v("parameters", x.parameters);
  v("batch_size", x.batch_size), v("tokens_per_row", x.tokens_per_row), v("row_work", x.row_work);
  v("evaluation_labels", x.evaluation_labels);
  v("traffic", x.traffic), v("rank_lines", x.rank_lines), v("evaluations", x.evaluations), v("data", x.data);
  v("environment", x.environment), v("configuration", x.configuration), v("origins", x.origins), v("steps", x.steps);
}

Json power_json(const Power& power) { return to_json(power); }
Power power_from(const Json& json) {
  Power power;
  from_json(json, power);
  return power;
}
Json record_json(const Record& record) { return to_json(record); }

Record record_from(const Json& json) {
  const std::int64_t version = json.at("schema_version").integer();
  require(version == kRecordSchema, "a record of schema version {}; this program reads version {}", version,
          kRecordSchema);
  const std::string& kind = json.at("kind").string();
  require(kind == "run", "a document of kind '{}', wanted a record of one run ('run')", kind);
  Record record;
  from_json(json, record);
  return record;
}

std::vector<std::string> records_of_set(const std::string& folder) {
  namespace fs = std::filesystem;
  std::map<long long, std::string> numbered;
  if (!fs::is_directory(folder)) return {};
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("record_") || !name.ends_with(".json")) continue;
    const std::string digits = name.substr(7, name.size() - 12);
    if (!digits.empty() && digits.size() < 10 && digits.find_first_not_of("0123456789") == std::string::npos)
      numbered[std::stoll(digits)] = entry.path().string();
  }
  std::vector<std::string> files;
  files.reserve(numbered.size());
  for (const auto& [number, path] : numbered) files.push_back(path);
  return files;
}

Record read_record(const std::string& path_or_folder) {
  namespace fs = std::filesystem;
  const fs::path path =
      fs::is_directory(path_or_folder) ? fs::path(path_or_folder) / "record.json" : fs::path(path_or_folder);
  if (!fs::exists(path)) {
    const std::vector<std::string> set = records_of_set(path_or_folder);
    require(set.empty(), "{} holds the records of {} run{}; name the one that is meant, such as {}", path_or_folder,
            set.size(), set.size() == 1 ? "" : "s", set.empty() ? "" : set.front());
    fail("{} does not exist; give a record.json, or the --out folder of a run that ended", path.string());
  }
  try {
    return record_from(read_json(path.string()));
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
}

Json rank_line_json(const RankLine& line) { return to_json(line); }

RankLine rank_line_from(const Json& json) {
  RankLine line;
  from_json(json, line);
  return line;
}

}  // namespace quadrille
