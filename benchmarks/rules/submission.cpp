// SPDX-License-Identifier: Apache-2.0
// See submission.h. The layout: the public package checker, systems/ID.json, results/ID/BENCHMARK/result_I.txt,
// benchmarks/BENCHMARK/implementations/.
#include "benchmarks/rules/submission.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "benchmarks/harness/environment.h"
#include "benchmarks/harness/record.h"
#include "benchmarks/harness/score.h"
#include "benchmarks/rules/conformance.h"
#include "benchmarks/rules/lint.h"
#include "benchmarks/rules/system_description.h"
#include "core/error.h"
#include "core/json.h"
#include "parallelism/world.h"

namespace quadrille {

namespace {

namespace fs = std::filesystem;
using Runs = std::vector<RunOutcome>;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "cannot read {}", path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A name that is safe as a folder's.
std::string tidy(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '-' || (c == '.' && !out.empty());
    out += plain ? c : '_';
  }
  return out.empty() ? "system" : out;
}

std::string first_value(const LogText& log, std::string_view key) {
  for (const LogLine& line : log.lines)
    if (line.key == key && line.value.is_string()) return line.value.string();
  return {};
}

// The record beside result_3.txt is record_3.json, of the only run record.json. Empty: none.
std::string record_of(const std::string& log) {
  const fs::path path(log);
  const std::string stem = path.stem().string();  // result_3
  for (const std::string& name : {"record_" + stem.substr(stem.find('_') + 1) + ".json", std::string("record.json")})
    if (fs::exists(path.parent_path() / name)) return (path.parent_path() / name).string();
  return {};
}

class Packer {
 public:
  Packer(const SubmissionOptions& options, Submission& result) : options_(options), result_(result) {
    facts_.submitter = options.submitter;
    facts_.system_name = options.system.empty() ? host_name() : options.system;
    id_ = tidy(facts_.system_name);
  }

  void add(const std::string& benchmark, const Runs& runs) {
    const std::string name = tidy(benchmark);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const std::string text = content_of(runs[i].file);
      write(fmt::format("results/{}/{}/result_{}.txt", id_, name, i), text);
      note_log(runs[i].file, read_log_text(text));
    }
    const std::string record = record_of(runs.front().file);
    const std::string place = "benchmarks/" + name + "/implementations/quadrille/";
    write(place + "README.md", fmt::format("# {}\n\n{}, run as `quadrille run` with the configuration beside this "
                                           "file. Results are not verified by MLCommons.\n",
                                           benchmark, program_name()));
    if (record.empty())
      missing("{}: no record beside {}, so no configuration and no number of nodes", benchmark, runs.front().file);
    else
      note_record(place, record);
    note_rules(benchmark, runs);
  }

  void finish() {
    if (submissions_.size() > 1) missing("the logs say different divisions: package each on its own");
    facts_.division = submissions_.empty() ? "" : *submissions_.begin();
    const Json description = system_description(facts_);
    write("systems/" + id_ + ".json", description.text(2) + "\n");
    for (const std::string& field : missing_fields(description))
      missing("systems/{}.json: {} has no value", id_, field);
  }

 private:
  template <class... Args>
  void missing(fmt::format_string<Args...> text, Args&&... args) {
    std::string line = fmt::format(text, std::forward<Args>(args)...);
    auto& all = result_.missing;
    if (std::find(all.begin(), all.end(), line) == all.end()) all.push_back(std::move(line));
  }

  void write(const std::string& path, const std::string& text) {
    const fs::path full = fs::path(options_.out) / path;
    fs::create_directories(full.parent_path());
    require(!fs::exists(full), "{} exists already: nothing is overwritten; give another --out", full.string());
    write_file_whole(full.string(), text);
    result_.written.push_back(path);
  }

  void note_log(const std::string& file, const LogText& log) {
    if (const std::string division = first_value(log, "submission_division"); !division.empty())
      submissions_.insert(division);
    const std::string platform = first_value(log, "submission_platform");
    if (platform == cpu_model()) return;
    facts_.this_machine = false;
    missing("{} is a run on \"{}\", this machine is \"{}\": its parts are left out of the system description", file,
            platform, cpu_model());
  }

  void note_record(const std::string& place, const std::string& path) {
    try {
      const Record record = read_record(path);
      std::set<std::string> hosts;
      for (const RankLine& line : record.rank_lines) {
        hosts.insert(line.host);
        facts_.accelerators = facts_.accelerators || record.backend == "cuda";
      }
      facts_.nodes = std::max(facts_.nodes, static_cast<int>(hosts.size()));
      write(place + "configuration.json", record.configuration.text(2) + "\n");
    } catch (const Error& error) {
      missing("{}", error.what());
    }
  }

  void note_rules(const std::string& benchmark, const Runs& runs) {
    const RulesScore judged = score_by_rules(runs);
    for (const std::string& reason : judged.score.reasons) missing("{}: {}", benchmark, reason);
    for (const RuleState& state : conformance(runs, judged))
      if (state.state == RuleState::State::broken && state.rule != "review")
        missing("{}: {}: {}", benchmark, state.rule, state.text);
  }

  const SubmissionOptions& options_;
  Submission& result_;
  SystemFacts facts_;
  std::string id_;
  std::set<std::string> submissions_;
};

}  // namespace

Submission write_submission(const SubmissionOptions& options) {
  require(!fs::exists(options.out) || (fs::is_directory(options.out) && fs::is_empty(options.out)),
          "--out {} exists and is not an empty folder: nothing is overwritten; give another one", options.out);
  std::map<std::string, Runs> benchmarks;
  for (const std::string& log : run_logs_in(options.folders)) {
    RunOutcome run = read_run_log(log);
    benchmarks[run.benchmark].push_back(std::move(run));
  }
  // Made beside its place and moved there whole: a failure leaves nothing that looks like a tree.
  SubmissionOptions beside = options;
  fs::path place = fs::path(options.out).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();  // it was written with a slash at its end
  beside.out = place.string() + ".partial";
  require(!fs::exists(beside.out), "{} exists, left by a package that did not end: remove it", beside.out);
  Submission result;
  try {
    Packer packer(beside, result);
    for (const auto& [benchmark, runs] : benchmarks) packer.add(benchmark, runs);
    packer.finish();
    fs::remove(options.out);  // an empty folder
    fs::rename(beside.out, options.out);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(beside.out, ignored);
    throw;
  }
  return result;
}

}  // namespace quadrille
