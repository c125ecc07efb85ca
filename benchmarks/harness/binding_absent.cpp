// SPDX-License-Identifier: Apache-2.0
// Without hwloc rank threads are left where the system puts them. See cores.h.
#include "benchmarks/harness/cores.h"

namespace quadrille {

std::vector<int> spread_over_cores(std::vector<int> cpus) { return cpus; }

bool bind_this_thread(const std::vector<int>&) { return false; }

std::string binding_description() { return "threads are not bound: built without hwloc (Debian: libhwloc-dev)"; }

}  // namespace quadrille
