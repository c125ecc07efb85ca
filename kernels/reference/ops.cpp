// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/ops.h"

#include "kernels/backend.h"
#include "kernels/emulated_bf16.h"

namespace quadrille {

const Ops& reference_ops() {
  static const ReferenceOps ops;
  static const std::unique_ptr<Ops> all = with_emulated_bf16(ops, ReferenceOps::kAttentionBlock);
  return *all;
}

}  // namespace quadrille
