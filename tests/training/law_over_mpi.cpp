// SPDX-License-Identifier: Apache-2.0
// The toy GPT trained through the world of MPI processes, under every layout of this many ranks: weights, losses and
// evaluation must have the bits of the thread world. CTest starts it through the launcher.
#include <fmt/core.h>

#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "kernels/backend.h"
#include "parallelism/world.h"
#include "tests/training/context_layouts.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

constexpr int kSteps = 3;

// Those of stores and stages once more with every overlap on, so that two threads of a process use MPI.
std::vector<toy::Layout> layouts() {
  std::vector<toy::Layout> all = toy::kLayouts;
  for (const auto& more : {toy::kContextLayouts, toy::kStores, toy::kPipelines, toy::kInterleaved})
    all.insert(all.end(), more.begin(), more.end());
  for (const auto& more : {toy::kStores, toy::kPipelines})
    for (toy::Layout layout : more) {
      if (layout.table.find("overlap") != std::string::npos) continue;
      layout.name += "_overlapped";
      layout.table.pop_back();
      layout.table += R"(, "overlap": ["input_gradient", "reduce_scatter", "all_gather", "send"]})";
      all.push_back(std::move(layout));
    }
  return all;
}

// Several micro-batches, so that stages have some under way.
Workload workload() { return toy::workload({}, {{"micro_batch", 2}}); }

void same_bits(const std::string& what, const toy::Outcome& mpi, const toy::Outcome& threads) {
  require(mpi.hash == threads.hash, "{}: the weights have hash {:016x} over MPI, {:016x} over threads", what, mpi.hash,
          threads.hash);
  require(mpi.losses == threads.losses && mpi.norms == threads.norms && mpi.evaluation == threads.evaluation,
          "{}: losses, norms or evaluation are not those of the thread world", what);
  require(mpi.gradients == threads.gradients && mpi.values == threads.values,
          "{}: gradients or values are not those of the thread world", what);
}

void compare() {
  std::map<std::string, toy::Outcome> over_mpi;
  int ranks = 0, rank = 0;
  const Workload base = workload();
  WorldOptions options;
  options.ranks = 0;
  run_mpi(options, [&](std::unique_ptr<Communicator> world) {
    ranks = world->size(), rank = world->rank();
    for (const toy::Layout& layout : layouts()) {
      if (layout.ranks != ranks) continue;
      Workload w = base;
      w.strategy = parse_json(layout.table, "strategy");
      over_mpi[layout.name] =
          toy::train_rank(world->split([](int) { return 0; }, "world"), w, backend_named("reference"), kSteps);
    }
  });
  if (rank != 0) return;
  require(!over_mpi.empty(), "no layout has {} ranks", ranks);
  for (const toy::Layout& layout : layouts())
    if (layout.ranks == ranks)
      same_bits(layout.name, over_mpi.at(layout.name), toy::train(base, layout.table, ranks, kSteps));
  fmt::print("conforms: {} layouts of {} ranks\n", over_mpi.size(), ranks);
}

}  // namespace
}  // namespace quadrille

int main() {
  try {
    quadrille::compare();
    return 0;
  } catch (const quadrille::Poisoned&) {
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
  }
  return 1;
}
