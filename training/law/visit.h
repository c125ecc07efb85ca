// SPDX-License-Identifier: Apache-2.0
// Runs layouts and holds each to its serial run: one step of plain SGD in every number, then the losses of some
// AdamW steps. Used by `quadrille check` and by tests that plant faults in it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallelism/rank_device.h"
#include "parallelism/world.h"
#include "training/law/equality.h"
#include "training/law/layouts.h"

namespace quadrille {

struct LawRuns {
  Observed one_step, adamw;  // adamw: losses only
};
// What every rank of `world` sees of a layout. Collective.
LawRuns run_layout(Communicator& world, const Workload&, const Backend&, Device&, int adamw_steps = kLawAdamWSteps);

struct LawFinding {
  std::size_t layout = 0;        // its number in the order of the visit
  std::vector<Distance> worst;   // of each quantity of the one step, and of the losses of AdamW
  std::vector<Distance> beyond;  // all that lie beyond their bounds
  std::string refusal;           // what was thrown instead
  bool good() const { return refusal.empty() && beyond.empty(); }
};

struct LawVisit {
  std::string world = "threads";  // or "mpi", where all layouts share the processes
  WorldOptions options;
  int adamw_steps = kLawAdamWSteps;
  DeviceChoice devices;  // where the back end computes on GPUs
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)> wrap;  // if any: each rank's world
  std::function<void(const LawLayout&, const LawFinding&)> tell;                     // on rank 0, as it goes
};
// Asks for one layout after the other: there may be too many to hold at once. On thread ranks an Error of one layout is
// its finding, and the next is visited; over MPI it ends the visit. Over MPI only the process of rank 0 tells.
void visit(std::size_t count, const std::function<LawLayout(std::size_t)>& layout, const LawVisit&);
std::vector<LawFinding> visit(const std::vector<LawLayout>&, LawVisit);  // what `tell` is told, collected

}  // namespace quadrille
