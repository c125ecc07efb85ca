// SPDX-License-Identifier: Apache-2.0
// See visit.h.
#include "training/law/visit.h"

#include <map>
#include <utility>

#include "core/error.h"
#include "kernels/backend.h"
#include "parallelism/mesh.h"
#include "training/law/addressed_data.h"

namespace quadrille {

namespace {

Observed train(Communicator& world, const Workload& w, const Backend& backend, Device& device, int steps,
               bool tensors) {
  const std::unique_ptr<Dataset> data = law_data(w, 3 * w.training.batch_size);
  Ledger ledger;
  const StrategyMesh crew(world.split([](int) { return 0; }, "world"), w.strategy, ledger);
  Trainer trainer(w, crew.mesh(), backend, device, ledger);
  Observed observed;
  train_from_perturbed(trainer, *data, steps, observed);
  trainer.replica_hash();  // replicas must agree in every bit
  if (tensors) read_tensors(trainer, observed);
  return observed;
}

class Visitor {
 public:
  Visitor(std::size_t count, const std::function<LawLayout(std::size_t)>& layout, const LawVisit& how)
      : count_(count), layout_(layout), how_(how) {}

  void go() {
    if (how_.world == "threads")
      for (std::size_t k = 0; k < count_; ++k) on_threads(k);
    else
      world_named(how_.world).run(how_.options, [&](std::unique_ptr<Communicator> world) {
        in_one_world(std::move(world));
      });
  }

 private:
  void on_threads(std::size_t k) {
    const LawLayout layout = layout_(k);
    LawRuns seen;
    std::string refusal;
    try {
      check_workload(layout.workload, how_.options.ranks);
      run_threads(how_.options, [&](std::unique_ptr<Communicator> world) {
        const bool first = world->rank() == 0;
        LawRuns mine = on_device(std::move(world), layout, layout.workload);
        if (first) seen = std::move(mine);
      });
    } catch (const Error& error) {
      refusal = error.what();
    }
    judge(k, layout, seen, std::move(refusal));
  }

  void in_one_world(std::unique_ptr<Communicator> world) {
    const bool first = world->rank() == 0;
    for (std::size_t k = 0; k < count_; ++k) {
      const LawLayout layout = layout_(k);
      check_workload(layout.workload, world->size());
      const LawRuns seen = on_device(world->split([](int) { return 0; }, "world"), layout, layout.workload);
      if (first) judge(k, layout, seen, {});
    }
  }

  LawRuns on_device(std::unique_ptr<Communicator> host, const LawLayout& layout, const Workload& w) const {
    const Backend& backend = backend_named(layout.backend);
    const RankDevice device(backend, *host, backend.devices ? how_.devices : DeviceChoice());
    std::unique_ptr<Communicator> world = device.world(std::move(host));
    if (how_.wrap && world->size() > 1) world = how_.wrap(std::move(world));
    return run_layout(*world, w, backend, device.device(), how_.adamw_steps);
  }

  void judge(std::size_t k, const LawLayout& layout, const LawRuns& seen, std::string refusal) {
    LawFinding finding;
    finding.layout = k;
    finding.refusal = std::move(refusal);
    try {
      if (finding.refusal.empty()) compare(layout, seen, finding);
    } catch (const Error& error) {  // a tensor is missing or has another size
      finding.refusal = error.what();
    }
    if (how_.tell) how_.tell(layout, finding);
  }

  void compare(const LawLayout& layout, const LawRuns& seen, LawFinding& finding) {
    const LawRuns& serial = serial_of(layout);
    const DType dtype = layout.workload.training.dtype;
    std::vector<Distance> all = distances(serial.one_step, seen.one_step, layout.bounds);
    for (Distance& d : distances(serial.adamw, seen.adamw, bounds_with_adamw(dtype))) {
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
        at->second = on_device(std::move(world), layout, layout.serial);
      });
    return at->second;
  }

  std::size_t count_;
  const std::function<LawLayout(std::size_t)>& layout_;
  const LawVisit& how_;
  std::map<std::string, LawRuns> serial_;
};

}  // namespace

LawRuns run_layout(Communicator& world, const Workload& w, const Backend& backend, Device& device, int adamw_steps) {
  if (backend.use_threads) backend.use_threads(1);
  LawRuns runs;
  runs.one_step = train(world, w, backend, device, 1, true);
  runs.adamw = train(world, with_adamw(w, adamw_steps), backend, device, adamw_steps, false);
  runs.adamw.norms.clear();  // the losses are what the bound is meant for
  return runs;
}

void visit(std::size_t count, const std::function<LawLayout(std::size_t)>& layout, const LawVisit& how) {
  Visitor(count, layout, how).go();
}

std::vector<LawFinding> visit(const std::vector<LawLayout>& layouts, LawVisit how) {
  std::vector<LawFinding> findings;
  how.tell = [&findings, told = how.tell](const LawLayout& layout, const LawFinding& finding) {
    findings.push_back(finding);
    if (told) told(layout, finding);
  };
  visit(
      layouts.size(), [&](std::size_t k) { return layouts[k]; }, how);
  return findings;
}

}  // namespace quadrille
