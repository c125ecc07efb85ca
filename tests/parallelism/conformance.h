// SPDX-License-Identifier: Apache-2.0
// What every world must do, written once over a Communicator: the thread tests and the MPI program call the same checks
// and compare the digest of all results, bit for bit.
#pragma once

#include <cstdint>
#include <vector>

#include "parallelism/communicator.h"

namespace quadrille::testing {

// Runs every operation at every size and type against a serial formula, over `world` and groups of it. Throws Error at
// the first difference. Returns a digest of all results of all ranks, equal on each.
// Tensors lie on `device`; null: on the host.
std::uint64_t check_conformance(Communicator& world, const std::vector<std::int64_t>& sizes, Device* device = nullptr);

// Sizes that meet the edges: nothing, one, odd, below and above a cache block.
inline std::vector<std::int64_t> edge_sizes() { return {0, 1, 7, 64, 257, 5003}; }

}  // namespace quadrille::testing
