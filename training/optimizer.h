// SPDX-License-Identifier: Apache-2.0
// Changes values given gradients, and keeps its own state beside what this rank owns of each bucket. Reads rate,
// clipping factor and step number from the device, so that no step waits for the host.
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
  virtual void step(Stream&, const Bucket&, std::size_t bucket_index, const Tensor& scalars) = 0;
  virtual std::int64_t bytes() const = 0;  // of its state
};

// State of the buckets' type and device, zero at first.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig&, const Ops&, Device&, Stream&,
                                          const std::vector<Bucket>&);

}  // namespace quadrille
