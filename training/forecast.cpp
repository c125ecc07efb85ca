// SPDX-License-Identifier: Apache-2.0
#include "training/forecast.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "parallelism/schedule.h"
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
  const auto ops = make_counting_ops(backend.attention);
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
    counted.scratch = {engine.has_layers() ? engine.model().scratch_sizes() : ScratchSizes{}, w.threads,
                       w.training.dtype};
    if (backend.scratch_needed) f.memory.scratch = backend.scratch_needed(counted.scratch);
    f.parameters = engine.parameters().count();
    f.model_flops_full = kTrainingOverForward * engine.model().forward_flops(w.training.batch_size, false);
    f.model_flops_causal = kTrainingOverForward * engine.model().forward_flops(w.training.batch_size, true);
    f.pipeline = engine.pipeline();
    f.notes = engine.model().notes(engine.plan());
    counted.rehearsal = engine.rehearsal();
    counted.rehearsal.arena_bytes = engine.arena_bytes();
    counted.rehearsal.same_every_step = !engine.context().step_matters;
  });
  return counted;
}

namespace {

// How many micro-batches fill a rank's pipeline, so that each further group adds the same.
struct Filling {
  std::int64_t rows = 0, micro_batches = 1;  // of one over all ranks; of the step
  std::int64_t enough = 0, group = 1;
  bool all_in_flight = false;  // GPipe: memory grows with every micro-batch
};

Filling filling_of(const Workload& w, const std::vector<MeshAxis>& axes, int ranks, int rank) {
  Filling f;
  WorldOptions options;
  options.ranks = ranks, options.counting_rank = rank;
  run_counting(options, [&](std::unique_ptr<Communicator> world) {
    const Mesh mesh(std::move(world), axes);
    const Plan plan(w.strategy, mesh);
    f.rows = w.training.micro_batch > 0 ? w.training.micro_batch * plan.parts(Axis::batch) : w.training.batch_size;
    const bool interleaved = plan.pipeline().schedule == Schedule::interleaved && plan.stages() > 1;
    f.all_in_flight = plan.pipeline().schedule == Schedule::gpipe && plan.stages() > 1;
    f.micro_batches = w.training.batch_size / f.rows;
    f.group = interleaved ? plan.stages() : 1;
    f.enough = interleaved ? 4 * plan.stages() : plan.stages() - plan.stage() + 2;
  });
  return f;
}

bool same(double a, double b) { return std::abs(a - b) <= 1e-12 * std::max(std::abs(a), std::abs(b)); }

// The straight line through three counts at equal distances, or nothing where they do not lie on one.
class Line {
 public:
  explicit Line(double groups) : groups_(groups) {}
  double at(double a, double b, double c) {
    straight_ = straight_ && same(b - a, c - b);
    return c + groups_ * (c - b);
  }
  bool straight() const { return straight_; }

 private:
  double groups_;
  bool straight_ = true;
};

// All micro-batches are alike in work and messages once the pipeline is full, so three sizes of step tell a step of
// any size. Nothing where they do not grow alike.
std::optional<Forecast> scaled(const Forecast& a, const Forecast& b, const Forecast& c, std::int64_t groups,
                               bool memory_must_grow) {
  Forecast f = c;
  Line line(static_cast<double>(groups));
  for (double Work::*part : {&Work::useful, &Work::recomputed, &Work::repeated, &Work::padded, &Work::skipped})
    f.step_work.*part = line.at(a.step_work.*part, b.step_work.*part, c.step_work.*part);
  if (a.step_messages.size() != c.step_messages.size() || b.step_messages.size() != c.step_messages.size()) return {};
  for (auto& [key, sum] : f.step_messages) {
    const auto in_a = a.step_messages.find(key), in_b = b.step_messages.find(key);
    if (in_a == a.step_messages.end() || in_b == b.step_messages.end()) return {};
    const Traffic &x = in_a->second, &y = in_b->second, z = sum;
    if (y.calls - x.calls != z.calls - y.calls) return {};
    sum.calls = z.calls + groups * (z.calls - y.calls);
    sum.elements = line.at(x.elements, y.elements, z.elements);
    sum.bytes = line.at(x.bytes, y.bytes, z.bytes);
  }
  const std::int64_t grown = c.memory.activations - b.memory.activations;
  if (grown != b.memory.activations - a.memory.activations || (memory_must_grow && grown <= 0)) return {};
  f.memory.activations += groups * grown;
  if (!line.straight()) return {};
  return f;
}

}  // namespace

Forecast forecast(const Workload& w, const Backend& backend, int ranks, int rank) {
  const std::vector<MeshAxis> axes = mesh_of(w.strategy, ranks);
  const Filling step = filling_of(w, axes, ranks, rank);
  const std::int64_t most = step.enough + 2 * step.group;
  const auto with = [&](std::int64_t micro_batches) {
    Workload few = w;
    few.training.batch_size = micro_batches * step.rows;
    return count(few, backend, axes, ranks, rank).forecast;
  };
  if (step.micro_batches > most) {
    const Forecast last = with(most);
    std::optional<Forecast> f = scaled(with(step.enough), with(step.enough + step.group), last,
                                       (step.micro_batches - most) / step.group, step.all_in_flight);
    if (f) {
      const auto model = describe_model(w.model, w.vocabulary);
      f->model_flops_full = kTrainingOverForward * model->forward_flops(w.training.batch_size, false);
      f->model_flops_causal = kTrainingOverForward * model->forward_flops(w.training.batch_size, true);
      const double others = f->pipeline.stages - 1;
      f->pipeline.micro_batches = step.micro_batches;
      f->pipeline.bubble = others / (static_cast<double>(f->pipeline.chunks * step.micro_batches) + others);
      return *f;
    }
  }
  return count(w, backend, axes, ranks, rank).forecast;
}

}  // namespace quadrille
