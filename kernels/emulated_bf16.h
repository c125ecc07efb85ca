// SPDX-License-Identifier: Apache-2.0
// bf16 on back ends that compute in f32: operands are widened into temporary tensors, the op runs in f32, and what it
// made is rounded once. So mixed precision can be tried and tested without a GPU; it is correct, not fast, its
// temporaries are on no bill, and no timed claim is made with it. Used by reference/ and cpu/.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/ops.h"

namespace quadrille {

// `inner` outlives it and computes on the host. Calls without a bf16 operand go straight to it. `attention_block`: as
// in kernels/backend.h, because bills are made from the operands as given.
std::unique_ptr<Ops> with_emulated_bf16(const Ops& inner, std::int64_t attention_block);

}  // namespace quadrille
