// SPDX-License-Identifier: Apache-2.0
// See visit.h.
#include "training/law/visit.h"

#include <map>
#include <utility>

#include "core/error.h"
#include "kernels/backend.h"
#include "parallelism/mesh.h"
#include "training/law/addressed_text.h"

namespace quadrille {

namespace {

Observed train(Communicator& world, const Workload& w, const Backend& backend, int steps, bool tensors) {
  const std::int64_t tokens = w.model.at("tokens").integer();
  const AddressedText data(3 * w.training.batch_size, tokens, w.vocabulary);
  const Mesh mesh(world.split([](int) { return 0; }, "world"), mesh_of(w.strategy, world.size()));
  Ledger ledger;
  mesh.report_to(&ledger);
  Trainer trainer(w, mesh, backend, ledger);
  Observed observed;
  train_from_perturbed(trainer, data, steps, observed);
  trainer.replica_hash();  // replicas must agree in every bit
  if (tensors) read_tensors(trainer, observed);
  return observed;
}

class Visitor {
 public:
  Visitor(const std::vector<LawLayout>& layouts, const LawVisit& how) : layouts_(layouts), how_(how) {}

  std::vector<LawFinding> go() {
    if (how_.world == "threads") {
      for (std::size_t k = 0; k < layouts_.size(); ++k) on_threads(k);
    } else {
      for (const LawLayout& layout : layouts_) check_workload(layout.workload, how_.options.ranks);
      world_named(how_.world).run(how_.options, [&](std::unique_ptr<Communicator> world) {
        in_one_world(std::move(world));
      });
    }
    return std::move(findings_);
  }

 private:
  void on_threads(std::size_t k) {
    LawRuns seen;
    std::string refusal;
    try {
      check_workload(layouts_[k].workload, how_.options.ranks);
      run_threads(how_.options, [&](std::unique_ptr<Communicator> world) {
        const bool first = world->rank() == 0;
        world = wrapped(std::move(world));
        LawRuns mine = run_layout(*world, layouts_[k].workload, backend_named(layouts_[k].backend));
        if (first) seen = std::move(mine);
      });
    } catch (const Error& error) {
      refusal = error.what();
    }
    judge(k, seen, std::move(refusal));
  }

  void in_one_world(std::unique_ptr<Communicator> world) {
    const bool first = world->rank() == 0;
    world = wrapped(std::move(world));
    for (std::size_t k = 0; k < layouts_.size(); ++k) {
      const LawRuns seen = run_layout(*world, layouts_[k].workload, backend_named(layouts_[k].backend));
      if (first) judge(k, seen, {});
    }
  }

  std::unique_ptr<Communicator> wrapped(std::unique_ptr<Communicator> world) const {
    return how_.wrap ? how_.wrap(std::move(world)) : std::move(world);
  }

  void judge(std::size_t k, const LawRuns& seen, std::string refusal) {
    LawFinding finding;
    finding.layout = k;
    finding.refusal = std::move(refusal);
    if (finding.refusal.empty()) compare(layouts_[k], seen, finding);
    if (how_.tell) how_.tell(finding);
    findings_.push_back(std::move(finding));
  }

  void compare(const LawLayout& layout, const LawRuns& seen, LawFinding& finding) {
    const LawRuns& serial = serial_of(layout);
    const Bounds& bounds = bounds_of(layout.workload.training.dtype);
    std::vector<Distance> all = distances(serial.one_step, seen.one_step, bounds);
    for (Distance& d : distances(serial.adamw, seen.adamw, bounds)) {
      d.where += " of AdamW";
      all.push_back(std::move(d));
    }
    finding.worst = worst_of_each(all);
    for (const Distance& d : all)
      if (!d.within()) finding.beyond.push_back(d);
  }

  // A serial run needs no message: a world of one thread inside whatever world this is.
  const LawRuns& serial_of(const LawLayout& layout) {
    const auto [at, is_new] = serial_.try_emplace(layout.serial_name);
    if (is_new)
      run_threads({}, [&](std::unique_ptr<Communicator> world) {
        at->second = run_layout(*world, layout.serial, backend_named(layout.backend));
      });
    return at->second;
  }

  const std::vector<LawLayout>& layouts_;
  const LawVisit& how_;
  std::map<std::string, LawRuns> serial_;
  std::vector<LawFinding> findings_;
};

}  // namespace

LawRuns run_layout(Communicator& world, const Workload& w, const Backend& backend) {
  if (backend.use_threads) backend.use_threads(1);
  LawRuns runs;
  runs.one_step = train(world, w, backend, 1, true);
  runs.adamw = train(world, with_adamw(w), backend, kLawAdamWSteps, false);
  runs.adamw.norms.clear();  // the losses are what the bound is meant for
  return runs;
}

std::vector<LawFinding> visit(const std::vector<LawLayout>& layouts, const LawVisit& how) {
  return Visitor(layouts, how).go();
}

}  // namespace quadrille
