// SPDX-License-Identifier: Apache-2.0
// Lays a model's parameters end to end in buckets, ordered by what they owe, and tells for each run whether this rank
// counts it in the gradient norm and whether it decays. Done once, after the rehearsal.
#pragma once

#include <vector>

#include "models/nn/parameter.h"
#include "parallelism/exchange.h"

namespace quadrille {

// Buckets in order of the first parameter of each; a bucket called "tied" comes last. Values and gradients are allocated
// on `device` and every parameter's views are set. `decay_all`: also biases, gains and positions.
std::vector<Bucket> lay_out(Parameters&, const Mesh&, Device& device, DType, bool decay_all);

}  // namespace quadrille
