// SPDX-License-Identifier: Apache-2.0
// The world of processes under an MPI launcher. An error of one rank ends all of them, with one message: the rank that
// failed first throws Error, the others Poisoned, which programs leave unprinted; none of them calls MPI_Finalize, so
// the launcher ends whoever is left.
#include <mpi.h>

#include <numeric>
#include <string>

#include "core/error.h"
#include "parallelism/mpi/group.h"
#include "parallelism/world.h"

namespace quadrille {

std::string_view mpi_absent_because() { return {}; }

std::string mpi_description() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "an unknown MPI";
  const std::string whole(text);  // "Open MPI v4.1.4, package: ...": the rest names the machine it was built on
  return whole.substr(0, whole.find_first_of(",\n"));
}

void run_mpi(const WorldOptions& options, const RankBody& body) {
  const auto transport = std::make_shared<mpi::Transport>(options);
  std::vector<int> ranks(static_cast<std::size_t>(transport->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  try {
    body(std::make_unique<mpi::MpiGroup>(transport, 1, std::move(ranks), transport->rank(), "world"));
    transport->refuse_if_poisoned();
    transport->farewell();
    return;
  } catch (const std::exception& error) {
    transport->claim(error.what());  // unless the world has failed already
  } catch (...) {
    transport->claim("an exception of unknown type");
  }
  transport->prepare_exit();
  transport->throw_cause();
}

}  // namespace quadrille
