// SPDX-License-Identifier: Apache-2.0
// Changes values given gradients, and keeps its own state beside what this rank owns of each bucket. Reads rate,
// clipping factor and step number from the device, so that no step waits for the host. LARS and LAMB also need norms of
// whole parameters, of which a rank may own a part or nothing: each rank adds the squares of what it counts (every
// element once over all ranks, pads never) to one tensor for all parameters of the model, which is summed over all
// ranks in one message; the ratio of norms is then computed on the device, by every rank from the same two sums.
// Formulas and conventions: docs/optimizers.md.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/ops.h"
#include "parallelism/exchange.h"
#include "training/config.h"

namespace quadrille {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Before the first step of a bucket: adds this rank's squares to norms(), which are then summed over all ranks.
  virtual void measure(Stream&, const Bucket&, std::size_t bucket_index, const Tensor& scalars);
  virtual Tensor norms() const { return {}; }  // f64 [parameters, 2], to be zero before they are measured; or empty
  virtual void step(Stream&, const Bucket&, std::size_t bucket_index, const Tensor& scalars) = 0;
  virtual std::int64_t bytes() const = 0;  // of its state
};

// State of the buckets' type and device, zero at first. `parameters`: of the whole model.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig&, const Ops&, Device&, Stream&,
                                          const std::vector<Bucket>&, std::int64_t parameters);

}  // namespace quadrille
