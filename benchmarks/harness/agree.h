// SPDX-License-Identifier: Apache-2.0
// Work that some ranks do for all, such as writing a file: when it fails on any of them, all ranks end, and one message
// says which rank failed and why. Used by the session.
#pragma once

#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "parallelism/communicator.h"

namespace quadrille {

// A collective call. Runs `work` on the ranks where `mine` is true. If any of them fails, the lowest failing rank
// throws its Error and the others end as Poisoned.
template <class Work>
void agree(Communicator& world, bool mine, Work work) {
  std::string failure;
  if (mine) {
    try {
      work();
    } catch (const Error& error) {
      failure = error.what();
    }
  }
  const std::vector<Json> all = world.exchange(failure);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].string().empty()) continue;
    if (static_cast<int>(rank) == world.rank()) fail("{}", failure);
    // The world takes the first exception for its cause, with the number of the rank that threw it. So the others wait
    // here until that rank has spoken: it never comes to this barrier.
    world.barrier();
    throw Poisoned(all[rank].string());
  }
}

}  // namespace quadrille
