// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/harness/waiting.h"

#include <unistd.h>

#include <cstdlib>

namespace quadrille {

void let_threads_sleep(char** arguments) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);  // also what keeps the second start from a third
  execv("/proc/self/exe", arguments);
}

}  // namespace quadrille
