// SPDX-License-Identifier: Apache-2.0
// See program.h.
#include "benchmarks/program.h"

#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string_view>

#include "benchmarks/commands.h"
#include "benchmarks/harness/text.h"
#include "benchmarks/options.h"
#include "core/error.h"
#include "parallelism/world.h"

namespace quadrille {

namespace {

// Under a launcher every process meets the same mistake; one of them is enough to tell it. Errors inside a world are
// told by the failing rank alone, the others end as Poisoned.
bool first_process() { return speaks_for_launcher(); }

void complain(const std::string& text) {
  fmt::print(stderr, "quadrille: error: {}\n", text_shortened(text));
  std::fflush(stderr);
}

int run_verb(const Options& options, const RunClock& clock, std::atomic<bool>& began, const WrapWorld& wrap) {
  switch (options.verb) {
    case Verb::run:
      return options.run.dry_run ? plan_command(options.run) : run_command(options.run, clock, began, wrap);
    case Verb::plan:
      return plan_command(options.run);
    case Verb::score:
      return score_command(options.score_folders);
    case Verb::compare:
      return compare_command(options.compare);
    case Verb::data:
      return data_command(options.data);
    case Verb::check:
      return check_command(options.check, wrap);
    case Verb::log_check:
      return log_check_command(options.log_check);
    case Verb::package:
      return package_command(options.package);
    case Verb::bleu:
      return bleu_command(options.bleu);
    case Verb::list:
      return list_command(options.list);
    case Verb::info:
      return info_command();
    case Verb::none:
      break;
  }
  if (!options.text.empty() && first_process()) {
    if (options.exit == exit_code::kGood)
      fmt::print("{}", options.text);
    else
      complain(options.text + "; see quadrille --help");
  }
  return options.exit;
}

}  // namespace

int run_program(int count, const char* const* words, const WrapWorld& wrap) {
  const RunClock clock;
  std::atomic<bool> began = false;
  bool in_world = false;
  try {
    const Options options = read_options(count, words);
    in_world = options.verb == Verb::check || (options.verb == Verb::run && !options.run.dry_run);
    return run_verb(options, clock, began, wrap);
  } catch (const Poisoned&) {            // another rank failed, and tells
  } catch (const WorldFailure& error) {  // thrown on one rank only
    complain(error.what());
    return exit_code::kFailure;
  } catch (const Error& error) {
    const std::string_view text = error.what();
    // What was found before there were ranks is the same in every process; a rank's failure begins with its number.
    if (!in_world || text.starts_with("rank ") || first_process()) complain(error.what());
  } catch (const std::bad_alloc&) {
    complain("out of memory; quadrille plan SUITE shows what a run needs");
  } catch (const std::filesystem::filesystem_error& error) {
    complain(fmt::format("{}: {}; give another path", error.path1().string(), error.code().message()));
  } catch (const std::exception& error) {
    complain(fmt::format("unexpected: {}", error.what()));
  }
  return began ? exit_code::kFailure : exit_code::kBadInput;
}

}  // namespace quadrille
