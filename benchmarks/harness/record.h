// SPDX-License-Identifier: Apache-2.0
// Everything a reader needs to trust or repeat a run, as plain values, and its file format. docs/metrics.md explains
// each field, results/schema.json describes the file. Written by the session, read by `compare`, `score` and the tests.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/ledger.h"
#include "models/model.h"
#include "training/trainer.h"

namespace quadrille {

inline constexpr int kRecordSchema = 1;

struct Target {
  std::string metric;  // "nats_per_character"
  double value = 0;
  std::string direction = "at_most";  // or "at_least"
  bool reached_by(double quality) const { return direction == "at_most" ? quality <= value : quality >= value; }
};

inline constexpr std::string_view kNatsPer = "nats_per_";  // and the unit of the data set
inline constexpr std::string_view kAccuracy = "accuracy";  // the share of counted labels that are right
// What quality is measured in: what the target says, else the usual for such data ("accuracy" of images).
std::string metric_of(const std::optional<Target>&, const std::string& unit);
std::string quality_text(const std::string& metric, double quality);  // "1.4480 nats per character", "accuracy 91.20 %"

struct StepLine {
  std::int64_t step = 0;
  double seconds = 0, loss = 0, gradient_norm = 0, rate = 0, labels = 0;
  bool finite = true, warm_up = false;
};

struct EvaluationLine {
  std::int64_t step = 0, samples = 0;  // training steps and samples before it
  double quality = 0, loss_sum = 0, labels = 0, units = 0, seconds = 0;
  std::optional<double> correct;       // labels; absent in records of older programs
  double seconds_since_run_start = 0;  // when it was known
  bool reached = false;
};

// What one rank is and took. Kept for every rank.
struct RankLine {
  int rank = 0;
  std::string host, device;
  std::int64_t process = 0;
  std::vector<int> cpus;  // bound to these; empty: not bound
  int threads = 1;
  double launch_seconds = 0, communicators_seconds = 0, build_seconds = 0, weights_seconds = 0, data_seconds = 0,
         probe_seconds = 0;
  MemoryReport forecast, measured;
  std::int64_t process_bytes_peak = 0;
  std::map<std::string, double> phases_seconds;
};

struct TrafficLine {  // of the training steps; counts and volumes summed over all ranks
  std::string mesh_axes, kind;
  std::int64_t calls = 0;
  double elements = 0, bytes = 0;
  double seconds_mean = 0, seconds_max = 0;  // per rank, over the whole run
  double exposed_mean = 0;                   // part of the mean in which the rank's own thread stood still
};

struct Flops {
  double model_full_per_step = 0, model_causal_per_step = 0;
  Work training;  // executed, summed over ranks and steps; evaluations are not in it
  std::int64_t steps = 0;
};

struct Peak {
  double measured_fma_flops_per_second = 0, measured_gemm_flops_per_second = 0, clock_hertz = 0, spread_fraction = 0;
  int cores = 0;  // distinct cores in use; the peaks are of all of them together
  std::string instruction_set;
  std::string number_type;  // what was probed: "f32"
  std::optional<double> datasheet_flops_per_second;
  std::string datasheet_source;  // "n/a: ..." when the chip is unknown
  std::string note;              // why nothing was measured
};

// Drawn by all GPUs of the run from run_start to run_stop.
struct Power {
  std::string source;  // "not measured: ..." where that is so
  std::optional<double> joules, mean_watts, max_watts, longest_seconds_between_samples;
  std::int64_t samples = 0;  // of each host, at least
};

struct StepStatistics {
  std::string status;  // "ok" or "too few steps"
  std::int64_t count = 0, warm_up_steps = 0;
  std::optional<double> median_seconds, p5_seconds, p95_seconds, min_seconds, max_seconds, mean_seconds;
  std::optional<double> labels_per_second;
};

struct Utilisation {  // over the steps of the statistics; absent: not known
  std::optional<double> model_full_flops_per_second, model_causal_flops_per_second, hardware_flops_per_second;
  std::optional<double> mfu_full_of_measured_peak, mfu_causal_of_measured_peak, hfu_of_measured_peak;
  std::optional<double> mfu_full_of_datasheet_peak, mfu_causal_of_datasheet_peak, hfu_of_datasheet_peak;
  std::optional<double> model_full_of_peak_in_timed_interval;  // model FLOPs / (measured peak x run_start..run_stop)
};

struct Verdict {
  bool valid = true;
  std::vector<std::string> reasons, notes;
};

struct Record {
  int schema_version = kRecordSchema;
  std::string kind = "run", evidence = "measured", program, suite, description, unit;  // unit: "character"
  std::string started_utc;
  int run_index = 0;
  std::int64_t seed = 0;
  Json configuration = Json::object(), origins = Json::object(), environment = Json::object(), data = Json::object();
  int ranks = 1;
  std::string world, backend, strategy;
  bool timed_claims = true;                         // the back end is meant for timed results
  std::vector<std::pair<std::string, int>> mesh;    // outermost first
  std::optional<PipelineReport> pipeline;           // of more than one stage
  std::optional<int> key_value_replicas;            // more than one rank holds the same key/value head
  std::optional<RowWork> row_work;                  // absent in records of older programs: tokens_per_row of "token"
  std::optional<std::int64_t> replica_comparisons;  // all equal; absent when none was asked for
  std::int64_t parameters = 0, batch_size = 0, tokens_per_row = 0, evaluation_labels = 0;
  std::optional<Target> target;
  std::optional<double> seconds_to_target;
  double timed_seconds = 0;                      // run_start to run_stop
  std::map<std::string, double> phases_seconds;  // of rank 0, "other" included
  std::vector<StepLine> steps;
  StepStatistics step_statistics;
  std::vector<EvaluationLine> evaluations;
  Flops flops;
  Peak peak;
  std::optional<Power> power;  // absent in records of older programs
  Utilisation utilisation;
  std::vector<TrafficLine> traffic;
  std::vector<RankLine> rank_lines;
  std::string stop_reason;  // one of stop::
  Verdict verdict;
};

// Why a run ended.
namespace stop {
inline constexpr const char* kTarget = "target reached";
inline constexpr const char* kSteps = "steps done";
inline constexpr const char* kTime = "time limit";
inline constexpr const char* kDiverged = "diverged";
}  // namespace stop

Json record_json(const Record&);
Record record_from(const Json&);  // throws Error: missing fields, another schema version
Record read_record(const std::string& path_or_folder);
// record_0.json, record_1.json, ... of the folder that `--runs N` leaves, in the order of their numbers; empty when it
// holds none, or is no folder.
std::vector<std::string> records_of_set(const std::string& folder);
Json power_json(const Power&);
Power power_from(const Json&);
Json rank_line_json(const RankLine&);  // ranks send theirs to rank 0
RankLine rank_line_from(const Json&);

}  // namespace quadrille
