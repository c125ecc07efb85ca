// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/samples.h"

#include <filesystem>

#include "benchmarks/harness/peaks.h"
#include "benchmarks/harness/verdict.h"
#include "datasets/child.h"

namespace quadrille {

namespace {

void add_conditions(Record& r) {
  r.program = "quadrille 0.1.0", r.suite = "gpt_test", r.description = "a test", r.unit = "character";
  r.started_utc = "2025-01-31T12:34:56Z", r.seed = 7;
  r.configuration = parse_json(
      R"({"model": {"kind": "gpt", "layers": 2}, "data": {"directory": "austen", "evaluate": ["persuasion.txt"]},
          "training": {"batch_size": 8, "dtype": "f32"}, "run": {"published": "gpt_test"}})",
      "sample");
  r.origins = parse_json(R"({"model.layers": "suite.json:3:5"})", "sample");
  r.environment = parse_json(R"({"cpu_model": "Chip A", "host": "here", "source_modified": false})", "sample");
  r.data = parse_json(R"({"train": {"files": []}, "evaluate": {"files": []}})", "sample");
  r.ranks = 2, r.world = "threads", r.backend = "cpu", r.strategy = "data", r.mesh = {{"data", 2}};
  r.parameters = 1000000, r.batch_size = 8, r.tokens_per_row = 16, r.row_work = RowWork{16, "token"},
  r.evaluation_labels = 400;
  r.target = Target{"nats_per_character", 1.7, "at_most"};
}

void add_steps(Record& r) {
  for (int i = 1; i <= 10; ++i) {
    StepLine line{i, 0.1 + 0.001 * i, 4.0 / i, 1.0 / i, 1e-3, 128, true, i <= 2};
    r.steps.push_back(line);
  }
  r.evaluations.push_back({5, 40, 2.0, 900, 400, 450, 0.05, 0.6, false});
  r.evaluations.push_back({10, 80, 1.65, 742.5, 400, 450, 0.05, 1.2, true});
  r.seconds_to_target = 1.2, r.timed_seconds = 1.2, r.stop_reason = stop::kTarget;
  r.phases_seconds = {{"forward", 0.4}, {"backward", 0.7}, {"evaluation", 0.1}, {"other", 0.0}};
}

}  // namespace

Record good_record() {
  Record r;
  add_conditions(r);
  add_steps(r);
  r.flops = {1e9, 0.9e9, {8e9, 0.5e9, 0.25e9, 0.125e9, 2e9}, 10};
  r.peak = {100e9, 80e9, 3e9, 0.01, 2, "AVX2", "f32", 200e9, "a data sheet", ""};
  r.pipeline = PipelineReport{4, 1, "1f1b", {8, 8, 7, 7}, 2, 0.6};
  r.key_value_replicas = 2;
  r.replica_comparisons = 3;
  r.traffic.push_back({"data", "all_reduce", 20, 1e6, 4e6, 0.01, 0.02, 0.005});
  for (int rank = 0; rank < 2; ++rank) {
    RankLine line;
    line.rank = rank, line.host = "here", line.device = "cpu", line.process = 42, line.cpus = {rank};
    line.launch_seconds = 0.1, line.communicators_seconds = 0.01, line.build_seconds = 0.2, line.weights_seconds = 0.05;
    line.data_seconds = 0.02, line.probe_seconds = 1;
    line.forecast = {1000, 1000, 2000, 5000, 100}, line.measured = {1000, 1000, 2000, 5100, 100};
    line.process_bytes_peak = 100000;
    line.phases_seconds = r.phases_seconds;
    r.rank_lines.push_back(line);
  }
  r.step_statistics = step_statistics(r.steps);
  r.utilisation = utilisation_of(r, "f32");
  r.verdict = judge(r);
  return r;
}

std::string scratch(const std::string& name) {
  static const TemporaryFolder kFolder(std::filesystem::temp_directory_path().string(), "quadrille-test");
  return kFolder.path() + "/" + name;
}

}  // namespace quadrille
