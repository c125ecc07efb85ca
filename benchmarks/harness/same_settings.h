// SPDX-License-Identifier: Apache-2.0
// Whether all ranks were started with the same settings. Under a launcher each process reads its own command line, and
// ranks that differ would train together to a result that no command line describes. Used by the session.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "parallelism/communicator.h"

namespace quadrille {

struct SettingsDifference {
  int rank = -1;        // the lowest that differs from rank 0; -1: none does
  std::string message;  // names it, and the first key that differs with both values
};
// One document for each rank, in rank order.
SettingsDifference settings_difference(const std::vector<Json>& settings);

// Collective. Digests first: the documents themselves travel only when there is something to tell. Throws Error on
// every rank.
void require_same_settings(Communicator& world, const Json& mine);

}  // namespace quadrille
