// SPDX-License-Identifier: Apache-2.0
// A suite, resolved: the document with all changes from the command line applied, every section read strictly, the data
// sets opened (names, sizes and headers only), and everything checked that can be checked before a rank exists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/record.h"
#include "benchmarks/options.h"
#include "core/json.h"
#include "datasets/dataset.h"
#include "models/model.h"
#include "training/trainer.h"

namespace quadrille {

// The "run" object of a suite.
struct RunConfig {
  std::optional<Target> target;
  std::int64_t evaluate_every = 0;  // steps; 0: never, or at the end only when there is a target
  bool evaluate_first = false;      // once before the first step
  std::int64_t warm_up_steps = 2;   // marked, and left out of the step statistics
  double max_minutes = 0;           // 0: no limit
  int runs = 1;
  std::int64_t seed = 1;
  double probe_seconds = 1;  // for the peak probe; 0: no probe, no utilisation
  std::string published;     // the published benchmark of the same name, or ""
  std::string ruleset;       // whose rules it follows (benchmarks/rulesets), or ""
};
RunConfig read_run(const Json& object, Json& resolved);

struct Experiment {
  std::string suite, description, suite_path, strategy;
  std::vector<std::string> changes;  // what --set changed of the suite file, e.g. "run.target.value"
  std::string fetch;                 // what brings the data, for the refusal when it is not there
  Workload workload;
  RunConfig run;
  std::string backend, world;
  int ranks = 1;
  std::int64_t tokens = 0;         // of one row's sequence; 0: the model has none
  RowWork row_work;                // how throughput is counted
  Datasets data;                   // empty only for a plan without data
  std::vector<std::string> notes;  // what a plan could not know
  Json resolved = Json::object();  // the whole document, values with their origins
};

// The note that a record carries then: "changed suite: run.target.value, training.steps".
inline constexpr const char* kChangedSuite = "changed suite: ";
std::string changes_note(const Experiment&);   // empty: none
std::string name_of_suite(const Experiment&);  // "gpt_tiny" or "gpt_tiny (changed)"

// Throws one Error that lists every violation found.
Experiment resolve(const RunOptions&, int ranks, const std::string& world);

// "training.rate.peak" -> "--set training.rate.peak=2e-3": every leaf of a document with the place it came from.
Json origins_of(const Json& document);
// The mesh axes that a strategy table names for one thing: for a model axis where it rests, in section "store" for
// weights, gradients or optimizer over what they are cut.
std::vector<std::string> mesh_axes_of(const Json& strategy, std::string_view axis, std::string_view section = "axes");
std::string pipeline_axis_of(const Json& strategy);  // empty: none
std::string strategy_note(const Json& strategy);     // what a reader of the table should know; empty: nothing
// The product of their extents on this mesh.
int extent_of(const Json& strategy, std::string_view axis, const std::vector<MeshAxis>& mesh);

}  // namespace quadrille
