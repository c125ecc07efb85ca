// SPDX-License-Identifier: Apache-2.0
// See cores.h.
#include "benchmarks/harness/cores.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "core/error.h"

namespace quadrille {

namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// "max 100000" or "150000 100000".
double quota_version2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return kNoLimit;
  return std::strtod(quota.c_str(), nullptr) / period;
}

double quota_version1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us"), period_file(folder + "/cpu.cfs_period_us");
  double quota = -1, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0) return kNoLimit;
  return quota / period;
}

// The limit of a group binds its children: all groups from the root down to ours count.
template <class Quota>
double least_along(const std::string& mount, const std::string& group, Quota quota_of) {
  double least = quota_of(mount);
  std::string folder = mount;
  std::stringstream parts(group);
  for (std::string part; std::getline(parts, part, '/');) {
    if (part.empty()) continue;
    folder += "/" + part;
    least = std::min(least, quota_of(folder));
  }
  return least;
}

std::vector<int> cpus_by_affinity() {
  std::vector<int> cpus;
  // Machines have more CPUs than the fixed-size set of the C library holds; grow until the kernel accepts.
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(capacity));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(capacity));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; known && cpu < capacity; ++cpu)
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    CPU_FREE(set);
    if (known) return cpus;
  }
  for (int cpu = 0; cpu < static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); ++cpu)
    cpus.push_back(cpu);
  return cpus;
}

}  // namespace

// Asked once: a rank thread that has been bound would see its own cores only, and every rank asks before it is bound.
std::vector<int> usable_cpus() {
  static const std::vector<int> cpus = cpus_by_affinity();
  return cpus;
}

double cpu_quota(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  double least = kNoLimit;
  for (std::string line; std::getline(groups, line);) {  // "0::/user.slice" or "4:cpu,cpuacct:/docker/..."
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min(least, least_along(root + "/sys/fs/cgroup", group, quota_version2));
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      least = std::min(least, least_along(root + "/sys/fs/cgroup/cpu", group, quota_version1));
      least = std::min(least, least_along(root + "/sys/fs/cgroup/" + controllers, group, quota_version1));
    }
  }
  return least;
}

int usable_cores() {
  const auto by_affinity = static_cast<double>(usable_cpus().size());
  return std::max(1, static_cast<int>(std::floor(std::min(by_affinity, cpu_quota()))));
}

Placement place_rank(const PlacementRequest& request) {
  const int ranks = request.ranks, place = request.place;
  Placement placement;
  placement.threads = request.threads > 0 ? request.threads : std::max(1, request.usable / ranks);
  const long long wanted = static_cast<long long>(ranks) * placement.threads;
  if (wanted > request.usable) {
    require(request.oversubscribe,
            "{} rank{} of {} thread{} on this host want{} {} cores, {} may be used: lower --threads or --ranks, or "
            "give --oversubscribe",
            ranks, ranks == 1 ? "" : "s", placement.threads, placement.threads == 1 ? "" : "s", ranks == 1 ? "s" : "",
            wanted, request.usable);
    placement.note =
        fmt::format("{} threads share {} cores: correct, but slower than it looks", wanted, request.usable);
  }
  const auto given = static_cast<long long>(request.cpus.size());
  if (wanted <= given) {
    const auto first = request.cpus.begin() + static_cast<std::ptrdiff_t>(place) * placement.threads;
    placement.cpus.assign(first, first + placement.threads);
  } else if (given > 0) {
    for (int i = 0; i < placement.threads && i < given; ++i)
      placement.cpus.push_back(
          request.cpus[static_cast<std::size_t>((static_cast<long long>(place) * placement.threads + i) % given)]);
  }
  std::sort(placement.cpus.begin(), placement.cpus.end());
  return placement;
}

}  // namespace quadrille
