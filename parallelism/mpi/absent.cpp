// SPDX-License-Identifier: Apache-2.0
// Stands in for mpi/world.cpp where there is no MPI; the build knows why, and what would bring it.
#include "core/build.h"
#include "core/error.h"
#include "parallelism/world.h"

namespace quadrille {

std::string_view mpi_absent_because() { return build_part("MPI").remedy; }

void run_mpi(const WorldOptions&, const RankBody&) {
  fail("world mpi is not in this program: {}", mpi_absent_because());
}

std::string mpi_description() { return "absent: " + std::string(mpi_absent_because()); }

}  // namespace quadrille
