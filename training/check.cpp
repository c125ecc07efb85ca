// SPDX-License-Identifier: Apache-2.0
// Every fault of a workload on a world of this size, found before anything is allocated, all at once.
#include <algorithm>

#include "core/error.h"
#include "core/faults.h"
#include "models/model.h"
#include "parallelism/schedule.h"
#include "parallelism/world.h"
#include "training/trainer.h"

namespace quadrille {

namespace {

std::string split_by(const Plan& plan, Axis a) {
  std::string out;
  for (int m = 0; m < plan.mesh().axes(); ++m)
    if (plan.rests_on(a, m))
      out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", plan.mesh().name(m), plan.mesh().extent(m));
  return out;
}

void check_batch(const TrainingConfig& t, const Plan& plan, std::vector<std::string>& faults) {
  const std::int64_t parts = plan.parts(Axis::batch);
  if (t.micro_batch == 0) {
    if (t.batch_size % parts != 0)
      faults.push_back(fmt::format(
          "training.batch_size {} ({}) cannot be cut into {} equal parts (mesh {}): use a multiple of {}, "
          "or legal parts: {}",
          t.batch_size, t.batch_origin, parts, split_by(plan, Axis::batch), parts, divisors_text(t.batch_size)));
    return;
  }
  if (t.micro_batch > t.batch_size / parts) {
    faults.push_back(fmt::format(
        "batch_size {} ({}) is less than micro_batch {} ({}) x data ranks {}: use a smaller micro_batch or fewer ranks",
        t.batch_size, t.batch_origin, t.micro_batch, t.micro_origin, parts));
    return;
  }
  const std::int64_t rows = t.micro_batch * parts;
  if (t.batch_size % rows != 0)
    faults.push_back(fmt::format(
        "batch_size {} ({}) = micro_batch {} ({}) x data ranks {} (mesh {}) x micro-batches does not come out: {} / {} "
        "is not whole; use a batch_size that is a multiple of {}",
        t.batch_size, t.batch_origin, t.micro_batch, t.micro_origin, parts,
        plan.parts(Axis::batch) > 1 ? split_by(plan, Axis::batch) : "no axis for batch", t.batch_size, rows, rows));
}

void check_schedule(const TrainingConfig& t, const Plan& plan, std::vector<std::string>& faults) {
  const std::int64_t parts = plan.parts(Axis::batch);
  if (t.batch_size / parts < std::max<std::int64_t>(1, t.micro_batch)) return;  // said already
  const std::int64_t rows = t.micro_batch > 0 ? t.micro_batch * parts : t.batch_size;
  if (t.batch_size % rows != 0) return;
  const std::string refusal = refusal_of(plan.pipeline().schedule, plan.stages(), t.batch_size / rows);
  if (!refusal.empty())
    faults.push_back(fmt::format("{} (batch_size {} / (micro_batch {} x data ranks {})); change training.micro_batch",
                                 refusal, t.batch_size, rows / parts, parts));
}

}  // namespace

std::vector<MeshAxis> mesh_of(const Json& strategy, int ranks) { return mesh_axes(strategy, ranks); }

void check_workload(const Workload& w, int ranks) {
  const auto model = describe_model(w.model, w.vocabulary);
  WorldOptions options;
  options.ranks = ranks;
  run_counting(options, [&](std::unique_ptr<Communicator> world) {
    const Mesh mesh(std::move(world), mesh_of(w.strategy, ranks));
    const Plan plan(w.strategy, mesh);
    std::vector<std::string> faults;
    check_batch(w.training, plan, faults);
    for (const Requirement& r : model->requirements())
      if (const int parts = plan.parts(r.axis); r.extent % parts != 0)
        faults.push_back(fmt::format("{} {} cannot be cut into {} equal parts (mesh {}); legal parts: {}", r.key,
                                     r.extent, parts, split_by(plan, r.axis), divisors_text(r.extent)));
    if (const int parts = plan.parts(Axis::vocab); model->vocabulary() < parts)
      faults.push_back(fmt::format("model.vocabulary {} is less than its {} parts (mesh {})", model->vocabulary(),
                                   parts, split_by(plan, Axis::vocab)));
    check_schedule(w.training, plan, faults);
    refuse_all(faults, fmt::format("sizes do not fit {} ranks", ranks));
  });
}

}  // namespace quadrille
