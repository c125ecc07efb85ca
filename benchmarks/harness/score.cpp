// SPDX-License-Identifier: Apache-2.0
// See score.h. The rule: with N >= 3 runs the fastest and the slowest are dropped and the others averaged. One run that
// did not converge counts as the slowest; two make the set invalid. (training_rules, "Benchmark Results".)
#include "benchmarks/harness/score.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "benchmarks/harness/log_configuration.h"
#include "benchmarks/harness/text.h"
#include "core/error.h"

namespace quadrille {

namespace {

constexpr std::string_view kPrefix = ":::MLLOG ";

std::string target_text(const RunOutcome& run) {
  if (!run.target) return "no target";
  return fmt::format("{} {} {} per {}", run.target->metric, run.target->direction, run.target->value, run.unit);
}

// A run that an older program logged names no digest; it is then alike only to others without one.
void check_alike(const std::vector<RunOutcome>& runs, Score& score) {
  std::map<std::int64_t, std::size_t> seen;
  for (std::size_t index = 0; index < runs.size(); ++index) {
    const RunOutcome& run = runs[index];
    for (const std::string& fault : run.faults) score.reasons.push_back(fmt::format("{}: {}", run.file, fault));
    if (target_text(run) != target_text(runs.front()))
      score.reasons.push_back(fmt::format("different targets: {} has {}, {} has {}", runs.front().file,
                                          target_text(runs.front()), run.file, target_text(run)));
    else if (run.configuration_digest != runs.front().configuration_digest)
      score.reasons.push_back(
          fmt::format("different configurations: {} and {} (compare their records)", runs.front().file, run.file));
    if (run.benchmark != runs.front().benchmark)
      score.reasons.push_back(fmt::format("different benchmarks: {} is {}, {} is {}", runs.front().file,
                                          runs.front().benchmark, run.file, run.benchmark));
    if (run.batch_size != runs.front().batch_size)
      score.reasons.push_back(fmt::format("different batch sizes: {} has {}, {} has {}", runs.front().file,
                                          runs.front().batch_size, run.file, run.batch_size));
    for (std::int64_t seed : run.seeds) {
      const auto [first, fresh] = seen.emplace(seed, index);
      if (!fresh && first->second != index)
        score.reasons.push_back(fmt::format("seed {} was used by {} and by {}: not two independent runs", seed,
                                            runs[first->second].file, run.file));
    }
  }
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

struct Reading {
  double start_ms = -1, stop_ms = -1;
  bool target_stated = false, evaluated = false, reached = false;
};

void note_place(RunOutcome& run, const Json& metadata) {
  const auto number = [&](const char* name) -> std::optional<double> {
    const Json* value = metadata.find(name);
    return value && value->is_number() ? std::optional(value->number()) : std::nullopt;
  };
  run.epoch_num = number("epoch_num"), run.samples_count = number("samples_count");
}

void note_quality(RunOutcome& run, const std::string& key, const Json& value, Reading& reading) {
  if (key == "quality_target") {
    reading.target_stated = true;
    if (value.is_null()) return;
    run.target = Target{value.at("metric").string(), value.at("value").number(), value.at("direction").string()};
    run.unit = value.at("unit").string();
  } else if (key == "eval_accuracy" && reading.start_ms >= 0 && reading.stop_ms < 0) {
    reading.evaluated = true;
    if (run.target && run.target->reached_by(value.number())) reading.reached = true;
  } else if (key == "configuration_digest") {
    run.configuration_digest = value.string();
  } else if (key == "timed_claims") {
    run.timed_claims = value.boolean();
  }
}

void note_line(RunOutcome& run, const Json& line, Reading& reading, const std::string& where) {
  double &start_ms = reading.start_ms, &stop_ms = reading.stop_ms;
  const std::string& key = line.at("key").string();
  const Json& value = line.at("value");
  const auto time_ms = [&] { return line.at("time_ms").number(); };
  if (key == "submission_benchmark") run.benchmark = value.string();
  if (key == "submission_division" && value.is_string()) run.division = value.string();
  if (key == "global_batch_size") run.batch_size = value.integer();
  if (key == "seed") run.seeds.push_back(value.integer());
  note_quality(run, key, value, reading);
  if (const Json* metadata = line.find("metadata"); metadata && metadata->is_object() && key == "eval_accuracy")
    if (reading.stop_ms < 0) note_place(run, *metadata);
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

// A word in a log is no proof: the evaluation that it stands on must be there.
void check_success(RunOutcome& run, const Reading& reading) {
  if (!reading.target_stated)
    run.faults.emplace_back("says success, but has no quality_target line, so nothing shows what was reached");
  else if (run.target && !reading.reached)
    run.faults.push_back(fmt::format("says success, but {} {}",
                                     reading.evaluated ? "no evaluation reached" : "never evaluated for",
                                     target_text(run)));
}

// result_3.txt stands beside record_3.json, the only run of a folder beside record.json. Empty: there is none.
std::string record_beside(const std::string& log) {
  namespace fs = std::filesystem;
  const fs::path path(log);
  const std::string name = path.filename().string();
  if (!name.starts_with("result_") || !name.ends_with(".txt")) return {};
  const std::string number = name.substr(7, name.size() - 11);
  fs::path record = path.parent_path() / ("record_" + number + ".json");
  if (fs::exists(record)) return record.string();
  record = path.parent_path() / "record.json";
  return number == "0" && fs::exists(record) ? record.string() : std::string();
}

void check_record(RunOutcome& run, const std::string& path) {
  constexpr double kMilliseconds = 0.0021;  // the log rounds both ends
  std::optional<Record> read;
  try {
    read = read_record(path);
  } catch (const Error& error) {
    run.faults.push_back(fmt::format("the record beside it cannot be read: {}", error.what()));
    return;
  }
  const Record& record = *read;
  if (!record.verdict.valid)
    run.faults.push_back(fmt::format("its record is not valid: {}", record.verdict.reasons.empty()
                                                                        ? "no reason given"
                                                                        : record.verdict.reasons.front()));
  const auto disagree = [&](const char* what) {
    run.faults.push_back(fmt::format("{} differs from its record", what));
  };
  if (configuration_digest(record.configuration, record.backend, record.ranks) != run.configuration_digest)
    disagree("its configuration");
  if (run.seeds != std::vector<std::int64_t>{record.seed}) disagree("its seed");
  if (run.target && std::abs(record.seconds_to_target.value_or(-1) - run.seconds) > kMilliseconds)
    disagree("its time to target");
  if (record.timed_claims != run.timed_claims) disagree("its claim to a time");
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
  for (const RunOutcome& run : runs)
    if (!run.timed_claims) score.timed_claim = false;
  if (!score.timed_claim)
    score.notes.emplace_back("not valid as a timed claim: the back end judges the others, and its times claim nothing");
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
  Reading reading;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const auto at = line.find(kPrefix);
    if (at == std::string::npos) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    // A run that was killed may leave half a line behind: it then counts as a run that did not converge.
    if (file.eof() && (line.empty() || line.back() != '}')) break;
    note_line(run, parse_json(std::string_view(line).substr(at + kPrefix.size()), where), reading, where);
  }
  require(!run.benchmark.empty(), "{}: no submission_benchmark line; is it the log of a run?", path);
  const double start_ms = reading.start_ms, stop_ms = reading.stop_ms;
  if (stop_ms >= 0) {
    run.seconds = (stop_ms - start_ms) / 1000;
    require(run.seconds >= 0, "{}: run_stop is {} s before run_start", path, -run.seconds);
  } else {
    run.why_not =
        start_ms < 0 ? "no run_start: the run ended during initialisation" : "no run_stop: the run ended early";
  }
  if (run.converged) {
    check_success(run, reading);
    if (const std::string record = record_beside(path); !record.empty()) check_record(run, record);
  }
  return run;
}

std::vector<std::string> run_logs_in(const std::vector<std::string>& folders) {
  namespace fs = std::filesystem;
  std::vector<std::string> logs;
  std::set<std::string> seen;
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
    for (const auto& [number, path] : numbered) {
      require(seen.insert(fs::canonical(path).string()).second,
              "{} is named twice: one run counts once; give each folder once", path);
      logs.push_back(path);
    }
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
  json.set("timed_claim", score.valid && score.timed_claim);
  json.set("method", score.olympic ? "olympic mean" : "plain mean");
  if (score.valid) json.set("score_seconds", score.seconds);
  if (score.valid && score.scaling != 1) json.set("scaling", score.scaling);
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
    if (!run.faults.empty()) one.set("faults", texts(run.faults));
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
               run.faults.empty() ? run.converged ? run.target ? "reached the target" : "all steps done" : run.why_not
                                  : "not believed, see below"});
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
