// SPDX-License-Identifier: Apache-2.0
// `quadrille check --layouts`: one line per layout as it goes, then one table with the worst of each quantity.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "benchmarks/commands.h"
#include "benchmarks/harness/environment.h"
#include "benchmarks/harness/gpus.h"
#include "benchmarks/harness/interruption.h"
#include "benchmarks/harness/mllog.h"
#include "benchmarks/harness/text.h"
#include "core/error.h"
#include "core/json.h"
#include "kernels/backend.h"
#include "models/model.h"
#include "parallelism/world.h"
#include "training/law/visit.h"

namespace quadrille {

namespace {

using Align = TextTable::Align;

// The distance that comes nearest to its bound, or lies farthest beyond it.
const Distance* nearest_to_bound(const LawFinding& finding) {
  const Distance* worst = nullptr;
  for (const Distance& d : finding.worst)
    if (!worst || !(d.relative / d.bound <= worst->relative / worst->bound)) worst = &d;
  return worst;
}

class Report {
 public:
  explicit Report(std::size_t layouts) : layouts_(layouts) {}

  void tell(const LawLayout& layout, const LawFinding& finding) {
    bad_ += !finding.good();
    const Distance* worst = nearest_to_bound(finding);
    fmt::print("{:>5}/{}  {}  {}", finding.layout + 1, layouts_, finding.good() ? "equal" : "WRONG", layout.name);
    if (finding.good() && worst)
      fmt::print("  ({} within {:.1e} of {:.0e})", name_of(worst->quantity), worst->relative, worst->bound);
    fmt::print("\n");
    if (!finding.refusal.empty()) fmt::print("         {}\n", finding.refusal);
    constexpr std::size_t kShown = 5;
    for (std::size_t i = 0; i < std::min(kShown, finding.beyond.size()); ++i)
      fmt::print("         {}\n", finding.beyond[i].text());
    if (finding.beyond.size() > kShown) fmt::print("         and {} more\n", finding.beyond.size() - kShown);
    std::fflush(stdout);
    for (const Distance& d : finding.worst) note(d, layout);
  }

  std::size_t bad() const { return bad_; }

  std::string worst_table() {
    std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
      return std::make_pair(a.dtype == DType::f32, a.distance.quantity) <
             std::make_pair(b.dtype == DType::f32, b.distance.quantity);
    });
    TextTable table({{"type", Align::left},
                     {"quantity", Align::left},
                     {"worst"},
                     {"bound"},
                     {"where", Align::left},
                     {"layout", Align::left}});
    for (const auto& [dtype, d, layout] : rows_)
      table.row({std::string(name_of(dtype)), name_of(d.quantity), fmt::format("{:.1e}", d.relative),
                 fmt::format("{:.0e}", d.bound), d.where, layout});
    return table.text();
  }

 private:
  struct Row {
    DType dtype;
    Distance distance;
    std::string layout;
  };

  void note(const Distance& d, const LawLayout& layout) {
    const DType dtype = layout.workload.training.dtype;
    const auto same = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) {
      return row.distance.quantity == d.quantity && row.dtype == dtype;
    });
    if (same == rows_.end())
      rows_.push_back({dtype, d, layout.name});
    else if (!(d.relative <= same->distance.relative))
      *same = {dtype, d, layout.name};
  }

  std::size_t layouts_, bad_ = 0;
  std::vector<Row> rows_;  // the worst of each type and quantity
};

void refuse_unknown_model(const std::string& model) {
  const std::vector<std::string> known = model_names();
  if (std::find(known.begin(), known.end(), model) != known.end()) return;
  const std::string near = nearest(model, known);
  fail("unknown model \"{}\"{}; known: {}", model, near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near),
       fmt::join(known, ", "));
}

}  // namespace

int check_command(const CheckOptions& options, const WrapWorld& wrap) {
  const RunClock clock;
  const Launcher launcher = launcher_from_environment();
  LawVisit how;
  how.world = !options.world.empty() ? options.world : launcher.ranks > 1 ? "mpi" : "threads";
  require(world_named(how.world).name != "counting",
          "world counting computes nothing, so there is nothing to be checked in it; use threads or mpi");
  refuse_accidental_singletons(launcher, how.world, false);
  const Backend& backend = backend_named(options.backend);
  refuse_unknown_model(options.model);
  require(backend.name != "counting", "--backend counting holds no numbers to compare: use reference, cpu or cuda");
  constexpr int kRanks = 4;
  how.options.ranks = options.ranks.value_or(how.world == "mpi" ? launcher.ranks : kRanks);
  require(how.world != "mpi" || launcher.ranks > 1 || options.ranks,
          "--world mpi was not started by a launcher, so there is one rank and little to compare: start it with mpirun "
          "-n 4, use --world threads, or give --ranks 1 if one rank is meant");
  how.options.timeout_seconds = options.timeout_seconds;
  how.devices = device_choice(options.gpus, options.timeout_seconds);
  refuse_gpu_options(backend, options.gpus);
  if (backend.devices && how.world == "threads") backend.devices();  // throws where there is none
  how.wrap = wrap;
  const bool speaks = how.world == "threads" || launcher.rank == 0;
  if (how.world == "mpi" && launcher.ranks > 1)
    how.options.interrupted = note_signals();
  else
    leave_on_signals();

  const LawSpace space(options.model, how.options.ranks, backend);
  std::vector<Choice> choices = space.choices(options.all);
  const std::size_t of_all = choices.size();
  if (options.first && *options.first < static_cast<std::int64_t>(of_all))
    choices.resize(static_cast<std::size_t>(*options.first));
  const bool some = choices.size() < of_all;
  if (speaks)
    fmt::print("{}   check of {}: {} meshes of {} ranks ({}) in {} layouts, {}; each against one rank\n",
               program_name(), options.model, space.counts().front(), how.options.ranks, how.world, choices.size(),
               some          ? fmt::format("the first of {}", of_all)
               : options.all ? "every combination of choices"
                             : "every pair of choices at least once");
  std::fflush(stdout);
  Report report(choices.size());
  how.tell = [&](const LawLayout& layout, const LawFinding& finding) { report.tell(layout, finding); };
  visit(
      choices.size(), [&](std::size_t k) { return space.layout(choices[k]); }, how);
  if (!speaks) return exit_code::kGood;
  fmt::print("\nWorst of each quantity\n{}\n", report.worst_table());
  if (report.bad() > 0)
    fmt::print("{} of {} layouts are WRONG (", report.bad(), choices.size());
  else
    fmt::print("{} {} layouts{} equal the serial run (", some ? "The first" : "All", choices.size(),
               some ? fmt::format(" of {}", of_all) : "");
  fmt::print("{})\n", text_seconds(clock.seconds()));
  return report.bad() > 0 ? exit_code::kFailure : exit_code::kGood;
}

}  // namespace quadrille
