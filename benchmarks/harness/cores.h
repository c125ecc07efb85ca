// SPDX-License-Identifier: Apache-2.0
// Which cores this process may use, how they are shared out among the ranks of a host, and the binding of rank threads.
// OpenMP is left unbound: its threads inherit the cores of the rank thread that starts them.
#pragma once

#include <string>
#include <vector>

namespace quadrille {

std::vector<int> usable_cpus();  // of the process before ranks were bound; by affinity, ascending
// Cores' worth of time that control groups grant (version 2 and 1); infinite without a limit. `root`: for tests.
double cpu_quota(const std::string& root = "");
int usable_cores();  // the smaller of both, at least 1

// What one rank gets.
struct Placement {
  int threads = 1;
  std::vector<int> cpus;  // empty: leave unbound
  std::string note;       // worth a line on the terminal, or empty
};
struct PlacementRequest {
  int ranks = 1, place = 0;  // that may use the same CPUs, and which of them this is
  int threads = 0;           // 0: not asked for
  int usable = 1;            // cores: affinity and quota
  std::vector<int> cpus;     // in the order to be given out
  bool oversubscribe = false;
};
// Throws Error when ranks x threads exceed the usable cores, unless asked for.
Placement place_rank(const PlacementRequest&);

// In binding_hwloc.cpp or binding_absent.cpp.
std::vector<int> spread_over_cores(std::vector<int> cpus);  // one of each physical core first, then their siblings
bool bind_this_thread(const std::vector<int>& cpus);        // false: not bound
std::string binding_description();                          // "hwloc 2.9.0", or why not

}  // namespace quadrille
