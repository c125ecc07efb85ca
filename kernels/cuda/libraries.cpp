// SPDX-License-Identifier: Apache-2.0
// NOT VERIFIED ON A DEVICE: compiled and linked against the toolkit, never run on a GPU.
#include "kernels/cuda/libraries.h"

#include "core/cuda/device.h"
#include "core/error.h"
#include "kernels/cuda/check.h"

namespace quadrille {

namespace {

// By device; one thread is one rank, which has one, but tests open several in turn.
std::map<int, std::unique_ptr<CudaLibraries>>& of_thread() {
  thread_local std::map<int, std::unique_ptr<CudaLibraries>> kept;
  return kept;
}

}  // namespace

CudaLibraries::CudaLibraries(int device) : device_(device) {}

void CudaLibraries::Free::operator()(void* memory) const noexcept { check_quietly(cudaFree(memory)); }

cublasLtHandle_t CudaLibraries::cublas() {
  if (!cublas_) {
    check(cudaSetDevice(device_));
    cublasLtHandle_t handle = nullptr;
    check(cublasLtCreate(&handle));
    cublas_.reset(handle);
  }
  return cublas_.get();
}

cudnnHandle_t CudaLibraries::cudnn() {
  if (!cudnn_) {
    check(cudaSetDevice(device_));
    cudnnHandle_t handle = nullptr;
    check(cudnnCreate(&handle));
    cudnn_.reset(handle);
  }
  return cudnn_.get();
}

void CudaLibraries::allocate(Workspace& space, std::int64_t size) const {
  if (space) return;
  check(cudaSetDevice(device_));
  void* fresh = nullptr;
  const cudaError_t code = cudaMalloc(&fresh, static_cast<std::size_t>(size));
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    fail("GPU {} has no {} MiB left for the workspace of its libraries: use smaller batches or fewer ranks on it",
         device_, size >> 20);
  }
  check(code);
  space.reset(fresh);
}

void CudaLibraries::hold(bool attention) {
  allocate(product_, kProductWorkspace);
  if (attention)
    allocate(attention_, kAttentionWorkspace);
  else
    attention_.reset();
}

void* CudaLibraries::workspace(Workspace& space, std::int64_t size, std::int64_t bytes, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  require(bytes <= size, "a library wants {} bytes of workspace, its plan was to take at most {}", bytes, size);
  allocate(space, size);
  check(cudaSetDevice(device_));
  if (last_ && last_ != stream) check(cudaDeviceSynchronize());
  last_ = stream;
  return space.get();
}

std::int64_t CudaLibraries::workspace_bytes() const {
  return (product_ ? kProductWorkspace : 0) + (attention_ ? kAttentionWorkspace : 0);
}

CudaLibraries& cuda_libraries(const Device& device) {
  const int index = cuda_index(device);
  std::unique_ptr<CudaLibraries>& kept = of_thread()[index];
  if (!kept) kept = std::make_unique<CudaLibraries>(index);
  return *kept;
}

std::int64_t cuda_workspace_bytes() {
  std::int64_t sum = 0;
  for (const auto& [index, libraries] : of_thread()) sum += libraries->workspace_bytes();
  return sum;
}

}  // namespace quadrille
