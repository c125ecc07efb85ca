// SPDX-License-Identifier: Apache-2.0
// Binding by hwloc, which knows cores, siblings and control groups on every system. See cores.h.
#include <fmt/core.h>
#include <hwloc.h>

#include <algorithm>
#include <map>
#include <memory>

#include "benchmarks/harness/cores.h"
#include "core/build.h"

namespace quadrille {

namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, Destroy>;

Topology load() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  Topology owner(topology);
  return hwloc_topology_load(topology) == 0 ? std::move(owner) : nullptr;
}

}  // namespace

std::vector<int> spread_over_cores(std::vector<int> cpus) {
  const Topology topology = load();
  if (!topology) return cpus;
  std::map<int, std::pair<int, int>> place;  // cpu -> (how many siblings come before it, its number)
  std::map<unsigned, int> taken;             // core -> siblings seen
  for (int cpu : cpus) {
    hwloc_obj_t unit = hwloc_get_pu_obj_by_os_index(topology.get(), static_cast<unsigned>(cpu));
    hwloc_obj_t core = unit ? hwloc_get_ancestor_obj_by_type(topology.get(), HWLOC_OBJ_CORE, unit) : nullptr;
    place[cpu] = {core ? taken[core->logical_index]++ : 0, unit ? static_cast<int>(unit->logical_index) : cpu};
  }
  std::stable_sort(cpus.begin(), cpus.end(), [&](int a, int b) { return place[a] < place[b]; });
  return cpus;
}

bool bind_this_thread(const std::vector<int>& cpus) {
  const Topology topology = load();
  const Bitmap set(hwloc_bitmap_alloc());
  if (!topology || !set || cpus.empty()) return false;
  for (int cpu : cpus) hwloc_bitmap_set(set.get(), static_cast<unsigned>(cpu));
  return hwloc_set_cpubind(topology.get(), set.get(), HWLOC_CPUBIND_THREAD) == 0;
}

std::string binding_description() { return fmt::format("hwloc {}", build_part("hwloc").version); }

}  // namespace quadrille
