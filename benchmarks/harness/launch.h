// SPDX-License-Identifier: Apache-2.0
// Who runs where: the inventory that ranks exchange first, the share of cores each gets, the launch table, and the peak
// of the distinct cores in use. All of it before the clock starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/harness/record.h"
#include "parallelism/communicator.h"

namespace quadrille {

struct LaunchRequest {
  int threads = 0;  // of a rank; 0: the share of the usable cores
  bool oversubscribe = false;
  std::string device;  // "cpu"
};

struct RankPlace {
  int rank = 0;
  std::string host, device;
  std::int64_t process = 0;
  std::vector<int> cpus;  // bound to these; empty: not bound
  int threads = 1;
};

struct Launch {
  std::vector<RankPlace> ranks;  // all, in rank order
  RankPlace mine;
  bool first_of_process = false;  // the lowest rank of its process: does what a process does once
  bool first_of_host = false;
  std::vector<int> host_cpus;  // in use by any rank of this host; empty: not bound
  int host_cores = 1;          // how many distinct cores the ranks of this host use
  std::vector<std::string> notes;
};

// Collective. Binds the calling rank thread.
Launch launch_rank(Communicator& world, const LaunchRequest&);
std::string launch_table(const Launch&);
// Collective. One rank per host probes all cores in use there while the others wait; the sum over hosts.
Peak measure_peak(Communicator& world, const Launch&, double seconds);

}  // namespace quadrille
