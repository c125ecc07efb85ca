// SPDX-License-Identifier: Apache-2.0
// See experiment.h.
#include "benchmarks/harness/experiment.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "benchmarks/harness/locate.h"
#include "benchmarks/harness/per_batch.h"
#include "benchmarks/harness/published.h"
#include "benchmarks/rules/ruleset.h"
#include "core/error.h"
#include "core/faults.h"
#include "core/json.h"
#include "datasets/commands.h"
#include "kernels/backend.h"
#include "models/model.h"

namespace quadrille {

namespace {

// What is wrong with a suite, collected: a person wants to mend all of it at once.
class Problems {
 public:
  template <class Work>
  bool catching(Work work) {
    try {
      work();
      return true;
    } catch (const Error& error) {
      add(error.what());
      return false;
    }
  }
  void add(std::string text) {
    if (std::find(texts_.begin(), texts_.end(), text) == texts_.end()) texts_.push_back(std::move(text));
  }
  bool none() const { return texts_.empty(); }
  void refuse(const std::string& suite) const {
    if (texts_.empty()) return;
    if (texts_.size() == 1) fail("{}", texts_.front());
    std::string all = fmt::format("{}, as asked for, has {} faults:", suite, texts_.size());
    for (const std::string& text : texts_) {
      all += "\n  - ";
      for (char c : text) all += c == '\n' ? std::string("\n    ") : std::string(1, c);
    }
    fail("{}", all);
  }

 private:
  std::vector<std::string> texts_;
};

void put(Json& document, const char* section, const char* key, Json value, std::string origin) {
  if (!document.find(section)) document.set(section, Json::object().from(origin));
  Json* object = document.find(section);
  if (object->is_object()) object->set(key, value.from(std::move(origin)));  // otherwise the reader complains
}

// Fewer steps are the first steps of the same run: the rate still decays over as many as the suite says.
void keep_schedule(Json& document) {
  Json* training = document.find("training");
  if (!training || !training->is_object()) return;
  const Json* steps = training->find("steps");
  Json* rate = training->find("rate");
  if (!steps || !rate || !rate->is_object() || rate->find("steps")) return;
  const Json* schedule = rate->find("schedule");
  if (schedule && schedule->is_string() && schedule->string() != "constant") rate->set("steps", *steps);
}

void apply_flags(Json& document, const RunOptions& options) {
  if (options.steps) keep_schedule(document);
  const auto text = [](std::string_view flag, const auto& value) { return fmt::format("{} {}", flag, value); };
  if (options.steps) put(document, "training", "steps", *options.steps, text("--steps", *options.steps));
  if (options.seed) put(document, "run", "seed", *options.seed, text("--seed", *options.seed));
  if (options.runs) put(document, "run", "runs", *options.runs, text("--runs", *options.runs));
  if (options.max_minutes)
    put(document, "run", "max_minutes", *options.max_minutes, text("--max-minutes", *options.max_minutes));
}

// The table that a name, a path or the suite itself gives; `name` becomes what a person would call it.
Json strategy_table(const Json* given, const RunOptions& options, int ranks, std::string& name) {
  if (options.strategy)
    name = *options.strategy;
  else if (given && given->is_string())
    name = given->string();
  else if (given) {
    require(given->is_object(), "{}: strategy: found {}, wanted the name of a strategy or its table", given->origin(),
            given->kind());
    name = "of the suite";
    return *given;
  } else
    name = ranks == 1 ? "serial" : "data";
  Json table = read_json(locate_document("strategy", kStrategies, name));
  if (name.ends_with(".json")) name = std::filesystem::path(name).stem().string();
  return table;
}

std::string key_of(const std::string& set) { return set.substr(0, set.find('=')); }
bool within(const std::string& key, std::string_view section) {
  return key == section || key.starts_with(std::string(section) + ".");
}

// Who runs the suite and how it is laid out may change; what is trained towards which target may not, silently.
bool is_layout(const std::string& key) {
  for (const char* section : {"strategy", "mesh", "run.seed", "run.runs", "training.micro_batch"})
    if (within(key, section)) return true;
  return false;
}

// A name that the mesh does not have would become a mesh axis that nobody asked for.
void require_mesh_axis(const Json& strategy, const std::string& set, const std::string& axis) {
  std::vector<std::string> known;
  if (const Json* mesh = strategy.find("mesh"))
    for (const Json& row : mesh->items())
      if (row.is_array() && row.size() > 0 && row.at(std::size_t{0}).is_string())
        known.push_back(row.at(std::size_t{0}).string());
  const std::string near = nearest(axis, known);
  require(std::find(known.begin(), known.end(), axis) != known.end(),
          "--set {}: the mesh of the strategy has no axis \"{}\"{}; it has {}", set, axis,
          near.empty() ? "" : fmt::format(" (nearest: \"{}\")", near),
          known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
}

void apply_set(Json& document, const std::string& set, std::vector<std::string>& changes) {
  const std::string key = key_of(set);
  require(!within(key, "name") && !within(key, "description"),
          "--set {}: a suite's name and description stand for its file; copy the file to run it under another name",
          set);
  require(
      key != "mesh",
      "--set {}: a mesh is a list of axes and is changed axis by axis: use --set mesh.NAME=EXTENT, e.g. --set mesh.x=4",
      set);
  if (within(key, "mesh")) require_mesh_axis(document.at("strategy"), set, key.substr(5));
  const Json before = document;
  set_by_path(document, set.starts_with("mesh.") ? "strategy." + set : set);  // short for the strategy's mesh
  if (!is_layout(key) && !(document == before) && std::find(changes.begin(), changes.end(), key) == changes.end())
    changes.push_back(key);
}

// The batch size that --set asks for; 0: none.
std::int64_t wanted_batch(const RunOptions& options) {
  constexpr const char* kKey = "training.batch_size";
  std::int64_t batch = 0;
  for (const std::string& set : options.set) {
    if (key_of(set) != kKey) continue;
    Json asked = Json::object();
    set_by_path(asked, set);
    const Json& value = asked.at("training").at("batch_size");
    if (value.is_integer()) batch = value.integer();  // otherwise the reader complains
  }
  return batch;
}

// The suite's document with the strategy's table in it and every change of the command line made. A batch size whose
// hyperparameters were published is no change: it is one of the suite's own.
Json changed_document(const std::string& path, const RunOptions& options, int ranks, Experiment& experiment) {
  std::string& strategy = experiment.strategy;
  std::vector<std::string>& changes = experiment.changes;
  Json document = read_json(path);
  require(document.is_object(), "{}: found {}, wanted an object with model, data, training and run", path,
          document.kind());
  const auto names_strategy = [](const std::string& set) { return set.starts_with("strategy="); };
  for (const std::string& set : options.set)
    if (names_strategy(set)) {
      require(!options.strategy, "--set {} beside --strategy {}: give one of the two", set, *options.strategy);
      set_by_path(document, set);
    }
  document.set("strategy", strategy_table(document.find("strategy"), options, ranks, strategy));
  const PerBatch per_batch = apply_per_batch(document, wanted_batch(options));
  if (!per_batch.warning.empty()) experiment.notes.push_back(per_batch.warning);
  for (const std::string& set : options.set)
    if (!names_strategy(set)) apply_set(document, set, changes);
  if (per_batch.published) std::erase(changes, "training.batch_size");
  apply_flags(document, options);
  return document;
}

// A target needs an evaluation set, and one that is measured in the target's unit.
void check_metric(const Experiment& experiment, Problems& problems) {
  if (!experiment.data.train) return;
  if (!experiment.data.evaluate) {
    if (experiment.run.target || experiment.run.evaluate_every > 0 || experiment.run.evaluate_first)
      problems.add(
          "run wants evaluations, but data.evaluate names nothing: name a set, or take target and evaluate_every out");
    return;
  }
  if (!experiment.run.target) return;
  const std::string metric = fmt::format("{}{}", kNatsPer, experiment.data.evaluate->unit());
  if (experiment.run.target->metric != metric && experiment.run.target->metric != kAccuracy)
    problems.add(fmt::format("run.target.metric is '{}', but this data set is measured in {} or in {}",
                             experiment.run.target->metric, metric, kAccuracy));
}

// What this back end cannot do is known before a rank exists, and as true of a plan as of a run.
void check_backend(const Experiment& experiment, bool dry_run, Problems& problems) {
  problems.catching([&] {
    const Backend& backend = backend_named(experiment.backend);
    if (dry_run && backend.name == "counting") return;
    require(backend.name != "counting",
            "back end counting computes nothing, so nothing can be trained on it; use quadrille plan");
    require(backend.computes_f64 || experiment.workload.training.dtype != DType::f64,
            "training.dtype is f64, which back end {} does not compute; take dtype f32, or --backend reference",
            backend.name);
    require(backend.tensor_cores || !experiment.workload.training.tf32,
            "training.dtype is tf32, a mode of NVIDIA's tensor cores, which back end {} does not have; take dtype f32, "
            "or --backend cuda",
            backend.name);
  });
}

void check_published(const std::string& name, Problems& problems) {
  if (name.empty()) return;
  problems.catching([&] {
    std::set<std::string> known;
    for (const Json& row : published_rows(locate_folder("results/published"), "published time to train"))
      known.insert(row.at("benchmark").string());
    if (known.contains(name)) return;
    const std::string near = nearest(name, {known.begin(), known.end()});
    fail("run.published is '{}', which has no published results{}; known: {}", name,
         near.empty() ? "" : fmt::format(", did you mean '{}'?", near), fmt::join(known, ", "));
  });
}

// A suite that says whose rules it follows is logged under the benchmark's name.
void check_ruleset(const RunConfig& run, Problems& problems) {
  if (run.ruleset.empty()) return;
  problems.catching([&] {
    require(read_ruleset(run.ruleset).find(run.published),
            "run.ruleset is '{}', which does not know the benchmark '{}' that run.published names", run.ruleset,
            run.published);
  });
}

// What would bring the data: a command where we have one, else what the suite says.
std::string remedy_for(const Json& data, const std::string& fetch) {
  if (!fetch.empty()) return "\n" + fetch;
  const Json* directory = data.find("directory");
  if (!directory || !directory->is_string()) return {};
  for (const std::string& name : fetchable())
    if (name == directory->string()) return fmt::format("\nquadrille data fetch {} brings this data set", name);
  return {};
}

void open_data(Experiment& experiment, const Json& data, const Json& model, const RunOptions& options,
               Problems& problems) {
  try {
    experiment.data = open_datasets(data, experiment.tokens, options.data);
    experiment.workload.vocabulary = experiment.data.train->vocabulary();
    if (experiment.workload.training.batch_size > 0)
      problems.catching([&] { require_one_batch(*experiment.data.train, experiment.workload.training.batch_size); });
  } catch (const Error& error) {
    const Json* words = model.find("vocabulary") ? model.find("vocabulary") : model.find("classes");
    const std::string text = error.what() + remedy_for(data, experiment.fetch);
    if (!options.dry_run || !words || !words->is_integer()) {
      problems.add(text);
      return;
    }
    experiment.workload.vocabulary = words->integer();
    experiment.notes.push_back("a run would be refused: " + text);
  }
}

// Without data a vocabulary that follows the data is unknown; the model's other faults are named all the same.
void check_model(Experiment& experiment, bool trainable, Json& resolved, Problems& problems) {
  Workload workload = experiment.workload;
  workload.vocabulary = std::max<std::int64_t>(2, workload.vocabulary);
  std::vector<std::string> faults;
  if (trainable) collect_faults(faults, [&] { check_workload(workload, experiment.ranks); });
  for (std::string& fault : faults) problems.add(std::move(fault));
  if (faults.empty())
    problems.catching([&] {
      const auto model = describe_model(workload.model, workload.vocabulary);
      resolved = model->resolved();
      experiment.tokens = model->tokens(), experiment.row_work = model->row_work();
      for (const auto* data : {experiment.data.train.get(), experiment.data.evaluate.get()})
        if (data) require_fields(model->fields(), data->fields());
    });
}

void read_sections(Experiment& experiment, const Json& document, const RunOptions& options, Problems& problems) {
  Reader top(document, "");
  Json training_resolved = Json::object(), run_resolved = Json::object(), model_resolved = Json::object();
  const Json* model = nullptr;
  const Json* data = nullptr;
  const Json* training = nullptr;
  const Json empty = Json::object();
  problems.catching(
      [&] { experiment.suite = top.string("name", std::filesystem::path(experiment.suite_path).stem().string()); });
  problems.catching([&] { experiment.description = top.string("description", ""); });
  problems.catching([&] { experiment.fetch = top.string("fetch", ""); });
  problems.catching([&] { top.string("sources", ""); });  // where the numbers come from: kept with the configuration
  problems.catching([&] { model = &top.needed("model"), model->members(); });
  problems.catching([&] { data = &top.needed("data"), data->members(); });
  const bool trainable = problems.catching([&] {
    training = &top.needed("training");
    experiment.workload.training = read_training(*training, training_resolved);
  });
  experiment.workload.strategy = top.needed("strategy");
  problems.catching([&] {
    const Json* run = top.value("run");
    experiment.run = read_run(run ? *run : empty, run_resolved);
  });
  problems.catching([&] { top.done(); });

  const bool counted = model && model->is_object() && problems.catching([&] {
    model->at("kind").string();
    if (const Json* tokens = model->find("tokens")) {  // of the windows of text
      experiment.tokens = tokens->integer();
      require(experiment.tokens > 0, "{}: model.tokens is {}, wanted at least 1", tokens->origin(), experiment.tokens);
    }
    experiment.workload.model = *model;
  });
  experiment.workload.seed = static_cast<std::uint64_t>(experiment.run.seed);
  if (counted && data && data->is_object()) open_data(experiment, *data, *model, options, problems);
  if (counted) check_model(experiment, trainable, model_resolved, problems);
  check_metric(experiment, problems);
  check_backend(experiment, options.dry_run, problems);
  check_published(experiment.run.published, problems);
  check_ruleset(experiment.run, problems);

  experiment.resolved = top.resolved();
  if (experiment.data.train) experiment.resolved.set("data", experiment.data.resolved);
  experiment.resolved.set("model", model_resolved);
  experiment.resolved.set("training", training_resolved);
  experiment.resolved.set("run", run_resolved);
}

void add_origins(const Json& value, const std::string& path, Json& origins) {
  if (value.is_object()) {
    for (const auto& [name, child] : value.members())
      add_origins(child, path.empty() ? name : path + "." + name, origins);
    return;
  }
  origins.set(path, value.origin().empty() ? "default" : value.origin());
}

}  // namespace

RunConfig read_run(const Json& object, Json& resolved) {
  RunConfig run;
  Reader reader(object, "run");
  std::optional<Json> target_resolved;
  if (const Json* target = reader.value("target"); target && !target->is_null()) {
    Reader inner(*target, "run.target");
    Target t;
    t.metric = inner.string("metric");
    t.value = inner.number("value");
    t.direction = inner.choice("direction", {"at_most", "at_least"}, "at_most");
    require(std::isfinite(t.value), "run.target.value must be a finite number");
    require(t.direction == "at_most" || !t.metric.starts_with("nats_"),
            "{}: run.target.direction is at_least, but {} falls as a model learns: wanted at_most",
            inner.origin_of("direction"), t.metric);
    inner.done();
    run.target = t;
    target_resolved = inner.resolved();
  }
  const auto at_least = [&](const char* key, double value, double least) {
    require(value >= least && std::isfinite(value), "{}: {} is {}, wanted at least {}", reader.origin_of(key),
            reader.path_of(key), value, least);
  };
  run.evaluate_every = reader.integer("evaluate_every", 0);
  run.evaluate_first = reader.boolean("evaluate_first", false);
  run.warm_up_steps = reader.integer("warm_up_steps", 2);
  run.max_minutes = reader.number("max_minutes", 0.0);
  const std::int64_t runs = reader.integer("runs", 1);
  run.seed = reader.integer("seed", 1);
  run.probe_seconds = reader.number("probe_seconds", 1.0);
  run.published = reader.string("published", "");
  run.ruleset = reader.string("ruleset", "");
  at_least("evaluate_every", static_cast<double>(run.evaluate_every), 0);
  at_least("warm_up_steps", static_cast<double>(run.warm_up_steps), 0);
  at_least("max_minutes", run.max_minutes, 0);
  at_least("runs", static_cast<double>(runs), 1);
  at_least("seed", static_cast<double>(run.seed), 0);
  at_least("probe_seconds", run.probe_seconds, 0);
  require(runs <= 10000, "{}: run.runs is {}, wanted at most 10000", reader.origin_of("runs"), runs);
  require(run.seed <= std::numeric_limits<std::int64_t>::max() - runs,
          "{}: run.seed is {}, wanted at most {}: run i of {} adds i to it", reader.origin_of("seed"), run.seed,
          std::numeric_limits<std::int64_t>::max() - runs, runs);
  run.runs = static_cast<int>(runs);
  reader.done();
  resolved = reader.resolved();
  if (target_resolved) resolved.set("target", *target_resolved);
  return run;
}

Experiment resolve(const RunOptions& options, int ranks, const std::string& world) {
  Experiment experiment;
  experiment.suite_path = locate_document("suite", kSuites, options.suite);
  experiment.ranks = ranks;
  experiment.world = world;
  experiment.backend = options.backend.value_or("cpu");
  const Json document = changed_document(experiment.suite_path, options, ranks, experiment);
  Problems problems;
  read_sections(experiment, document, options, problems);
  problems.refuse(experiment.suite_path);
  return experiment;
}

std::string changes_note(const Experiment& experiment) {
  if (experiment.changes.empty()) return {};
  return fmt::format("{}{}", kChangedSuite, fmt::join(experiment.changes, ", "));
}

std::string name_of_suite(const Experiment& experiment) {
  return experiment.suite + (experiment.changes.empty() ? "" : " (changed)");
}

Json origins_of(const Json& document) {
  Json origins = Json::object();
  add_origins(document, "", origins);
  return origins;
}

std::vector<std::string> mesh_axes_of(const Json& strategy, std::string_view axis, std::string_view section) {
  const Json* axes = strategy.find(section);
  const Json* on = axes && axes->is_object() ? axes->find(axis) : nullptr;
  std::vector<std::string> names;
  if (on && on->is_string()) names.push_back(on->string());
  if (on && on->is_array())
    for (const Json& name : on->items()) names.push_back(name.string());
  return names;
}

std::string pipeline_axis_of(const Json& strategy) {
  const Json* pipeline = strategy.find("pipeline");
  if (!pipeline) return "";
  const Json* axis = pipeline->find("axis");
  return axis ? axis->string() : "pipe";
}

std::string strategy_note(const Json& strategy) {
  const Json* recompute = strategy.find("recompute");
  if (!recompute || *recompute != Json("selective")) return "";
  return "recompute: \"selective\" equals \"none\" here, because attention with online softmax keeps no scores to drop";
}

int extent_of(const Json& strategy, std::string_view axis, const std::vector<MeshAxis>& mesh) {
  int extent = 1;
  for (const std::string& name : mesh_axes_of(strategy, axis))
    for (const MeshAxis& along : mesh)
      if (along.name == name) extent *= along.extent;
  return extent;
}

}  // namespace quadrille
