// SPDX-License-Identifier: Apache-2.0
// Hyperparameters that a suite gives for several global batch sizes ("per_batch", docs/suites.md): published sets, as
// data. The suite is read with the set of its batch; between two sets numbers are interpolated, and that is told.
#pragma once

#include <cstdint>
#include <string>

#include "core/json.h"

namespace quadrille {

struct PerBatch {
  bool given = false;      // the suite has such sets
  bool published = false;  // one of them is of this very batch
  std::string warning;     // where none is
};

// Takes "per_batch" out of the document and writes the values for this batch where they belong. Throws Error: not well
// formed. `wanted`: the batch size that --set asks for; 0: that of the suite.
PerBatch apply_per_batch(Json& document, std::int64_t wanted);

}  // namespace quadrille
