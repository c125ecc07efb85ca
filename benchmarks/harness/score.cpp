// SPDX-License-Identifier: Apache-2.0
// See score.h. The rule: with N >= 3 runs the fastest and the slowest are dropped and the others averaged. One run that
// did not converge counts as the slowest; two make the set invalid. (training_rules, "Benchmark Results".)
#include "benchmarks/harness/score.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "benchmarks/harness/text.h"
#include "core/error.h"

namespace quadrille {

namespace {

constexpr std::string_view kPrefix = ":::MLLOG ";

void check_alike(const std::vector<RunOutcome>& runs, Score& score) {
  std::map<std::int64_t, std::string> seen;
  for (const RunOutcome& run : runs) {
    if (run.benchmark != runs.front().benchmark)
      score.reasons.push_back(fmt::format("different benchmarks: {} is {}, {} is {}", runs.front().file,
                                          runs.front().benchmark, run.file, run.benchmark));
    if (run.batch_size != runs.front().batch_size)
      score.reasons.push_back(fmt::format("different batch sizes: {} has {}, {} has {}", runs.front().file,
                                          runs.front().batch_size, run.file, run.batch_size));
    for (std::int64_t seed : run.seeds) {
      const auto [first, fresh] = seen.emplace(seed, run.file);
      if (!fresh && first->second != run.file)
        score.reasons.push_back(
            fmt::format("seed {} was used by {} and by {}: not two independent runs", seed, first->second, run.file));
    }
  }
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void note_line(RunOutcome& run, const Json& line, double& start_ms, double& stop_ms, const std::string& where) {
  const std::string& key = line.at("key").string();
  const Json& value = line.at("value");
  const auto time_ms = [&] { return line.at("time_ms").number(); };
  if (key == "submission_benchmark") run.benchmark = value.string();
  if (key == "global_batch_size") run.batch_size = value.integer();
  if (key == "seed") run.seeds.push_back(value.integer());
  if (key == "run_start") {
    require(start_ms < 0, "{}: a second run_start; one file holds one run", where);
    start_ms = time_ms();
  }
  if (key == "run_stop") {
    require(start_ms >= 0, "{}: run_stop before run_start", where);
    require(stop_ms < 0, "{}: a second run_stop; one file holds one run", where);
    stop_ms = time_ms();
    const Json* status = line.at("metadata").find("status");
    run.converged = status && status->is_string() && status->string() == "success";
    if (!run.converged)
      run.why_not = fmt::format("run_stop says {}",
                                status ? status->is_string() ? status->string() : status->text() : "no status");
  }
}

}  // namespace

Score score_of(const std::vector<RunOutcome>& runs) {
  Score score;
  score.runs = static_cast<int>(runs.size());
  if (runs.empty()) {
    score.reasons.emplace_back("no runs");
    return score;
  }
  check_alike(runs, score);
  std::vector<double> times;
  for (const RunOutcome& run : runs) {
    if (run.converged)
      times.push_back(run.seconds);
    else
      ++score.not_converged;
  }
  std::sort(times.begin(), times.end());
  if (!times.empty()) score.fastest_seconds = times.front(), score.slowest_seconds = times.back();

  score.olympic = runs.size() >= 3;
  if (score.olympic) {
    if (score.not_converged > 1)
      score.reasons.push_back(
          fmt::format("{} of {} runs did not converge; one is allowed", score.not_converged, score.runs));
    if (score.not_converged == 1) score.notes.emplace_back("the run that did not converge counts as the slowest");
    if (score.not_converged == 0) times.pop_back();
    if (score.not_converged <= 1) times.erase(times.begin());
  } else {
    if (score.not_converged > 0)
      score.reasons.push_back(fmt::format("{} of {} runs did not converge", score.not_converged, score.runs));
    score.notes.push_back(fmt::format("{} run{}: a plain mean, not an olympic mean, which needs three", score.runs,
                                      score.runs == 1 ? "" : "s"));
  }
  score.valid = score.reasons.empty();
  score.seconds = score.valid ? mean(times) : std::numeric_limits<double>::quiet_NaN();
  return score;
}

RunOutcome read_run_log(const std::string& path) {
  std::ifstream file(path);
  require(file.is_open(), "cannot read {}", path);
  RunOutcome run;
  run.file = path;
  double start_ms = -1, stop_ms = -1;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const auto at = line.find(kPrefix);
    if (at == std::string::npos) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    // A run that was killed may leave half a line behind: it then counts as a run that did not converge.
    if (file.eof() && (line.empty() || line.back() != '}')) break;
    note_line(run, parse_json(std::string_view(line).substr(at + kPrefix.size()), where), start_ms, stop_ms, where);
  }
  require(!run.benchmark.empty(), "{}: no submission_benchmark line; is it the log of a run?", path);
  if (stop_ms >= 0) {
    run.seconds = (stop_ms - start_ms) / 1000;
    require(run.seconds >= 0, "{}: run_stop is {} s before run_start", path, -run.seconds);
  } else {
    run.why_not =
        start_ms < 0 ? "no run_start: the run ended during initialisation" : "no run_stop: the run ended early";
  }
  return run;
}

std::vector<std::string> run_logs_in(const std::vector<std::string>& folders) {
  namespace fs = std::filesystem;
  std::vector<std::string> logs;
  for (const std::string& folder : folders) {
    require(fs::is_directory(folder), "{} is not a folder; wanted one that holds result_0.txt, result_1.txt, ...",
            folder);
    std::map<long long, std::string> numbered;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("result_") || !name.ends_with(".txt")) continue;
      const std::string digits = name.substr(7, name.size() - 11);
      if (!digits.empty() && digits.size() < 10 && digits.find_first_not_of("0123456789") == std::string::npos)
        numbered[std::stoll(digits)] = entry.path().string();
    }
    require(!numbered.empty(), "no result_*.txt in {}; give the --out folder of a run", folder);
    for (const auto& [number, path] : numbered) logs.push_back(path);
  }
  return logs;
}

Json score_json(const Score& score, const std::vector<RunOutcome>& runs) {
  const auto texts = [](const std::vector<std::string>& lines) {
    Json array = Json::array();
    for (const std::string& line : lines) array.push(line);
    return array;
  };
  Json json = Json::object();
  json.set("schema_version", 1);
  json.set("kind", "score");
  json.set("benchmark", runs.empty() ? "" : runs.front().benchmark);
  json.set("valid", score.valid);
  json.set("method", score.olympic ? "olympic mean" : "plain mean");
  if (score.valid) json.set("score_seconds", score.seconds);
  json.set("runs", score.runs);
  json.set("runs_not_converged", score.not_converged);
  json.set("reasons", texts(score.reasons));
  json.set("notes", texts(score.notes));
  Json outcomes = Json::array();
  for (const RunOutcome& run : runs) {
    Json one = Json::object();
    one.set("file", std::filesystem::path(run.file).filename().string());
    one.set("converged", run.converged);
    one.set("seconds", run.seconds);
    if (!run.converged) one.set("why_not", run.why_not);
    outcomes.push(one);
  }
  json.set("outcomes", outcomes);
  return json;
}

std::string score_text(const Score& score, const std::vector<RunOutcome>& runs) {
  using Align = TextTable::Align;
  TextTable table({{"run", Align::left}, {"seed"}, {"batch"}, {"seconds"}, {"outcome", Align::left}});
  for (const RunOutcome& run : runs)
    table.row({std::filesystem::path(run.file).filename().string(),
               run.seeds.empty() ? "-" : fmt::format("{}", run.seeds.front()), fmt::format("{}", run.batch_size),
               run.seconds > 0 || run.converged ? fmt::format("{:.3f}", run.seconds) : "-",
               run.converged ? "reached the target" : run.why_not});
  std::string text = table.text() + "\n";
  if (score.valid)
    text += fmt::format("Score  {:.3f} s  ({:.4f} min), {} of {} run{}\n", score.seconds, score.seconds / 60,
                        score.olympic ? "olympic mean" : "plain mean", score.runs, score.runs == 1 ? "" : "s");
  else
    text += "Score  none: the set is not valid\n";
  for (const std::string& reason : score.reasons) text += "  not valid: " + reason + "\n";
  for (const std::string& note : score.notes) text += "  note: " + note + "\n";
  return text;
}

}  // namespace quadrille
