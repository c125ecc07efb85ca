// SPDX-License-Identifier: Apache-2.0
// `quadrille check --layouts`: one line per layout as it goes, then one table with the worst of each quantity.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "benchmarks/commands.h"
#include "benchmarks/harness/environment.h"
#include "benchmarks/harness/interruption.h"
#include "benchmarks/harness/mllog.h"
#include "benchmarks/harness/text.h"
#include "core/error.h"
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
  explicit Report(const std::vector<LawLayout>& layouts) : layouts_(layouts) {}

  void tell(const LawFinding& finding) {
    ++told_;
    bad_ += !finding.good();
    const LawLayout& layout = layouts_[finding.layout];
    const Distance* worst = nearest_to_bound(finding);
    fmt::print("{:>5}/{}  {}  {}", told_, layouts_.size(), finding.good() ? "equal" : "WRONG", layout.name);
    if (finding.good() && worst)
      fmt::print("  ({} within {:.1e} of {:.0e})", name_of(worst->quantity), worst->relative, worst->bound);
    fmt::print("\n");
    if (!finding.refusal.empty()) fmt::print("         {}\n", finding.refusal);
    constexpr std::size_t kShown = 5;
    for (std::size_t i = 0; i < std::min(kShown, finding.beyond.size()); ++i)
      fmt::print("         {}\n", finding.beyond[i].text());
    if (finding.beyond.size() > kShown) fmt::print("         and {} more\n", finding.beyond.size() - kShown);
    std::fflush(stdout);
  }

  int bad() const { return bad_; }

 private:
  const std::vector<LawLayout>& layouts_;
  int told_ = 0, bad_ = 0;
};

std::string worst_table(const std::vector<LawLayout>& layouts, const std::vector<LawFinding>& findings) {
  struct Row {
    const Distance* distance;
    const LawLayout* layout;
  };
  std::vector<Row> rows;
  for (const LawFinding& finding : findings)
    for (const Distance& d : finding.worst) {
      const LawLayout& layout = layouts[finding.layout];
      const auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
        return row.distance->quantity == d.quantity &&
               row.layout->workload.training.dtype == layout.workload.training.dtype;
      });
      if (same == rows.end())
        rows.push_back({&d, &layout});
      else if (!(d.relative <= same->distance->relative))
        *same = {&d, &layout};
    }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    const auto key = [](const Row& row) {
      return std::make_pair(row.layout->workload.training.dtype == DType::f32, row.distance->quantity);
    };
    return key(a) < key(b);
  });
  TextTable table({{"type", Align::left},
                   {"quantity", Align::left},
                   {"worst"},
                   {"bound"},
                   {"where", Align::left},
                   {"layout", Align::left}});
  for (const auto& [d, layout] : rows)
    table.row({std::string(name_of(layout->workload.training.dtype)), name_of(d->quantity),
               fmt::format("{:.1e}", d->relative), fmt::format("{:.0e}", d->bound), d->where, layout->name});
  return table.text();
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
  constexpr int kRanks = 4;
  how.options.ranks = options.ranks.value_or(how.world == "mpi" ? launcher.ranks : kRanks);
  how.options.timeout_seconds = options.timeout_seconds;
  how.wrap = wrap;
  const bool speaks = how.world == "threads" || launcher.rank == 0;
  if (how.world == "mpi" && launcher.ranks > 1)
    how.options.interrupted = note_signals();
  else
    leave_on_signals();

  const LawSpace space(options.model, how.options.ranks, backend);
  const std::vector<LawLayout> layouts = space.layouts(options.all);
  if (speaks)
    fmt::print("{}   check of {}: {} layouts of {} ranks ({}), {}; each against one rank\n", program_name(),
               options.model, layouts.size(), how.options.ranks, how.world,
               options.all ? "every combination of choices" : "every pair of choices at least once");
  std::fflush(stdout);
  Report report(layouts);
  how.tell = [&](const LawFinding& finding) { report.tell(finding); };
  const std::vector<LawFinding> findings = visit(layouts, how);
  if (!speaks) return exit_code::kGood;
  fmt::print("\nWorst of each quantity\n{}\n", worst_table(layouts, findings));
  if (report.bad() > 0)
    fmt::print("{} of {} layouts are WRONG (", report.bad(), layouts.size());
  else
    fmt::print("All {} layouts equal the serial run (", layouts.size());
  fmt::print("{})\n", text_seconds(clock.seconds()));
  return report.bad() > 0 ? exit_code::kFailure : exit_code::kGood;
}

}  // namespace quadrille
