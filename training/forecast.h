// SPDX-License-Identifier: Apache-2.0
// The counting run: the trainer's own engine on a device that holds no numbers, for any rank of any world. Not included
// outside training/; the harness calls forecast() of trainer.h.
#pragma once

#include "kernels/backend.h"
#include "training/engine.h"

namespace quadrille {

struct Counted {
  ScratchUse scratch;
  Rehearsal rehearsal;
  Forecast forecast;
};
Counted count(const Workload&, const Backend&, const std::vector<MeshAxis>&, int ranks, int rank);

}  // namespace quadrille
