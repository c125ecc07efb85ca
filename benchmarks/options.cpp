// SPDX-License-Identifier: Apache-2.0
// See options.h.
#include "benchmarks/options.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "benchmarks/harness/text.h"
#include "core/build.h"
#include "core/error.h"
#include "core/json.h"
#include "parallelism/links.h"

namespace quadrille {

namespace {

constexpr const char* kHead = "Quadrille: train, time and check distributed training.";

constexpr const char* kFoot = R"(Examples
  quadrille run gpt_tiny                              train to the target on this machine, print the score
  quadrille run gpt_tiny --runs 5 --out results/mine  five seeds and their olympic mean
  quadrille plan gpt_tiny --ranks 8 --strategy data_tensor --set mesh.x=4
                                                      what each of them would hold, compute and send
  quadrille compare results/mine --published          beside published numbers
  quadrille check --layouts --ranks 4                 is every way to split a model over 4 ranks right?

Exit codes
  0  done: target reached, or no target and all steps done     4  target not reached
  1  failure while running; check: a layout is wrong           5  diverged: loss or gradients not finite
  2  bad input: nothing was trained                            6  the result is not valid, or a log has findings
  3  a rank did not end after another had failed               7  compare: the runs differ
  130, 143  ended by Ctrl-C or SIGTERM; an MPI launcher gives its own code then

More: quadrille VERB --help)";

constexpr const char* kRunFoot = R"(Examples
  quadrille run gpt_tiny                              train to the target on this machine, print the score
  quadrille run gpt_tiny --steps 100                  a quick look
  quadrille run gpt_tiny --ranks 2 --strategy data    the same numbers from two ranks
  quadrille run gpt_tiny --runs 5 --out results/mine  five seeds and their olympic mean
  quadrille run gpt_tiny --set training.rate.peak=2e-3 --dry-run
                                                      what would run, and where each value comes from
  mpirun --quiet -n 2 quadrille run gpt_tiny --world mpi --strategy tensor
                                                      with more ranks than cores add --oversubscribe to both;
                                                      as root Open MPI wants OMPI_ALLOW_RUN_AS_ROOT=1 and
                                                      OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)";

constexpr const char* kPlanFoot = R"(Examples
  quadrille plan gpt_tiny --ranks 8 --strategy data
  quadrille plan llama31_8b --ranks 1024 --strategy data_tensor --set mesh.x=8 --set training.batch_size=128
  quadrille plan gpt3_175b --ranks 1024 --strategy megatron_2021 --set mesh.pipe=8 --set mesh.x=8)";

constexpr const char* kScoreFoot = R"(Example
  quadrille score results/mine        after: quadrille run gpt_tiny --runs 5 --out results/mine)";

constexpr const char* kCompareFoot = R"(Examples
  quadrille compare results/mine/record_0.json results/mine/record_1.json
  quadrille compare results/mine --published)";

constexpr const char* kCheckFoot = R"(Examples
  quadrille check --layouts
  quadrille check --layouts --ranks 8 --backend reference)";

constexpr const char* kLogCheckFoot = R"(Examples
  quadrille log-check results/mine/result_0.txt results/mine/result_1.txt --ruleset house
  quadrille log-check results/mine/result_0.txt --ruleset 6.1.0
Exit code 6: something was found. Rule sets: quadrille list rulesets; what they hold: docs/rules.md)";

constexpr const char* kPackageFoot = R"(Example
  quadrille package results/mine --out results/package --submitter "Example Institute"
Exit code 6: written, but something that a submission needs is missing; each thing is named. docs/rules.md)";

constexpr const char* kBleuFoot = R"(Example
  quadrille bleu --hypotheses out.txt --references data/libreoffice_help/test.de.txt
Plain detokenised text, a sentence a line. What is computed: docs/metrics.md)";

constexpr const char* kDataFoot = R"(Examples
  quadrille data fetch austen
  quadrille data fetch fashion_mnist
  quadrille data verify austen
  quadrille data verify --suite gpt_tiny
  quadrille data show austen/emma.txt --count 8
  quadrille data prepare austen emma.txt --output emma.bin --tokenizer '{"kind": "bpe", "vocabulary": 512}')";

// Our own checks of numbers: the library's accept what 64 bits cannot hold by clamping it, and name limits of 300
// digits.
CLI::Validator whole(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  return CLI::Validator(
      [least, most](std::string& word) -> std::string {
        std::int64_t value = 0;
        const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (code == std::errc::result_out_of_range)
          return fmt::format("{} does not fit into 64 bits", text_shortened(word));
        if (code != std::errc() || end != word.data() + word.size())
          return fmt::format("{} is not a whole number", text_shortened(word));
        if (value < least) return fmt::format("{} must be at least {}", value, least);
        if (value > most) return fmt::format("{} must be at most {}", value, most);
        return {};
      },
      "");
}

// An empty word would pass for an option that was not given.
CLI::Validator some() {
  return CLI::Validator([](std::string& word) { return std::string(word.empty() ? "is empty" : ""); }, "");
}

CLI::Validator links() {
  return CLI::Validator(
      [](std::string& word) -> std::string {
        try {
          links_from_text(word);
          return {};
        } catch (const Error& error) {
          return error.what();
        }
      },
      "");
}

CLI::Validator real(bool zero_too) {
  return CLI::Validator(
      [zero_too](std::string& word) -> std::string {
        double value = 0;
        const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (code == std::errc::invalid_argument || end != word.data() + word.size())
          return fmt::format("{} is not a number", text_shortened(word));
        if (code != std::errc() || !std::isfinite(value))
          return fmt::format("{} is not a finite number", text_shortened(word));
        if (zero_too ? value < 0 : value <= 0)
          return fmt::format("{} must be {}", text_shortened(word), zero_too ? "0 or above" : "above 0");
        return {};
      },
      "");
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) names.push_back(verb->get_name());
  return names;
}

// What the library calls "not expected" is most often a slip of the pen: "; did you mean --ranks?", or nothing.
std::string slip(const CLI::App& app, int count, const char* const* words) {
  const CLI::App* verb = &app;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i], name = word.substr(0, word.find('='));
    if (!word.starts_with("-")) {
      const std::vector<std::string> verbs = verb_names(*verb);
      if (verbs.empty()) continue;
      if (std::find(verbs.begin(), verbs.end(), word) != verbs.end()) {
        verb = verb->get_subcommand(word);
        continue;
      }
      const std::string near = nearest(word, verbs);
      return fmt::format("; unknown verb '{}'{}; known: {}", text_shortened(word),
                         near.empty() ? "" : fmt::format(", did you mean '{}'?", near), fmt::join(verbs, ", "));
    }
    const std::vector<std::string> names = option_names(*verb);
    if (!name.starts_with("--") || std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string near = nearest(name, names);
    return near.empty() ? "" : fmt::format("; unknown option {}, did you mean {}?", text_shortened(name), near);
  }
  return {};
}

void add_gpu_options(CLI::App& app, DeviceOptions& gpus) {
  app.add_option("--devices", gpus.devices, "GPUs that the ranks of a host take in turn, such as 0,1 [all]");
  app.add_flag("--share-devices", gpus.share, "accept several ranks on one GPU; messages go through host memory then");
  app.add_option(
         "--collectives", gpus.collectives,
         "how numbers of GPUs travel: nccl, host (through host memory), or auto: NCCL where it is built and each "
         "rank has a GPU of its own")
      ->check(CLI::IsMember({"auto", "nccl", "host"}))
      ->capture_default_str();
}

void add_run_options(CLI::App& app, RunOptions& run, bool plan) {
  app.add_option("suite", run.suite, "suite by name (quadrille list) or a .json file")->required();
  app.add_option("--strategy", run.strategy,
                 "strategy by name or a .json file [suite's own; else serial, or data for several ranks]");
  app.add_option("--ranks", run.ranks, "how many ranks [1, or what the launcher started]")->check(whole(1, 1 << 24));
  app.add_option("--backend", run.backend, "how ranks compute: cpu, cuda or reference [cpu]");
  app.add_option("--steps", run.steps, "stop after so many steps (training.steps); the rate decays as in the whole run")
      ->check(whole(1));
  app.add_option("--seed", run.seed, "of the first run; run i adds i (run.seed)")->check(whole(0));
  app.add_option("--set", run.set, "KEY=VALUE: change the suite before it is checked; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--data", run.data, "where data sets lie")->capture_default_str();
  if (plan) return;
  app.add_option("--world", run.world, "threads or mpi [mpi under a launcher, else threads]");
  app.add_option("--threads", run.threads, "threads of each rank [usable cores / ranks of a host]")
      ->check(whole(1, 1 << 20));
  app.add_option("--data-threads", run.data_threads,
                 "threads beside each rank that read the rows of coming steps; 0: the rank reads them itself")
      ->check(whole(0, 1 << 10))
      ->capture_default_str();
  app.add_option("--runs", run.runs, "so many runs with different seeds (run.runs)")->check(whole(1, 10000));
  app.add_option("--max-minutes", run.max_minutes,
                 "stop after so long, looked at between steps and evaluations (run.max_minutes)")
      ->check(real(false));
  app.add_option("--timeout", run.timeout_seconds, "seconds that a rank waits for the others")
      ->check(real(false))
      ->capture_default_str();
  app.add_option("--out", run.out, "folder for log and record, new or empty [runs/SUITE-TIME]");
  app.add_option("--trace", run.trace, "write every op and message of all ranks to this file (Chrome trace format)");
  app.add_option("--dump-samples", run.dump_samples,
                 "write which samples each rank takes up in training to this file: JSON lines, one a rank, step and "
                 "micro-batch, with epochs and numbers of the samples; kept in memory until the run ends");
  app.add_option("--check-replicas", run.check_replicas,
                 "compare what several ranks hold alike after every so many steps, and name the tensor that drifts")
      ->check(whole(1));
  app.add_option("--links", run.links,
                 "BYTES_PER_S[,SECONDS]: slow every message down to links of this bandwidth and latency (0 if left "
                 "out); evidence is then "
                 "\"emulated\", never a timed claim")
      ->check(some())
      ->check(links());
  add_gpu_options(app, run.gpus);
  app.add_flag("--dry-run", run.dry_run,
               "print the resolved suite with the origin of each value, and the plan; train nothing");
  app.add_flag("--allow-singleton", run.allow_singleton,
               "accept a world of one although a launcher's variables are set");
  app.add_flag("--oversubscribe", run.oversubscribe,
               "accept more ranks x threads on a host than usable cores, and a forecast above the free memory");
}

void add_compare(CLI::App& app, CompareOptions& compare) {
  app.add_option("first", compare.first, "a record.json, or the folder of a run (with --published also of several)")
      ->required();
  app.add_option("second", compare.second, "another one: compared step by step");
  app.add_flag("--published", compare.published, "beside published rows, never dividing unlike conditions");
  app.add_option("--tolerance", compare.tolerance,
                 "relative difference of losses and evaluations that counts as equal;\n"
                 "                          0: bit for bit, as one layout gives twice; another layout, back end or\n"
                 "                          machine rounds differently (try 1e-4). Times are shown, never judged")
      ->check(real(true))
      ->capture_default_str();
  app.add_option("--rows", compare.rows, "published rows to print at most")
      ->check(whole(1, 1000))
      ->capture_default_str();
}

void add_check(CLI::App& app, CheckOptions& check) {
  app.add_flag("--layouts", check.layouts, "every mesh of the ranks against the serial run, in every number")
      ->required();
  app.add_option("model", check.model, "which model (quadrille list models)")->capture_default_str();
  app.add_option("--ranks", check.ranks, "how many ranks [4, or what the launcher started]")->check(whole(1, 256));
  app.add_flag("--all", check.all, "every combination of choices; without it every pair of them occurs at least once");
  app.add_option("--first", check.first,
                 "only so many of these layouts: each brings as many new pairs as one can, so the first bring most")
      ->check(whole(1))
      ->excludes("--all");
  app.add_option("--part", check.part,
                 "of these layouts every N-th from the K-th on, as K/N: several programs share the work");
  app.add_option("--steps", check.steps,
                 "steps of AdamW whose losses are compared, after the one step whose every number is")
      ->check(whole(1, 1000))
      ->capture_default_str();
  app.add_option("--backend", check.backend, "how ranks compute in f32, and in f64 if it can; else reference does")
      ->capture_default_str();
  app.add_option("--world", check.world, "threads or mpi [mpi under a launcher, else threads]");
  add_gpu_options(app, check.gpus);
  app.add_option("--timeout", check.timeout_seconds, "seconds that a rank waits for the others")
      ->check(real(false))
      ->capture_default_str();
}

void add_log_check(CLI::App& app, LogCheckOptions& check) {
  app.add_option("files", check.files, "event logs of runs: result_0.txt ...")->required();
  app.add_option("--ruleset", check.ruleset, "whose rules: house (our own suites), 6.1.0, ..., or a .json file")
      ->required();
}

void add_bleu(CLI::App& app, BleuOptions& bleu) {
  app.add_option("--hypotheses", bleu.hypotheses, "what was translated, a sentence a line")->required();
  app.add_option("--references", bleu.references, "what was wanted, line by line")->required();
  app.add_flag("--lowercase", bleu.lower, "make letters small first (case:lc)");
}

void add_package(CLI::App& app, SubmissionOptions& package) {
  app.add_option("folders", package.folders, "folders that hold result_0.txt, result_1.txt, ...")->required();
  app.add_option("--out", package.out, "a folder that is new or empty")->required();
  app.add_option("--submitter", package.submitter, "who submits");
  app.add_option("--system", package.system, "name of the system [the host's]");
}

void add_data(CLI::App& app, DataOptions& data) {
  using Action = DataOptions::Action;
  app.require_subcommand(1);
  const auto verb = [&](const char* name, const char* text, Action action) {
    CLI::App* sub = app.add_subcommand(name, text);
    sub->footer("");
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
  show->add_option("--count", data.count, "how many")->check(whole(1))->capture_default_str();
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
  CLI::App* check = app.add_subcommand("check", "is every layout of a toy model equal to the serial run?");
  CLI::App* log_check = app.add_subcommand("log-check", "does an event log say all that a rule set wants?");
  CLI::App* package = app.add_subcommand("package", "runs as the tree of a submission, and what it lacks");
  CLI::App* bleu = app.add_subcommand("bleu", "BLEU of translations against references, with its signature");
  CLI::App* list = app.add_subcommand("list", "suites, strategies, models, data sets and rule sets");
  CLI::App* info = app.add_subcommand("info", "this machine, and what this program was built with");
  const std::vector<std::pair<CLI::App*, const char*>> feet = {{run, kRunFoot},
                                                               {plan, kPlanFoot},
                                                               {score, kScoreFoot},
                                                               {compare, kCompareFoot},
                                                               {data, kDataFoot},
                                                               {check, kCheckFoot},
                                                               {log_check, kLogCheckFoot},
                                                               {package, kPackageFoot},
                                                               {bleu, kBleuFoot},
                                                               {list, ""},
                                                               {info, ""}};
  for (const auto& [verb, foot] : feet) verb->footer(foot);
  add_run_options(*run, options.run, false);
  RunOptions planned;
  add_run_options(*plan, planned, true);
  score->add_option("folders", options.score_folders, "folders that hold result_0.txt, result_1.txt, ...")->required();
  add_compare(*compare, options.compare);
  add_data(*data, options.data);
  add_check(*check, options.check);
  add_log_check(*log_check, options.log_check);
  add_package(*package, options.package);
  add_bleu(*bleu, options.bleu);
  list->add_option("what", options.list, "only suites, strategies, models, data or rulesets")
      ->check(CLI::IsMember({"suites", "strategies", "models", "data", "rulesets"}));

  try {
    app.parse(count, words);
    if (compare->parsed() && options.compare.published == !options.compare.second.empty())
      throw CLI::ValidationError("compare", "wanted two records, or one and --published");
    if (options.run.dry_run && !options.run.dump_samples.empty())
      throw CLI::ValidationError("--dump-samples",
                                 "tells what ranks took up in training, and a dry run trains nothing: leave one out");
  } catch (const CLI::Success& answer) {  // help and version
    std::ostringstream text, none;
    app.exit(answer, text, none);
    options.text = text.str();
    return options;
  } catch (const CLI::ParseError& error) {
    options.exit = exit_code::kBadInput;
    options.text = text_shortened(error.what()) + slip(app, count, words);
    return options;
  }
  if (run->parsed()) options.verb = Verb::run;
  if (plan->parsed()) options.verb = Verb::plan, options.run = planned, options.run.dry_run = true;
  if (score->parsed()) options.verb = Verb::score;
  if (compare->parsed()) options.verb = Verb::compare;
  if (data->parsed()) options.verb = Verb::data;
  if (check->parsed()) options.verb = Verb::check;
  if (log_check->parsed()) options.verb = Verb::log_check;
  if (package->parsed()) options.verb = Verb::package;
  if (bleu->parsed()) options.verb = Verb::bleu;
  if (list->parsed()) options.verb = Verb::list;
  if (info->parsed()) options.verb = Verb::info;
  return options;
}

}  // namespace quadrille
