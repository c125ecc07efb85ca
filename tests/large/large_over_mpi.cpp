// SPDX-License-Identifier: Apache-2.0
// The same message between two MPI processes, in chunks of the size that the product uses.
#include <fmt/core.h>

#include "parallelism/world.h"
#include "tests/large/large.h"

int main() {
  using namespace quadrille;
  try {
    if (const std::string lack = large::memory_lacking(); !lack.empty()) {
      fmt::print("skipped: {}\n", lack);
      return 0;
    }
    WorldOptions options;
    options.ranks = 2;
    options.timeout_seconds = 300;
    run_mpi(options, [](std::unique_ptr<Communicator> world) { large::pass_on(*world); });
    fmt::print("conforms\n");
    return 0;
  } catch (const Poisoned&) {
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
  }
  return 1;
}
