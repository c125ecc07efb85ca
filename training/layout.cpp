// SPDX-License-Identifier: Apache-2.0
#include "training/layout.h"

#include <algorithm>
#include <unordered_map>

namespace quadrille {

namespace {

// The first of a parameter's holders counts it: the rank at 0 on every mesh axis where the parameter is not split.
bool counts_here(const Parameter& p, const Mesh& mesh) {
  MeshAxes held = 0;
  for (int m = 0; m < mesh.axes(); ++m)
    if (p.states[static_cast<std::size_t>(m)].kind == Kind::same) held |= bit(m);
  return mesh.first_on(held);
}

void append(std::vector<Segment>& segments, const Segment& next) {
  if (!segments.empty()) {
    Segment& last = segments.back();
    if (last.owed == next.owed && last.counted == next.counted && last.decays == next.decays) {
      last.count += next.count;
      return;
    }
  }
  segments.push_back(next);
}

Bucket fill(const std::string& name, std::vector<Parameter*> parameters, const Mesh& mesh, Device& device, DType dtype,
            bool decay_all) {
  std::stable_sort(parameters.begin(), parameters.end(),
                   [](const Parameter* a, const Parameter* b) { return a->owed < b->owed; });
  Bucket bucket{name, {}, {}, {}};
  std::int64_t count = 0;
  for (const Parameter* p : parameters) count += p->shape.count();
  bucket.values = device.empty({count}, dtype);
  bucket.gradients = device.empty({count}, dtype);
  std::int64_t at = 0;
  for (Parameter* p : parameters) {
    const std::int64_t n = p->shape.count();
    p->value = bucket.values.rows(at, n).reshaped(p->shape);
    p->gradient = bucket.gradients.rows(at, n).reshaped(p->shape);
    append(bucket.segments, {at, n, mesh.real(p->owed), counts_here(*p, mesh), decay_all || p->decays});
    at += n;
  }
  return bucket;
}

}  // namespace

std::vector<Bucket> lay_out(Parameters& parameters, const Mesh& mesh, Device& device, DType dtype, bool decay_all) {
  std::vector<std::pair<std::string, std::vector<Parameter*>>> groups;
  std::unordered_map<std::string, std::size_t> known;
  for (Parameter& p : parameters.all()) {
    const auto [group, is_new] = known.try_emplace(p.bucket, groups.size());
    if (is_new) groups.push_back({p.bucket, {}});
    groups[group->second].second.push_back(&p);
  }
  std::stable_partition(groups.begin(), groups.end(), [](const auto& g) { return g.first != "tied"; });
  std::vector<Bucket> buckets;
  for (auto& [name, members] : groups) buckets.push_back(fill(name, members, mesh, device, dtype, decay_all));
  return buckets;
}

}  // namespace quadrille
