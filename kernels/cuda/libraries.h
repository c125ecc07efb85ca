// SPDX-License-Identifier: Apache-2.0
// What a rank thread holds of NVIDIA's libraries for its GPU: handles, the plans found so far and the workspaces.
// Everything is made at its first use and kept, so that after the first step no call allocates or searches (which also
// a captured step needs). The workspaces are this back end's temporary memory outside the arena, as in kernels/cpu/
// scratch.h: the forecast counts them, the report what the thread holds. Used by gemm.cpp and sdpa.cpp.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>

#include "core/device.h"
#include "kernels/cuda/cudnn_graph.h"
#include "kernels/cuda/sdpa_graph.h"

namespace quadrille {

// Products: what NVIDIA recommends on Hopper and later. Attention: its backward pass keeps 2 bytes for each
// pair of tokens and head; this is enough for 560 heads of 1024 tokens at once, or 8 of 8192 (see sdpa.cpp).
inline constexpr std::int64_t kProductWorkspace = std::int64_t{32} << 20,
                              kAttentionWorkspace = std::int64_t{1120} << 20;

struct DestroyCublas {
  void operator()(cublasLtHandle_t handle) const noexcept { cublasLtDestroy(handle); }
  void operator()(cublasLtMatmulDesc_t description) const noexcept { cublasLtMatmulDescDestroy(description); }
  void operator()(cublasLtMatrixLayout_t layout) const noexcept { cublasLtMatrixLayoutDestroy(layout); }
  void operator()(cublasLtMatmulPreference_t preference) const noexcept { cublasLtMatmulPreferenceDestroy(preference); }
};
template <class Pointer>
using Cublas = std::unique_ptr<std::remove_pointer_t<Pointer>, DestroyCublas>;

// Everything on which the choice of an algorithm depends.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  cudaDataType_t in = CUDA_R_32F, out = CUDA_R_32F;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  bool a_turned = false, b_turned = false, bias = false;
  std::uint32_t a_aligned = 256, b_aligned = 256, out_aligned = 256;  // bytes, at most 256
  auto operator<=>(const GemmShape&) const = default;
};
struct GemmPlan {
  Cublas<cublasLtMatmulDesc_t> how;
  Cublas<cublasLtMatrixLayout_t> a, b, out;
  cublasLtMatmulAlgo_t algorithm{};
  std::int64_t workspace = 0;
};

class CudaLibraries {
 public:
  explicit CudaLibraries(int device);
  CudaLibraries(const CudaLibraries&) = delete;
  CudaLibraries& operator=(const CudaLibraries&) = delete;

  cublasLtHandle_t cublas();
  cudnnHandle_t cudnn();  // loaded at the first call; runs without cuDNN's attention never need it
  // Temporary memory for one call on this stream. All calls of a thread share it, in the order of their stream; a
  // change of the stream waits for the device (ranks compute on one stream). Its size is fixed: it is allocated whole
  // when a run begins, else at the first call, and plans that want more are not taken.
  void* product_workspace(std::int64_t bytes, cudaStream_t stream) {
    return workspace(product_, kProductWorkspace, bytes, stream);
  }
  void* attention_workspace(std::int64_t bytes, cudaStream_t stream) {
    return workspace(attention_, kAttentionWorkspace, bytes, stream);
  }
  // For a run that begins: the workspace of products, and that of attention or none.
  void hold(bool attention);
  std::int64_t workspace_bytes() const;
  std::int64_t attention_room = kAttentionWorkspace;  // what a call may ask for; tests lower it

  std::map<GemmShape, GemmPlan> gemms;
  std::map<SdpaShape, std::unique_ptr<CudnnPlan>> sdpa_forward, sdpa_backward;  // null: cuDNN has none

 private:
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  struct DestroyHandle {
    void operator()(cudnnHandle_t handle) const noexcept { cudnnDestroy(handle); }
  };
  using Workspace = std::unique_ptr<void, Free>;
  void allocate(Workspace&, std::int64_t size) const;
  void* workspace(Workspace&, std::int64_t size, std::int64_t bytes, cudaStream_t);

  int device_;
  Cublas<cublasLtHandle_t> cublas_;
  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, DestroyHandle> cudnn_;
  Workspace product_, attention_;
  cudaStream_t last_ = nullptr;
};

CudaLibraries& cuda_libraries(const Device&);  // of the calling thread
std::int64_t cuda_workspace_bytes();           // held by the calling thread, on all its devices: Backend::scratch_held

}  // namespace quadrille
