// SPDX-License-Identifier: Apache-2.0
// --trace: every entry of every rank's ledger in the Chrome trace format (one process per rank), which browsers'
// tracing pages and Perfetto open.
#pragma once

#include <string>

#include "core/ledger.h"
#include "parallelism/communicator.h"

namespace quadrille {

// Collective; rank 0 writes. `zero`: the ledger's time at run_start, the same moment on all ranks.
void write_trace(Communicator& world, const Ledger& ledger, double zero, const std::string& host,
                 const std::string& path);

// The events of one rank, comma-separated; for tests.
std::string trace_events(const Ledger& ledger, double zero, int rank, const std::string& host);

}  // namespace quadrille
