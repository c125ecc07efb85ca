// SPDX-License-Identifier: Apache-2.0
#include "training/trainer.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "training/forecast.h"

namespace quadrille {

namespace {

std::vector<MeshAxis> axes(const Mesh& mesh) {
  std::vector<MeshAxis> axes;
  for (int m = 0; m < mesh.axes(); ++m) axes.push_back({mesh.name(m), mesh.extent(m)});
  return axes;
}

std::uint64_t hash_of(const Tensor& t, std::uint64_t before) {
  const auto* bytes = static_cast<const unsigned char*>(t.data());
  std::uint64_t h = before;
  for (std::int64_t i = 0; i + 4 <= t.bytes(); i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes + i, sizeof word);
    h = mix(h ^ word);
  }
  return h;
}

}  // namespace

StrategyMesh::StrategyMesh(std::unique_ptr<Communicator> world, const Json& strategy, Ledger& ledger) {
  const int ranks = world->size();
  const Json* table = strategy.find("overlap");
  const bool overlap = table && table->size() > 0 && ranks > 1;
  if (overlap && !world->on_streams()) courier_ = std::make_unique<Courier>(ledger.keeps_entries());
  mesh_ = std::make_unique<Mesh>(std::move(world), mesh_of(strategy, ranks), courier_.get(), overlap);
  mesh_->report_to(&ledger);
}

namespace {
// What posts messages, so that a failure ends them before their tensors go.
template <class Work>
auto attended(const Mesh& mesh, Work&& work) {
  if (mesh.courier()) return mesh.courier()->attend(work);
  if (!mesh.world().on_streams()) return work();
  try {
    return work();
  } catch (const std::exception& error) {
    mesh.world().poison(error.what());
    throw;
  }
}
}  // namespace

struct Trainer::Inside {
  Inside(const Workload& w, const Mesh& m, const Backend& backend, Device& device, Ledger& l)
      : workload(w),
        mesh(m),
        counted(count(w, backend, axes(m), m.world().size(), m.world().rank())),
        engine(workload, mesh, device, backend.ops(), l, &counted.rehearsal),
        scratch_held(backend.scratch_held) {
    if (backend.hold_scratch) backend.hold_scratch(device, counted.scratch);
  }
  const Workload workload;
  const Mesh& mesh;
  Counted counted;
  Engine engine;
  std::int64_t (*scratch_held)();
};

Trainer::Trainer(const Workload& w, const Mesh& mesh, const Backend& backend, Device& device, Ledger& ledger)
    : inside_(std::make_unique<Inside>(w, mesh, backend, device, ledger)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;

std::optional<StepReport> Trainer::step(const Dataset& data, std::int64_t step) {
  attended(inside_->mesh, [&] { inside_->engine.step(&data, step); });
  return inside_->engine.report_before();
}

std::optional<StepReport> Trainer::flush() {
  auto last = inside_->engine.report_last();
  inside_->engine.settle_accounts();  // all that was sent on streams is through now
  return last;
}
void Trainer::watch_samples(std::function<void(const SamplesTaken&)> watch) {
  inside_->engine.watch_samples(std::move(watch));
}
EvaluationReport Trainer::evaluate(const Dataset& data) {
  return attended(inside_->mesh, [&] { return inside_->engine.evaluate(&data); });
}
MemoryReport Trainer::memory() const {
  MemoryReport memory = inside_->engine.memory();
  if (inside_->scratch_held) memory.scratch = inside_->scratch_held();
  return memory;
}

PipelineReport Trainer::pipeline() const { return inside_->counted.forecast.pipeline; }
std::int64_t Trainer::parameters() const { return inside_->counted.forecast.parameters; }
std::int64_t Trainer::replayed_steps() const { return inside_->engine.replayed_steps(); }
double Trainer::model_flops_full() const { return inside_->counted.forecast.model_flops_full; }
double Trainer::model_flops_causal() const { return inside_->counted.forecast.model_flops_causal; }

std::vector<std::string> Trainer::parameter_names() const {
  std::vector<std::string> names;
  for (const Parameter& p : inside_->engine.parameters().all()) names.push_back(p.name);
  return names;
}

namespace {

// Every rank learns the whole of a parameter-like tensor: gathers its splits, innermost first; a stage that holds it
// tells the others. `part`: this rank's, empty where other stages hold it.
std::vector<double> whole_of(Engine& engine, const Parameter& p, Tensor part) {
  const Context& shared = engine.context();
  const Mesh& mesh = shared.mesh();
  const std::int64_t n = p.count();
  Arena room(shared.stream.device(),
             4 * n * size_of(wide(shared.dtype)) + (1 << 16));  // a step's arena may be smaller than one table
  Context c{shared.plan, shared.ops, shared.stream, room, shared.ledger, wide(shared.dtype)};
  States states = p.states;
  for (const Dim& dim : p.dims) {
    const std::vector<int> order = c.plan.nesting(dim.axis);
    for (auto m = order.rbegin(); part && m != order.rend(); ++m) {
      State& s = states[static_cast<std::size_t>(*m)];
      if (s != State{Kind::split, dim.axis}) continue;
      part = gather_parts(c, part, p.dims, states, *m);
      s = {};
    }
  }
  if (c.plan.stages() > 1) {
    int holder = -1;
    const auto all = mesh.along(c.plan.pipe()).exchange(Json(static_cast<bool>(part)));
    for (std::size_t stage = 0; stage < all.size(); ++stage)
      if (all[stage].boolean() && holder < 0) holder = static_cast<int>(stage);
    if (!part) part = room.empty({n}, c.dtype, End::high);
    mesh.along(c.plan.pipe()).broadcast(part.flat(), holder, c.stream).wait(c.stream);
  }
  const std::unique_ptr<Device> host = make_host_device();
  const Tensor here = host->empty({n}, part.dtype());
  c.stream.copy(here, part);
  c.stream.synchronize();
  std::vector<double> numbers(static_cast<std::size_t>(n));
  if (part.dtype() == DType::f64)
    std::copy_n(here.host<double>().begin(), n, numbers.begin());
  else
    std::copy_n(here.host<float>().begin(), n, numbers.begin());
  return numbers;
}

}  // namespace

std::vector<double> Trainer::whole_value(const std::string& name) {
  Engine& engine = inside_->engine;
  Parameter& p = engine.parameters().named(name);
  Tensor part;
  engine.weights().visit(p, [&](const Parameter& shown) {
    part = engine.context().stream.device().empty(shown.shape, shown.value.dtype());
    engine.context().stream.copy(part, shown.value);
    engine.context().stream.synchronize();
  });
  return whole_of(engine, p, part);
}

std::vector<double> Trainer::whole_gradient(const std::string& name) {
  Engine& engine = inside_->engine;
  Parameter& p = engine.parameters().named(name);
  return whole_of(engine, p, engine.weights().holds(p) ? engine.weights().whole_gradient(p) : Tensor());
}

void Trainer::perturb(double deviation, std::uint64_t seed) {
  Engine& engine = inside_->engine;
  engine.weights().change_all([&](const Parameter& p) { quadrille::perturb(p, engine.plan(), deviation, seed); });
}

void Trainer::shift(const std::string& name, std::int64_t global_index, double change) {
  Engine& engine = inside_->engine;
  engine.weights().change(engine.parameters().named(name),
                          [&](const Parameter& p) { quadrille::shift(p, engine.plan(), global_index, change); });
}

namespace {

// Ranks of the world that differ from this one along these mesh axes only, in the order of their group.
std::vector<int> members_of(const Mesh& mesh, MeshAxes along) {
  std::vector<int> members = {0};
  for (int m = 0; m < mesh.axes(); ++m) {
    std::vector<int> wider;
    for (const int before : members)
      for (int place = 0; place < mesh.extent(m); ++place)
        if ((along & bit(m)) || place == mesh.at(m)) wider.push_back(before * mesh.extent(m) + place);
    members = std::move(wider);
  }
  return members;
}

// `hashes`: of the members, empty where one holds nothing. What most of them hold counts as right; of equally many,
// what the first holds.
void refuse_drift(const std::string& name, const std::vector<Json>& hashes, const Mesh& mesh, MeshAxes held) {
  const auto holders = [&](const Json& hash) {
    return hash.string().empty() ? 0 : std::count(hashes.begin(), hashes.end(), hash);
  };
  const Json& right = *std::max_element(hashes.begin(), hashes.end(),
                                        [&](const Json& a, const Json& b) { return holders(a) < holders(b); });
  const std::vector<int> members = members_of(mesh, held);
  std::string same, drifted;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (hashes[i].string().empty()) continue;
    std::string& list = hashes[i] == right ? same : drifted;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", members[i]);
  }
  require(drifted.empty(),
          "replicas of {} along {} no longer agree in bits: rank {} differs from rank {}; this is a fault of the "
          "program or of the machine, please report it",
          name, mesh.names(held), drifted, same);
}

}  // namespace

std::uint64_t Trainer::replica_hash() {
  const Mesh& mesh = inside_->mesh;
  Engine& engine = inside_->engine;
  Weights& weights = engine.weights();
  std::uint64_t own = 0;
  for (std::size_t i = 0; i < engine.parameters().all().size(); ++i) {
    Parameter& p = engine.parameters().all()[i];
    const bool tied = engine.over_several_stages(i);  // then the stages that do not hold it listen too
    if (!weights.holds(p) && !tied) continue;
    std::string text;
    if (weights.holds(p)) {
      std::uint64_t hash = 0;
      weights.visit(p, [&](const Parameter& shown) { hash = hash_of(shown.value, key_of(0, p.name)); });
      own = mix(own ^ hash);
      text = fmt::format("{:016x}", hash);
    }
    MeshAxes held = 0;
    for (int m = 0; m < mesh.axes(); ++m)
      if (p.states[static_cast<std::size_t>(m)].kind == Kind::same) held |= bit(m);
    const MeshAxes pipe = engine.plan().pipe();
    held = mesh.real((held & ~pipe) | (tied ? pipe : 0));
    if (held) refuse_drift(p.name, mesh.along(held).exchange(Json(text)), mesh, held);
  }
  engine.settle_accounts();
  std::uint64_t world = 0;
  for (const Json& other : mesh.world().exchange(Json(fmt::format("{:016x}", own))))
    world = mix(world ^ key_of(0, other.string()));
  return world;
}

}  // namespace quadrille
