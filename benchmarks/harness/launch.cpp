// SPDX-License-Identifier: Apache-2.0
// See launch.h.
#include "benchmarks/harness/launch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <set>
#include <thread>

#include "benchmarks/harness/cores.h"
#include "benchmarks/harness/peaks.h"
#include "benchmarks/harness/text.h"
#include "benchmarks/micro/probe.h"
#include "core/error.h"
#include "parallelism/world.h"

namespace quadrille {

namespace {

Json json_of(const std::vector<int>& values) {
  Json array = Json::array();
  for (int value : values) array.push(value);
  return array;
}

std::vector<int> integers_of(const Json& array) {
  std::vector<int> values;
  for (const Json& item : array.items()) values.push_back(static_cast<int>(item.integer()));
  return values;
}

// Ranks of one host that may use the same CPUs share them out. A launcher that binds has made shares already.
PlacementRequest placement_request(const std::vector<Json>& inventory, int rank, const LaunchRequest& request) {
  const Json& mine = inventory[static_cast<std::size_t>(rank)];
  PlacementRequest placement;
  placement.ranks = 0;
  for (int other = 0; other < static_cast<int>(inventory.size()); ++other) {
    const Json& theirs = inventory[static_cast<std::size_t>(other)];
    if (theirs.at("host") != mine.at("host") || theirs.at("cpus") != mine.at("cpus")) continue;
    if (other < rank) ++placement.place;
    ++placement.ranks;
  }
  placement.threads = request.threads;
  placement.oversubscribe = request.oversubscribe;
  placement.usable = static_cast<int>(mine.at("usable").integer());
  placement.cpus = spread_over_cores(integers_of(mine.at("cpus")));
  return placement;
}

// Shares that a launcher made may overlap, or be more than the control groups of the host grant.
void refuse_crowded_host(const std::vector<Json>& inventories, const std::string& host, int threads) {
  std::set<int> cpus;
  double quota = std::numeric_limits<double>::infinity();
  for (const Json& theirs : inventories) {
    if (theirs.at("host").string() != host) continue;
    for (int cpu : integers_of(theirs.at("cpus"))) cpus.insert(cpu);
    if (!theirs.at("quota").is_null()) quota = std::max(1.0, std::floor(theirs.at("quota").number()));
  }
  const int usable = static_cast<int>(std::min(static_cast<double>(cpus.size()), quota));
  require(threads <= usable,
          "the ranks on {} have {} threads together, {} cores may be used: lower --threads or the number of ranks, or "
          "give --oversubscribe",
          host, threads, usable);
}

RankPlace place_from(const Json& json, int rank) {
  RankPlace place;
  place.rank = rank;
  place.host = json.at("host").string();
  place.device = json.at("device").string();
  place.process = json.at("process").integer();
  place.cpus = integers_of(json.at("cpus"));
  place.threads = static_cast<int>(json.at("threads").integer());
  return place;
}

Json probe_json(const Launch& launch, double seconds) {
  Json json = Json::object();
  PeakProbe probe{};
  std::exception_ptr refused;
  // A thread of its own: its OpenMP threads inherit all cores of the host's ranks, and end with it.
  std::thread thread([&] {
    try {
      bind_this_thread(launch.host_cpus);
      probe = probe_peak(launch.host_cores, seconds);
    } catch (...) {
      refused = std::current_exception();
    }
  });
  thread.join();
  try {
    if (refused) std::rethrow_exception(refused);
  } catch (const Error& error) {  // a peak that cannot be believed is not used; the run can still be timed
    json.set("note", error.what());
    return json;
  }
  json.set("fma", probe.fma_flops_per_second);
  json.set("gemm", probe.gemm_flops_per_second);
  json.set("clock", probe.clock_hertz);
  json.set("spread", probe.spread);
  json.set("instruction_set", probe.instruction_set);
  json.set("cores", launch.host_cores);
  return json;
}

}  // namespace

Launch launch_rank(Communicator& world, const LaunchRequest& request) {
  Json inventory = Json::object();
  inventory.set("host", host_name());
  inventory.set("process", static_cast<std::int64_t>(getpid()));
  inventory.set("cpus", json_of(usable_cpus()));
  inventory.set("usable", usable_cores());
  inventory.set("quota", std::isfinite(cpu_quota()) ? Json(cpu_quota()) : Json());
  const std::vector<Json> inventories = world.exchange(inventory);
  const Placement placement = place_rank(placement_request(inventories, world.rank(), request));
  const bool bound = bind_this_thread(placement.cpus);

  Json place = inventory;
  place.set("device", request.device);
  place.set("cpus", json_of(bound ? placement.cpus : std::vector<int>{}));
  place.set("threads", placement.threads);
  place.set("note", placement.note);
  const std::vector<Json> places = world.exchange(place);

  Launch launch;
  std::set<int> cpus;
  std::set<std::string> notes;
  int threads = 0;
  launch.first_of_process = launch.first_of_host = true;
  for (int rank = 0; rank < world.size(); ++rank) {
    const Json& theirs = places[static_cast<std::size_t>(rank)];
    const RankPlace& line = launch.ranks.emplace_back(place_from(theirs, rank));
    const bool same_host = line.host == inventory.at("host").string();
    if (!theirs.at("note").string().empty()) notes.insert(fmt::format("{}: {}", line.host, theirs.at("note").string()));
    if (!same_host) continue;
    if (rank < world.rank()) launch.first_of_host = false;
    if (rank < world.rank() && line.process == getpid()) launch.first_of_process = false;
    cpus.insert(line.cpus.begin(), line.cpus.end());
    threads += line.threads;
  }
  if (!request.oversubscribe) refuse_crowded_host(inventories, inventory.at("host").string(), threads);
  launch.mine = launch.ranks[static_cast<std::size_t>(world.rank())];
  launch.host_cpus.assign(cpus.begin(), cpus.end());
  launch.host_cores = launch.host_cpus.empty() ? std::min(threads, usable_cores()) : static_cast<int>(cpus.size());
  launch.host_cores = std::min(launch.host_cores, threads);
  launch.notes.assign(notes.begin(), notes.end());
  return launch;
}

std::string launch_table(const Launch& launch) {
  using Align = TextTable::Align;
  constexpr std::size_t kAtMost = 16;  // a screen; the record has all of them
  TextTable table({{"rank"}, {"host", Align::left}, {"device", Align::left}, {"cpus", Align::left}, {"threads"}});
  const std::size_t count = launch.ranks.size();
  for (const RankPlace& place : launch.ranks) {
    const auto rank = static_cast<std::size_t>(place.rank);
    if (count > kAtMost && rank == kAtMost - 2) table.row({"...", "", "", "", ""});
    if (count > kAtMost && rank >= kAtMost - 2 && rank + 1 < count) continue;
    table.row({fmt::format("{}", place.rank), place.host, place.device, text_cpus(place.cpus),
               fmt::format("{}", place.threads)});
  }
  std::string text = table.text();
  for (const std::string& note : launch.notes) text += "  note: " + note + "\n";
  return text;
}

Peak measure_peak(Communicator& world, const Launch& launch, double seconds) {
  Peak peak;
  peak.number_type = "f32";
  if (seconds <= 0) {
    peak.note = "no probe: run.probe_seconds is 0";
    return peak;
  }
  const Json mine = launch.first_of_host ? probe_json(launch, seconds) : Json();
  for (const Json& probe : world.exchange(mine)) {
    if (probe.is_null()) continue;
    if (const Json* note = probe.find("note")) {
      peak = Peak();
      peak.number_type = "f32";
      peak.note = note->string();
      return peak;
    }
    peak.measured_fma_flops_per_second += probe.at("fma").number();
    peak.measured_gemm_flops_per_second += probe.at("gemm").number();
    peak.clock_hertz = std::max(peak.clock_hertz, probe.at("clock").number());
    peak.spread_fraction = std::max(peak.spread_fraction, probe.at("spread").number());
    peak.cores += static_cast<int>(probe.at("cores").integer());
    peak.instruction_set = probe.at("instruction_set").string();
  }
  return peak;
}

}  // namespace quadrille
