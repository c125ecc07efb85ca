// SPDX-License-Identifier: Apache-2.0
// What the command line asked for, as plain values. The library that reads it is seen by options.cpp alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/rules/submission.h"

namespace quadrille {

// Exit codes of the program, printed by --help.
namespace exit_code {
inline constexpr int kGood = 0, kFailure = 1, kBadInput = 2, kStuck = 3, kNotReached = 4, kDiverged = 5, kNotValid = 6,
                     kDiffers = 7;  // kStuck is kExitStuckRank of parallelism/world.h
}  // namespace exit_code

// Which GPUs ranks take, and how their messages travel.
struct DeviceOptions {
  std::string devices;  // "0,1"; empty: all there are
  std::string collectives = "auto";
  bool share = false;
};

struct RunOptions {
  std::string suite;
  std::optional<std::string> strategy, backend;
  std::optional<int> ranks, threads, runs;
  std::optional<std::int64_t> steps, seed;
  std::optional<double> max_minutes;
  std::string world;             // empty: mpi under a launcher, else threads
  std::vector<std::string> set;  // KEY=VALUE
  double timeout_seconds = 60;
  std::int64_t check_replicas = 0;  // compare replicated tensors after every so many steps; 0: never
  std::string out, data = "data", trace, dump_samples;
  int data_threads = 1;  // of each rank, beside it
  std::string links;     // "BYTES_PER_S,SECONDS": emulate links of this bandwidth and latency; empty: none
  DeviceOptions gpus;
  bool dry_run = false, allow_singleton = false, oversubscribe = false;
};

struct CompareOptions {
  std::string first, second;
  bool published = false;
  double tolerance = 0;  // relative, of losses
  int rows = 8;
};

struct DataOptions {
  enum class Action : std::uint8_t { fetch, prepare, verify, show } action = Action::show;
  std::string what;  // fetch: a name; prepare, verify: a folder below the data root; show: a file
  std::string from, suite, data = "data";
  std::vector<std::string> files, learn_from;
  std::string tokenizer = R"({"kind": "byte"})", output;
  bool blank_lines = false, end_of_text = false;
  std::int64_t count = 32;
};

struct CheckOptions {
  bool layouts = false, all = false;
  std::optional<std::int64_t> first;                  // of the layouts; all of them if left out
  std::string part;                                   // "2/4": every fourth of them from the second on
  int steps = 20;                                     // of AdamW
  std::string model = "gpt", backend = "cpu", world;  // world empty: mpi under a launcher, else threads
  std::optional<int> ranks;
  double timeout_seconds = 60;
  DeviceOptions gpus;
};

struct LogCheckOptions {
  std::vector<std::string> files;
  std::string ruleset;
};

struct BleuOptions {
  std::string hypotheses, references;
  bool lower = false;
};

enum class Verb : std::uint8_t { none, run, plan, score, compare, check, log_check, package, data, bleu, list, info };

struct Options {
  Verb verb = Verb::none;  // none: the text has been printed, leave with `exit`
  int exit = 0;
  std::string text;  // to be printed: help (exit 0) or a complaint
  RunOptions run;    // of run and plan
  CompareOptions compare;
  CheckOptions check;
  LogCheckOptions log_check;
  SubmissionOptions package;
  DataOptions data;
  BleuOptions bleu;
  std::string list;  // "strategies"; empty: everything
  std::vector<std::string> score_folders;
};
Options read_options(int count, const char* const* words);

}  // namespace quadrille
