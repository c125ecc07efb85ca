// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmarks/golden.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "benchmarks/harness/log_configuration.h"
#include "benchmarks/harness/run_log.h"
#include "tests/benchmarks/samples.h"

namespace quadrille {

namespace {

struct Story {  // of a run
  Json values;
  RunLog::Units units;
  std::vector<double> quality;  // after each block
  double block_seconds = 600;
};

// What is the same for all golden logs, and what must not differ from machine to machine.
void add_conditions(Json& values) {
  values.set("organisation", "none, not a submission");
  values.set("platform", "an imaginary machine");
  values.set("division", "closed");
  values.set("status", "research");
  values.set("cache_clear", true);
  values.set("seed", 7);
  values.set("config_filename", values.at("benchmark").string() + ".json");
  for (const char* where : {"precision_linear", "precision_attention", "precision_messages"})
    values.set(where, "bfloat16");
  if (!values.find("target")) values.set("target", Json());
  values.set("configuration_digest", std::string(64, '0'));
  values.set("timed_claims", true);
}

Json given(const std::string& benchmark) {
  return read_json(std::string(SOURCE_FOLDER) + "/tests/golden/values_" + benchmark + ".json");
}

Experiment resolved(const std::string& suite, const std::vector<std::string>& set, const std::string& strategy,
                    int ranks) {
  RunOptions options;
  options.suite = suite, options.set = set, options.strategy = strategy, options.dry_run = true;
  options.data = scratch("no data");
  return resolve(options, ranks, "threads");
}

Story configured(const Experiment& experiment) {
  Story story;
  story.values = configuration_values(experiment, 7, true);
  story.units = log_units(experiment);
  return story;
}

Story story_of(const std::string& name) {
  if (name == "resnet" || name == "resnet_sgd") {
    Story story{given("resnet"), {1281167, 50000, 1, 4 * 1281167}, {0.731, 0.7592}};
    if (name == "resnet_sgd") story.values.set("optimizer", "sgd");
    return story;
  }
  if (name == "bert") return {given("bert"), {156725653, 10000, 512, 150000}, {0.61, 0.702, 0.7203}};
  if (name == "transformer") return {given("transformer"), {4590101, 3003, 80, 4590101}, {0.236, 0.2512}};
  if (name == "gpt3") {
    // The suite starts from random weights; a run that had loaded the prescribed checkpoint would say so.
    Story story = configured(resolved("gpt3_175b", {"mesh.pipe=8", "mesh.x=8"}, "megatron_2021", 512));
    story.values.set("checkpoint_step", 4000);
    story.units.train_samples = 103000000, story.units.eval_samples = 24567;
    story.quality = {2.73, 2.7, 2.6885};
    return story;
  }
  if (name == "llama31_8b") {
    Story story = configured(resolved("llama31_8b", {}, "zero3", 8));
    story.units.train_samples = 1574207408, story.units.eval_samples = 1024;
    story.quality = {3.61, 3.38, 3.295};
    return story;
  }
  std::vector<std::string> set;
  if (name == "gpt_synthetic_sgd") set = {R"(training.optimizer={"kind": "sgd", "momentum": 0.9})"};
  Story story = configured(resolved("gpt_synthetic", set, "serial", 1));
  story.quality = {1.8, 1.44};
  return story;
}

}  // namespace

const std::vector<GoldenLog>& golden_logs() {
  static const std::vector<GoldenLog> kLogs = {
      {"transformer", "0.7.0"}, {"resnet", "4.0.0"}, {"bert", "5.0.0"}, {"gpt3", "4.1.0"}, {"llama31_8b", "6.1.0"}};
  return kLogs;
}

std::string golden_text(const std::string& name) {
  Story story = story_of(name);
  add_conditions(story.values);
  const LogTable& table = log_table(story.values.at("benchmark").string());
  const std::string path = scratch("golden_" + name + ".txt");
  std::filesystem::remove(path);
  {
    const RunClock clock(1700000000.0);
    MlLog file(path, clock);
    log_values(file, table, story.values, 0, 1);
    RunLog log(file, table, story.units);
    double at = 90;
    log.run_start(at);
    log.data(at + 1);
    const std::int64_t batch = story.values.at("batch_size").integer();
    const std::int64_t steps = (story.units.block_samples + batch - 1) / batch;
    RunLog::Place place{0, 0, at + 2};
    for (const double quality : story.quality) {
      log.block_start(place);
      place.step += steps, place.samples += steps * batch, place.at += story.block_seconds;
      Json statistics = Json::object();
      statistics.set("step_seconds", story.block_seconds / static_cast<double>(steps));
      log.statistics(statistics, place);
      log.eval_start(place);
      place.at += 20;
      log.eval_stop(quality, place);
      log.block_stop(place);
    }
    log.run_stop("success", "target reached", place);
  }
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<Json> lines_of_log(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(parse_json(line.substr(9), "log"));
  return lines;
}

std::string text_of_lines(const std::vector<Json>& lines) {
  std::string text;
  for (const Json& line : lines) text += ":::MLLOG " + line.text() + "\n";
  return text;
}

}  // namespace quadrille
