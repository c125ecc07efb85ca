// SPDX-License-Identifier: Apache-2.0
#include "training/weights.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "core/error.h"

namespace quadrille {

namespace {

MeshAxes axes_of(const Parameter& p, Kind kind) {
  MeshAxes axes = 0;
  for (int m = 0; m < kMaxMeshAxes; ++m)
    if (p.states[static_cast<std::size_t>(m)].kind == kind) axes |= bit(m);
  return axes;
}

// Alike in what they owe and in how they can be cut: one segment.
bool alike(const Parameter& a, const Parameter& b, MeshAxes stored) {
  return a.owed == b.owed && (axes_of(a, Kind::split) & stored) == (axes_of(b, Kind::split) & stored);
}

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

struct Group {
  std::string name;
  std::vector<Parameter*> members;
  std::set<int> stages, blocks;
};

// Buckets of the whole model in order of the first parameter of each; one called "tied" comes last.
std::vector<Group> groups_of(Parameters& parameters, const Usage& usage) {
  std::vector<Group> groups;
  std::unordered_map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < parameters.all().size(); ++i) {
    Parameter& p = parameters.all()[i];
    const auto [at, is_new] = known.try_emplace(p.bucket, groups.size());
    if (is_new) groups.push_back({p.bucket, {}, {}, {}});
    Group& g = groups[at->second];
    g.members.push_back(&p);
    for (int b : usage.blocks_of[i]) {
      g.blocks.insert(b);
      g.stages.insert(usage.stage_of[static_cast<std::size_t>(b)]);
    }
  }
  std::stable_partition(groups.begin(), groups.end(), [](const Group& g) { return g.name != "tied"; });
  return groups;
}

}  // namespace

Weights::Weights(Parameters& parameters, const Usage& usage, Context& context, const OptimizerConfig& optimizer)
    : context_(context),
      exchange_(context.plan, context.ops, context.stream, context.arena),
      of_block_(usage.stage_of.size()) {
  const int own = context.plan.stage();
  for (Group& g : groups_of(parameters, usage)) {
    std::shared_ptr<Communicator> holders;
    if (g.stages.size() > 1)
      holders = context.mesh().part_of(
          context.plan.pipeline().axis, [&](int place) { return g.stages.contains(place) ? 0 : 1 + place; },
          context.mesh().names(context.plan.pipe()));
    if (!g.stages.contains(own)) continue;
    const int index = static_cast<int>(buckets_.size());
    buckets_.push_back({});
    buckets_.back().name = g.name;
    buckets_.back().holders = std::move(holders);
    fill(buckets_.back(), std::move(g.members), optimizer, *g.stages.begin() == own);
    first_block_.push_back(-1);
    for (int b : g.blocks) {
      if (usage.stage_of[static_cast<std::size_t>(b)] != own) continue;
      of_block_[static_cast<std::size_t>(b)].push_back(index);
      if (first_block_.back() < 0) first_block_.back() = b;
    }
  }
}

// Lays out one bucket. Parameters are ordered by what they owe, then by how they can be cut.
void Weights::fill(Bucket& bucket, std::vector<Parameter*> parameters, const OptimizerConfig& optimizer,
                   bool first_holder) {
  const MeshAxes stored = context_.mesh().real(context_.plan.store().optimizer);
  std::stable_sort(parameters.begin(), parameters.end(), [&](const Parameter* a, const Parameter* b) {
    return std::pair(a->owed, axes_of(*a, Kind::split) & stored) <
           std::pair(b->owed, axes_of(*b, Kind::split) & stored);
  });
  bucket.dtype = context_.dtype;
  std::int64_t kept_value = 0, kept_gradient = 0, kept_master = 0;
  for (std::size_t begin = 0, end = 0; begin < parameters.size(); begin = end) {
    while (end < parameters.size() && alike(*parameters[begin], *parameters[end], stored)) ++end;
    Segment s = segment_of({parameters.begin() + static_cast<std::ptrdiff_t>(begin),
                            parameters.begin() + static_cast<std::ptrdiff_t>(end)},
                           bucket.count);
    s.kept_value = kept_value, s.kept_gradient = kept_gradient, s.kept_master = kept_master;
    kept_value += part_of(context_.mesh(), s, s.cuts.weights).count;
    kept_gradient += part_of(context_.mesh(), s, s.cuts.gradients).count;
    kept_master += part_of(context_.mesh(), s, s.cuts.optimizer).count;
    bucket.count = s.first + s.count;
    bucket.segments.push_back(std::move(s));
  }
  Device& device = context_.stream.device();
  bucket.kept_values = device.empty({kept_value}, bucket.dtype);
  bucket.kept_gradients = device.empty({kept_gradient}, wide(bucket.dtype));
  context_.stream.zero(bucket.kept_values);  // pads stay zero
  if (wide(bucket.dtype) != bucket.dtype) {
    bucket.kept_masters = device.empty({kept_master}, wide(bucket.dtype));
    context_.stream.zero(bucket.kept_masters);
  }
  members_.push_back(std::move(parameters));
  for (const Segment& s : bucket.segments) list_owned(bucket, s, optimizer, first_holder);
}

Segment Weights::segment_of(const std::vector<Parameter*>& alike, std::int64_t first) {
  Segment s;
  s.first = first, s.owed = context_.mesh().real(alike.front()->owed);
  s.cuts = cuts_of(context_.plan, s.owed, axes_of(*alike.front(), Kind::split));
  std::int64_t at = first;
  for (Parameter* p : alike) {
    p->home = static_cast<int>(members_.size());
    p->at = at;
    at = counted_together({at, p->shape.count()});
  }
  s.count = round_up(at - first, s.cuts.parts);
  return s;
}

// The runs of a segment that this rank's optimizer changes: its part, parameter by parameter, neighbours of a kind in
// one unless the optimizer looks at whole parameters.
void Weights::list_owned(Bucket& bucket, const Segment& s, const OptimizerConfig& optimizer, bool first_holder) {
  const Mesh& mesh = context_.mesh();
  const Slice mine = part_of(mesh, s, s.cuts.optimizer);
  const Tensor& values = bucket.kept_masters ? bucket.kept_masters : bucket.kept_values;
  const std::int64_t value_base =
      bucket.kept_masters ? mine.first - s.kept_master : part_of(mesh, s, s.cuts.weights).first - s.kept_value;
  const std::int64_t gradient_base = part_of(mesh, s, s.cuts.gradients).first - s.kept_gradient;
  MeshAxes cut = 0;
  for (const Cuts::Step& step : s.cuts.steps) cut |= step.over;
  struct Run {
    std::int64_t first, end;
    bool counted, decays;
    std::int64_t parameter;
  };
  std::vector<Run> runs;
  for (const Parameter* p : members_.back()) {
    const std::int64_t first = std::max(mine.first, p->at), end = std::min(mine.end(), p->at + p->shape.count());
    if (end <= first) continue;
    const MeshAxes replicas = mesh.all() & ~context_.plan.pipe() & ~cut & ~axes_of(*p, Kind::split);
    const Run run{first, end, first_holder && mesh.first_on(replicas), optimizer.decay_all || p->decays,
                  optimizer.adapts_by_parameter() ? p->number : -1};
    if (!runs.empty() && runs.back().end == first && runs.back().counted == run.counted &&
        runs.back().decays == run.decays && runs.back().parameter == run.parameter)
      runs.back().end = end;
    else
      runs.push_back(run);
  }
  for (const Run& r : runs) {
    const std::int64_t n = r.end - r.first;
    bucket.owned.push_back({values.rows(r.first - value_base, n),
                            bucket.kept_gradients.rows(r.first - gradient_base, n), bucket.owned_count, r.counted,
                            r.decays, r.parameter});
    bucket.owned_count += n;
  }
}

void Weights::show(int k) {
  const Bucket& b = buckets_[static_cast<std::size_t>(k)];
  for (Parameter* p : members(k)) {
    const std::int64_t n = p->shape.count();
    p->value = b.values ? b.values.rows(p->at, n).reshaped(p->shape) : Tensor();
    p->gradient = b.gradients ? b.gradients.rows(p->at, n).reshaped(p->shape) : Tensor();
  }
}

void Weights::prefetch(int block) {
  for (int k : buckets_of(block)) exchange_.prefetch(buckets_[static_cast<std::size_t>(k)]);
}

void Weights::fetch(int block) {
  for (int k : buckets_of(block)) {
    exchange_.fetch(buckets_[static_cast<std::size_t>(k)]);
    show(k);
  }
}

void Weights::release(int block) {
  for (int k : buckets_of(block)) {
    for (Parameter* p : members(k)) p->value = {};  // before the bucket: nobody else may hold its numbers
    exchange_.release(buckets_[static_cast<std::size_t>(k)]);
    show(k);
  }
}

void Weights::open(int block) {
  for (int k : buckets_of(block)) {
    Bucket& b = buckets_[static_cast<std::size_t>(k)];
    if (!b.gradients) exchange_.open(b);
    show(k);
  }
}

void Weights::close(int block, bool last) {
  for (int k : buckets_of(block)) {
    if (first_block_[static_cast<std::size_t>(k)] != block) continue;  // a block before this one adds to it too
    for (Parameter* p : members(k)) p->gradient = {};
    exchange_.close(buckets_[static_cast<std::size_t>(k)], last);
  }
}

void Weights::publish() {
  for (Bucket& b : buckets_) exchange_.publish(b);
}

void Weights::zero_gradients() {
  for (const Bucket& b : buckets_) context_.stream.zero(b.kept_gradients);
}

void Weights::visit(int k, const std::vector<Parameter*>& shown, const Look& look, bool changes) {
  Bucket& b = buckets_[static_cast<std::size_t>(k)];
  const Tensor whole = exchange_.whole_values(b);
  const bool here = context_.stream.device().on_host();
  const std::unique_ptr<Device> host = here ? nullptr : make_host_device();
  const Tensor numbers = here ? whole : host->empty(whole.shape(), whole.dtype());
  if (!here) {
    context_.stream.copy(numbers, whole);
    context_.stream.synchronize();
  }
  for (const Parameter* p : shown) {
    Parameter view = *p;
    view.value = numbers.rows(p->at, p->shape.count()).reshaped(p->shape);
    look(view);
  }
  if (!changes) return;
  if (!here) context_.stream.copy(whole, numbers);
  exchange_.keep(b, whole);
  context_.stream.synchronize();  // the host's numbers end here
}

void Weights::visit(Parameter& p, const Look& look) {
  if (holds(p)) visit(p.home, {&p}, look, false);
}

void Weights::change(Parameter& p, const Look& change) {
  if (holds(p)) visit(p.home, {&p}, change, true);
}

void Weights::change_all(const Look& change) {
  for (std::size_t k = 0; k < buckets_.size(); ++k) visit(static_cast<int>(k), members_[k], change, true);
}

Tensor Weights::whole_gradient(const Parameter& p) {
  return exchange_.whole_gradient(buckets_[static_cast<std::size_t>(p.home)])
      .rows(p.at, p.shape.count())
      .reshaped(p.shape);
}

std::int64_t Weights::kept_bytes() const {
  std::int64_t n = 0;
  for (const Bucket& b : buckets_) n = counted_together({n, b.kept_values.bytes()});
  return n;
}

std::int64_t Weights::master_bytes() const {
  std::int64_t n = 0;
  for (const Bucket& b : buckets_)
    if (b.kept_masters) n = counted_together({n, b.kept_masters.bytes()});
  return n;
}

std::int64_t Weights::gradient_bytes() const {
  std::int64_t n = 0;
  for (const Bucket& b : buckets_) n = counted_together({n, b.kept_gradients.bytes()});
  return n;
}

}  // namespace quadrille
