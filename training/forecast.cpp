// SPDX-License-Identifier: Apache-2.0
#include "training/forecast.h"

#include "core/error.h"
#include "parallelism/world.h"

namespace quadrille {

namespace {
constexpr double kTrainingOverForward = 3;  // a backward pass has two products for each of the forward
}

Counted count(const Workload& w, const Backend& backend, const std::vector<MeshAxis>& axes, int ranks, int rank) {
  Counted counted;
  WorldOptions options;
  options.ranks = ranks;
  options.counting_rank = rank;
  const auto device = make_counting_device();
  const auto ops = make_counting_ops(backend.attention_block);
  run_counting(options, [&](std::unique_ptr<Communicator> world) {
    const Mesh mesh(std::move(world), axes);
    Ledger ledger;
    mesh.report_to(&ledger);
    Engine engine(w, mesh, *device, *ops, ledger, nullptr);
    ledger.clear();
    engine.step(nullptr, 0);
    Forecast& f = counted.forecast;
    f.step_work = ledger.work();
    f.step_messages = ledger.messages();
    engine.evaluate(nullptr);
    f.memory = engine.memory();
    if (backend.scratch_needed && engine.has_layers())
      f.memory.scratch = backend.scratch_needed(engine.model().head(), w.threads);
    f.parameters = engine.parameters().count();
    f.model_flops_full = kTrainingOverForward * engine.model().forward_flops(w.training.batch_size, false);
    f.model_flops_causal = kTrainingOverForward * engine.model().forward_flops(w.training.batch_size, true);
    f.pipeline = engine.pipeline();
    counted.rehearsal = engine.rehearsal();
    counted.rehearsal.arena_bytes = engine.arena_bytes();
    counted.rehearsal.same_every_step = !engine.context().step_matters;
  });
  return counted;
}

Forecast forecast(const Workload& w, const Backend& backend, int ranks, int rank) {
  return count(w, backend, mesh_of(w.strategy, ranks), ranks, rank).forecast;
}

}  // namespace quadrille
