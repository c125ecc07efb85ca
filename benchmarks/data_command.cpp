// SPDX-License-Identifier: Apache-2.0
// `quadrille data fetch|prepare|verify|show`: prints what the functions of datasets/commands.h do.
#include <fmt/core.h>

#include <filesystem>

#include "benchmarks/commands.h"
#include "benchmarks/harness/experiment.h"
#include "core/error.h"
#include "core/json.h"
#include "datasets/commands.h"

namespace quadrille {

namespace {

void say(std::string_view line) { fmt::print("  {}\n", line); }

int fetch(const DataOptions& options) {
  const Fetched fetched = fetch_data({options.what.empty() ? "austen" : options.what, options.from, options.data}, say);
  fmt::print("{}: {}\n", fetched.directory, fetched.already_there ? "already there, undamaged" : "fetched");
  return exit_code::kGood;
}

int prepare(const DataOptions& options) {
  PrepareOptions prepare;
  prepare.data_root = options.data;
  prepare.directory = options.what;
  prepare.files = options.files;
  prepare.learn_from = options.learn_from;
  prepare.tokenizer = parse_json(options.tokenizer, "--tokenizer");
  prepare.blank_lines = options.blank_lines;
  prepare.end_of_text = options.end_of_text;
  prepare.output = options.output;
  fmt::print("{}\n", prepare_data(prepare, say).text(1));
  return exit_code::kGood;
}

int verify(const DataOptions& options) {
  require(options.what.empty() != options.suite.empty(), "data verify wants a folder below {}, or --suite SUITE",
          options.data);
  if (options.suite.empty()) {
    const std::string folder = (std::filesystem::path(options.data) / options.what).string();
    fmt::print("{}\n", verify_directory(folder, say).text(1));
    return exit_code::kGood;
  }
  RunOptions run;
  run.suite = options.suite;
  run.data = options.data;
  run.backend = "reference";  // nothing is computed; this one is in every build
  const Experiment experiment = resolve(run, 1, "threads");
  CoverageOptions coverage;
  coverage.seed = experiment.workload.seed;
  coverage.batch_size = experiment.workload.training.batch_size;
  fmt::print("{}\n", verify_coverage(experiment.data, coverage, say).text(1));
  return exit_code::kGood;
}

}  // namespace

int data_command(const DataOptions& options) {
  switch (options.action) {
    case DataOptions::Action::fetch:
      return fetch(options);
    case DataOptions::Action::prepare:
      return prepare(options);
    case DataOptions::Action::verify:
      return verify(options);
    case DataOptions::Action::show:
      fmt::print("{}", show_file(options.what, options.count, options.data));
      return exit_code::kGood;
  }
  return exit_code::kFailure;
}

}  // namespace quadrille
