// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/probe.h"

namespace quadrille {
namespace {

__global__ void nothing() {}

}  // namespace

cudaError_t probe_code() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, nothing);
}

}  // namespace quadrille
