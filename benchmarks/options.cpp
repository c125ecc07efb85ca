// SPDX-License-Identifier: Apache-2.0
// See options.h.
#include "benchmarks/options.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "core/build.h"

namespace quadrille {

namespace {

constexpr const char* kHead = "Quadrille: train, time and check distributed training.";

constexpr const char* kFoot = R"(Examples
  quadrille run gpt_tiny                              train to the target on this machine, print the score
  quadrille run gpt_tiny --ranks 2 --strategy data    the same numbers from two ranks
  quadrille run gpt_tiny --runs 5 --out results/mine  five seeds and their olympic mean
  quadrille run gpt_tiny --set training.rate.peak=2e-3 --dry-run
                                                      what would run, and where each value comes from
  mpirun --quiet -n 4 quadrille run gpt_tiny --world mpi --strategy tensor
                                                      with more ranks than cores add --oversubscribe
  quadrille compare results/mine --published          beside published numbers

Exit codes
  0  done: target reached, or no target and all steps done     4  target not reached
  1  failure while running                                     5  diverged: loss or gradients not finite
  2  bad input: nothing was trained                            6  ended, but the result is not valid
  3  a rank did not end after another had failed               7  compare: the runs differ

More: quadrille VERB --help)";

void add_run_options(CLI::App& app, RunOptions& run, bool plan) {
  app.add_option("suite", run.suite, "suite by name (quadrille list) or a .json file")->required();
  app.add_option("--strategy", run.strategy,
                 "strategy by name or a .json file [suite's own; else serial, or data for several ranks]");
  app.add_option("--ranks", run.ranks, "how many ranks [1, or what the launcher started]")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--backend", run.backend, "how ranks compute [cpu]");
  app.add_option("--steps", run.steps, "stop after so many steps (training.steps); the rate decays as in the whole run")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", run.seed, "of the first run; run i adds i (run.seed)")->check(CLI::NonNegativeNumber);
  app.add_option("--set", run.set, "KEY=VALUE: change the suite before it is checked; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--data", run.data, "where data sets lie")->capture_default_str();
  if (plan) return;
  app.add_option("--world", run.world, "threads or mpi [mpi under a launcher, else threads]")
      ->check(CLI::IsMember({"threads", "mpi"}));
  app.add_option("--threads", run.threads, "threads of each rank [usable cores / ranks of a host]")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--runs", run.runs, "so many runs with different seeds (run.runs)")->check(CLI::Range(1, 10000));
  app.add_option("--max-minutes", run.max_minutes, "stop after so long (run.max_minutes)")->check(CLI::PositiveNumber);
  app.add_option("--timeout", run.timeout_seconds, "seconds that a rank waits for the others")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--out", run.out, "folder for log and record, new or empty [runs/SUITE-TIME]");
  app.add_option("--trace", run.trace, "write every op and message of all ranks to this file (Chrome trace format)");
  app.add_flag("--dry-run", run.dry_run,
               "print the resolved suite with the origin of each value, and the plan; train nothing");
  app.add_flag("--allow-singleton", run.allow_singleton,
               "accept a world of one although a launcher's variables are set");
  app.add_flag("--oversubscribe", run.oversubscribe, "accept more ranks x threads on a host than usable cores");
}

void add_compare(CLI::App& app, CompareOptions& compare) {
  app.add_option("first", compare.first, "a record.json, or the folder of a run")->required();
  app.add_option("second", compare.second, "another one: compared step by step");
  app.add_flag("--published", compare.published, "beside published rows, never dividing unlike conditions");
  app.add_option("--tolerance", compare.tolerance, "relative difference of losses that counts as equal")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--rows", compare.rows, "published rows to print at most")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void add_data(CLI::App& app, DataOptions& data) {
  using Action = DataOptions::Action;
  app.require_subcommand(1);
  const auto verb = [&](const char* name, const char* text, Action action) {
    CLI::App* sub = app.add_subcommand(name, text);
    sub->add_option("--data", data.data, "where data sets lie")->capture_default_str();
    sub->parse_complete_callback([&data, action] { data.action = action; });
    return sub;
  };
  CLI::App* fetch = verb("fetch", "fetch a data set, check it and write its manifest", Action::fetch);
  fetch->add_option("name", data.what, "which one [austen]");
  fetch->add_option("--from", data.from, "from this .deb file or folder instead of downloading");
  CLI::App* prepare = verb("prepare", "turn text files into one file of tokens", Action::prepare);
  prepare->add_option("folder", data.what, "where the texts lie, below the data folder")->required();
  prepare->add_option("files", data.files, "the texts, in order")->required();
  prepare->add_option("--output", data.output, "the .bin to write, a new file in the same folder")->required();
  prepare->add_option("--tokenizer", data.tokenizer, "as in a suite")->capture_default_str();
  prepare->add_option("--learn-from", data.learn_from, "texts that alphabet or byte pairs are learned from [files]");
  prepare->add_flag("--blank-lines", data.blank_lines, "parts between blank lines are documents");
  prepare->add_flag("--end-of-text", data.end_of_text, "put the end-of-text id before each document");
  CLI::App* verify =
      verb("verify", "check files against their manifest, or a suite's order of samples", Action::verify);
  verify->add_option("folder", data.what, "below the data folder");
  verify->add_option("--suite", data.suite, "walk this suite's samples: each once per epoch over all ranks");
  CLI::App* show = verb("show", "the first ids of a file and what they stand for", Action::show);
  show->add_option("file", data.what, "text or token file, below the data folder or by its path")->required();
  show->add_option("--count", data.count, "how many")->check(CLI::PositiveNumber)->capture_default_str();
}

}  // namespace

Options read_options(int count, const char* const* words) {
  Options options;
  CLI::App app(kHead, "quadrille");
  app.footer(kFoot);
  app.set_version_flag("--version", "quadrille " + std::string(build_facts().version));
  app.require_subcommand(1);
  app.get_formatter()->column_width(26);

  CLI::App* run = app.add_subcommand("run", "train a suite to its target; the last screen is the score");
  CLI::App* plan = app.add_subcommand("plan", "mesh, shards, memory, FLOPs and traffic of a run, without running it");
  CLI::App* score = app.add_subcommand("score", "olympic mean of the runs in a folder");
  CLI::App* compare = app.add_subcommand("compare", "two runs step by step, or a run beside published results");
  CLI::App* data = app.add_subcommand("data", "fetch, prepare, verify or show data sets");
  CLI::App* list = app.add_subcommand("list", "suites, strategies, models and data sets");
  CLI::App* info = app.add_subcommand("info", "this machine, and what this program was built with");
  add_run_options(*run, options.run, false);
  RunOptions planned;
  add_run_options(*plan, planned, true);
  score->add_option("folders", options.score_folders, "folders that hold result_0.txt, result_1.txt, ...")->required();
  add_compare(*compare, options.compare);
  add_data(*data, options.data);

  try {
    app.parse(count, words);
    if (compare->parsed() && options.compare.published == !options.compare.second.empty())
      throw CLI::ValidationError("compare", "wanted two records, or one and --published");
  } catch (const CLI::Success& answer) {  // help and version
    std::ostringstream text, none;
    app.exit(answer, text, none);
    options.text = text.str();
    return options;
  } catch (const CLI::ParseError& error) {
    options.exit = exit_code::kBadInput;
    options.text = error.what();
    return options;
  }
  if (run->parsed()) options.verb = Verb::run;
  if (plan->parsed()) options.verb = Verb::plan, options.run = planned, options.run.dry_run = true;
  if (score->parsed()) options.verb = Verb::score;
  if (compare->parsed()) options.verb = Verb::compare;
  if (data->parsed()) options.verb = Verb::data;
  if (list->parsed()) options.verb = Verb::list;
  if (info->parsed()) options.verb = Verb::info;
  return options;
}

}  // namespace quadrille
