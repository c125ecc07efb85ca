// SPDX-License-Identifier: Apache-2.0
// The cuda back end as the rest of the house sees it. Which GPU a rank takes is not decided here.
#include "kernels/backend.h"

#include "core/cuda/device.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/ops.h"

namespace quadrille {

namespace {

const Ops& cuda_ops() {
  static const CudaOps ops;
  return ops;
}
std::int64_t workspaces(const ScratchSizes&, int) { return kWorkspaceBytes; }

}  // namespace

const Backend& cuda_backend() {
  static const Backend cuda{.name = "cuda",
                            .open_device = open_cuda_device,
                            .ops = cuda_ops,
                            .use_threads = nullptr,
                            .absent_because = "",
                            .timed_claims = true,
                            .scratch_needed = workspaces,
                            .scratch_held = cuda_workspace_bytes,
                            .tensor_cores = true,
                            .devices = cuda_devices,
                            .versions = cuda_versions,
                            .convolutions = false,
                            .attention_block = CudaOps::kAttentionBlock};
  return cuda;
}

}  // namespace quadrille
