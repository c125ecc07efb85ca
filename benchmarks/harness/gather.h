// SPDX-License-Identifier: Apache-2.0
// Long texts of all ranks, for rank 0 to write: the host exchange is for small messages, and all worlds have it, so
// ranks speak in turn and in pieces.
#pragma once

#include <string>
#include <vector>

#include "parallelism/communicator.h"

namespace quadrille {

// Collective. On rank 0 the text of each rank, on others nothing. Texts are cut at line ends, so that no character is
// torn: a line is far below a mebibyte.
std::vector<std::string> gather_text(Communicator& world, const std::string& mine);

}  // namespace quadrille
