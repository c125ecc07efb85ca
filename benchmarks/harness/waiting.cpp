// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/harness/waiting.h"

#include <unistd.h>

#include <cstdlib>
#include <initializer_list>

namespace quadrille {

void spin_briefly_then_sleep(char** arguments) {
  for (const char* choice : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"})
    if (std::getenv(choice)) return;
  setenv("GOMP_SPINCOUNT", "3000", 1);  // GCC's runtime, rounds; also what keeps the second start from a third
  setenv("KMP_BLOCKTIME", "0", 1);      // LLVM's, milliseconds
  execv("/proc/self/exe", arguments);
}

}  // namespace quadrille
