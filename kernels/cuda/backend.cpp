// SPDX-License-Identifier: Apache-2.0
// The cuda back end as the rest of the house sees it. Which GPU a rank takes is not decided here.
#include "kernels/backend.h"

#include "core/cuda/device.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/library.h"
#include "kernels/cuda/ops.h"

namespace quadrille {

namespace {

const Ops& cuda_ops() {
  static const CudaOps ops;
  return ops;
}
// Tensors of bf16 may go to cuDNN.
bool wants_attention(const ScratchUse& use) { return use.dtype == DType::bf16 && use.sizes.head > 0; }
std::int64_t workspaces(const ScratchUse& use) {
  return kProductWorkspace + (wants_attention(use) ? kAttentionWorkspace : 0);
}
void hold_workspaces(Device& device, const ScratchUse& use) { cuda_libraries(device).hold(wants_attention(use)); }

int products_rebuilt(const Tensor& q, const Tensor& lengths, const Attention& how) {
  return !lengths && sdpa_expected(q.dtype(), how) ? CudaOps::kRebuiltFused : CudaOps::kRebuiltPlainly;
}

}  // namespace

const Backend& cuda_backend() {
  static const Backend cuda{.name = "cuda",
                            .open_device = open_cuda_device,
                            .ops = cuda_ops,
                            .use_threads = nullptr,
                            .absent_because = "",
                            .timed_claims = true,
                            .scratch_needed = workspaces,
                            .hold_scratch = hold_workspaces,
                            .scratch_held = cuda_workspace_bytes,
                            .tensor_cores = true,
                            .devices = cuda_devices,
                            .versions = cuda_versions,
                            .convolutions = false,
                            .attention = {.block = CudaOps::kAttentionBlock, .rebuilt = products_rebuilt}};
  return cuda;
}

}  // namespace quadrille
