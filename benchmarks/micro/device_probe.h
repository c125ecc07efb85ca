// SPDX-License-Identifier: Apache-2.0
// What a device can do at best in a product of matrices, by the back end's own op: the measured peak beside the data
// sheet's. Used by the harness for GPUs; processors are probed in probe.h.
#pragma once

#include "core/device.h"
#include "kernels/ops.h"

namespace quadrille {

// FLOP/s: the median of several runs of a square product, as large as 8192 where the device is fast enough for it, of
// numbers that look like random ones (equal numbers cost less power, and a device that is held by its power is faster
// on them). `seconds`: about so long. Throws Error: memory.
double probe_products(Device&, const Ops&, DType, bool tf32, double seconds);

}  // namespace quadrille
