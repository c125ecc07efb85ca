// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/ops.h"

#include "kernels/backend.h"

namespace quadrille {

const Ops& reference_ops() {
  static const ReferenceOps ops;
  return ops;
}

}  // namespace quadrille
