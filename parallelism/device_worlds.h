// SPDX-License-Identifier: Apache-2.0
// Worlds for tensors that lie on a device: a world of the host (threads, MPI) is given a second half that moves the
// device's numbers. The host's world stays what ranks meet in: it serves exchange, barrier, split and poison. Used by
// whoever opens devices for ranks.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/device.h"
#include "parallelism/communicator.h"

namespace quadrille {

// Over NCCL, on a CUDA device that no other rank uses. A collective call, as is every split of the result: each group
// gets NCCL communicators of its own, made by all its members at that moment. Calls return at once and travel on the
// rank's two streams: one of high priority for crossings, one for bulk (travel_in_bulk). What is not complete
// `timeout_seconds` after it could begin, and every error that NCCL notices by itself, fails the world: all messages
// under way are given up on every rank, and no rank waits for them any more. NCCL adds in an order of its own, and its
// maximum may hide what is not a number.
// Implemented by nccl/, or nccl/absent.cpp which throws Error.
std::unique_ptr<Communicator> over_nccl(std::unique_ptr<Communicator> host, Device&, double timeout_seconds);

// Sums known numbers of these ranks through an NCCL communicator of their own, also where there is but one (whose world
// otherwise calls nothing of NCCL), and returns the median seconds of such a sum. Throws Error: NCCL refuses, or a sum
// is wrong.
double try_nccl(std::unique_ptr<Communicator> host, Device&, std::int64_t numbers, double timeout_seconds);

// Through host memory, by the host's own world: for any device, also one that ranks share. Every call waits, like those
// of the host's world, and results are the same in bits.
std::unique_ptr<Communicator> over_host_memory(std::unique_ptr<Communicator> host, Device&);

std::string_view nccl_absent_because();  // empty when built
std::string nccl_version();              // of the library in use, "2.28.9"; empty when absent

}  // namespace quadrille
