// SPDX-License-Identifier: Apache-2.0
// Stands in for nccl/group.cpp where there is no NCCL; the build knows why, and what would bring it.
#include "core/build.h"
#include "core/error.h"
#include "parallelism/device_worlds.h"

namespace quadrille {

std::string_view nccl_absent_because() { return build_part("NCCL").remedy; }
std::string nccl_version() { return {}; }

std::unique_ptr<Communicator> over_nccl(std::unique_ptr<Communicator>, Device&, double) {
  fail("collectives over NCCL are not in this program: {}", nccl_absent_because());
}

double try_nccl(std::unique_ptr<Communicator>, Device&, std::int64_t, double) {
  fail("collectives over NCCL are not in this program: {}", nccl_absent_because());
}

}  // namespace quadrille
