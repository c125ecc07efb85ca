// SPDX-License-Identifier: Apache-2.0
// A processor for which nobody has written the loops yet: the probe says so, nothing is guessed.
#include "benchmarks/micro/fma_loops.h"
#include "core/error.h"

namespace quadrille {

const FmaLoop& best_fma_loop() {
  fail(
      "the peak probe has loops for x86-64 only: utilisation is not known here; add a file beside "
      "benchmarks/micro/fma_loops_x86.cpp");
}
void run_dependent_additions(std::int64_t) noexcept {}

}  // namespace quadrille
