// SPDX-License-Identifier: Apache-2.0
// See assemble.h.
#include "benchmarks/harness/assemble.h"

#include <fmt/core.h>

#include <algorithm>

#include "benchmarks/harness/environment.h"
#include "benchmarks/harness/peaks.h"
#include "benchmarks/harness/placement.h"
#include "benchmarks/harness/power.h"
#include "benchmarks/harness/text.h"
#include "benchmarks/harness/verdict.h"

namespace quadrille {

namespace {

std::vector<TrafficLine> traffic_lines(const std::vector<Tally>& ranks) {
  std::map<Ledger::MessageKey, TrafficLine> lines;
  for (const Tally& tally : ranks)
    for (const auto& [key, traffic] : tally.messages) {
      TrafficLine& line = lines[key];
      line.mesh_axes = key.first;
      line.kind = key.second;
      line.calls += traffic.calls;
      line.elements += traffic.elements;
      line.bytes += traffic.bytes;
      line.seconds_mean += traffic.seconds / static_cast<double>(ranks.size());
      line.seconds_max = std::max(line.seconds_max, traffic.seconds);
      line.exposed_mean += traffic.exposed / static_cast<double>(ranks.size());
    }
  std::vector<TrafficLine> all;
  all.reserve(lines.size());
  for (auto& [key, line] : lines) all.push_back(std::move(line));
  return all;
}

Json data_json(const Datasets& data) {
  Json json = Json::object();
  json.set("train", data.train->description());
  if (data.evaluate) json.set("evaluate", data.evaluate->description());
  return json;
}

void describe(Record& record, const Experiment& experiment) {
  record.program = program_name();
  record.suite = experiment.suite;
  record.description = experiment.description;
  record.unit = experiment.data.train->unit();
  record.configuration = experiment.resolved;
  record.origins = origins_of(experiment.resolved);
  record.environment = environment_json();
  record.data = data_json(experiment.data);
  record.ranks = experiment.ranks;
  record.world = experiment.world;
  record.backend = experiment.backend;
  record.strategy = experiment.strategy;
  for (const MeshAxis& axis : mesh_of(experiment.workload.strategy, experiment.ranks))
    record.mesh.emplace_back(axis.name, axis.extent);
  if (const int replicas = key_value_replicas(experiment); replicas > 1) record.key_value_replicas = replicas;
  record.batch_size = experiment.workload.training.batch_size;
  record.tokens_per_row = experiment.tokens;
  record.row_work = experiment.row_work;
  record.evaluation_labels = experiment.data.evaluate ? experiment.data.evaluate->labels() : 0;
  record.target = experiment.run.target;
}

}  // namespace

Json contribution_json(const RankLine& line, const RunTrace& trace) {
  Json json = Json::object();
  json.set("line", rank_line_json(line));
  json.set("training", tally_json(trace.training));
  if (trace.power) json.set("power", power_json(*trace.power));
  return json;
}

Record assemble(const Experiment& experiment, const RunFacts& facts, const Peak& peak, const RunTrace& trace,
                const std::vector<Json>& contributions) {
  Record record;
  describe(record, experiment);
  record.run_index = facts.run_index;
  record.seed = facts.seed;
  record.started_utc = text_utc(facts.started_unix);
  record.timed_claims = facts.timed_claims;
  if (!facts.gpus.is_null()) {
    record.environment.set("gpus", facts.gpus);
    record.environment.set("messages_between_gpus", facts.way);
  }
  if (!facts.links.empty()) record.evidence = "emulated";
  record.parameters = facts.parameters;
  if (facts.pipeline.stages > 1) record.pipeline = facts.pipeline;
  record.steps = trace.steps;
  record.evaluations = trace.evaluations;
  record.stop_reason = trace.stop_reason;
  if (trace.replica_comparisons > 0) record.replica_comparisons = trace.replica_comparisons;
  record.seconds_to_target = trace.seconds_to_target;
  record.timed_seconds = trace.timed_seconds;
  record.phases_seconds = trace.training.phases;

  std::vector<Tally> training;
  std::vector<Power> hosts;
  for (const Json& part : contributions) {
    RankLine& line = record.rank_lines.emplace_back(rank_line_from(part.at("line")));
    training.push_back(tally_from(part.at("training")));
    line.phases_seconds = training.back().phases;
    if (const Json* power = part.find("power")) hosts.push_back(power_from(*power));
    record.flops.training += training.back().work;
  }
  record.power = power_of_all(hosts);
  record.traffic = traffic_lines(training);
  record.flops.steps = static_cast<std::int64_t>(trace.steps.size());
  record.flops.model_full_per_step = facts.model_flops_full;
  record.flops.model_causal_per_step = facts.model_flops_causal;
  record.peak = peak;
  record.step_statistics = step_statistics(record.steps);
  record.utilisation = utilisation_of(record, experiment.workload.training.precision());
  record.verdict = judge(record);
  for (const std::string& note : experiment.notes) record.verdict.notes.push_back(note);
  if (const std::string note = changes_note(experiment); !note.empty()) record.verdict.notes.push_back(note);
  if (!facts.links.empty())
    record.verdict.notes.push_back(
        fmt::format("links of {} (bytes/s, seconds of latency if any) were emulated: times show what overlap would be "
                    "worth, not this machine",
                    facts.links));
  if (const std::string note = strategy_note(experiment.workload.strategy); !note.empty())
    record.verdict.notes.push_back(note);
  return record;
}

}  // namespace quadrille
