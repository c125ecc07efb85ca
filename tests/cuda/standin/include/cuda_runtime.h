// SPDX-License-Identifier: Apache-2.0
// The stand-in's CUDA runtime: what sources include when the host compiler builds them for the tests without a GPU. The
// names and meanings are the real runtime's, as far as this project uses it; README.md in the folder above says what is
// stricter here. Device code is in standin_device.h, vectors in standin_vectors.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <standin_device.h>
#include <standin_vectors.h>

// Numbers as in the real runtime, so that messages can be looked up.
enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorCudartUnloading = 4,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719,
  cudaErrorSystemDriverMismatch = 803,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorCapturedEvent = 907,
  cudaErrorStreamCaptureWrongThread = 908,
  cudaErrorUnknown = 999
};
const char* cudaGetErrorName(cudaError_t);
const char* cudaGetErrorString(cudaError_t);  // of a kernel that failed: what it did
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;

// --- devices
// ----------------------------------------------------------------------------------------------------------
struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  std::size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
  int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsPerMultiProcessor, multiProcessorCount, l2CacheSize;
  int maxThreadsDim[3], maxGridSize[3];
  int major, minor, pciBusID, pciDeviceID, pciDomainID, memoryBusWidth, ECCEnabled, integrated;
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76
};
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetDevice(int*);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int);
cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDriverGetVersion(int*);
cudaError_t cudaRuntimeGetVersion(int*);
cudaError_t cudaDeviceGetPCIBusId(char*, int length, int device);

// --- memory
// -----------------------------------------------------------------------------------------------------------
enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};
enum : unsigned {
  cudaHostAllocDefault = 0,
  cudaHostAllocPortable = 1,
  cudaHostAllocMapped = 2,
  cudaHostAllocWriteCombined = 4
};
enum cudaMemoryType { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeHost = 1, cudaMemoryTypeDevice = 2 };
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void *devicePointer, *hostPointer;
};
cudaError_t cudaMalloc(void**, std::size_t);
cudaError_t cudaFree(void*);
cudaError_t cudaMallocHost(void**, std::size_t);
cudaError_t cudaHostAlloc(void**, std::size_t, unsigned flags);
cudaError_t cudaFreeHost(void*);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes*, const void*);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t, cudaMemcpyKind, cudaStream_t = nullptr);
cudaError_t cudaMemset(void*, int, std::size_t);
cudaError_t cudaMemsetAsync(void*, int, std::size_t, cudaStream_t = nullptr);
template <class T>
cudaError_t cudaMalloc(T** p, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(p), bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** p, std::size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(p), bytes);
}
template <class T>
cudaError_t cudaHostAlloc(T** p, std::size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(p), bytes, flags);
}

// --- streams and events
// -----------------------------------------------------------------------------------------------
enum : unsigned { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum : unsigned { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
using cudaHostFn_t = void (*)(void*);
cudaError_t cudaStreamCreate(cudaStream_t*);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t*, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned flags = 0);
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t, void*);
cudaError_t cudaEventCreate(cudaEvent_t*);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

// --- capture and graphs
// -----------------------------------------------------------------------------------------------
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2
};
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus*);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);

// --- kernels
// ----------------------------------------------------------------------------------------------------------
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
struct cudaFuncAttributes {
  std::size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion;
};

namespace standin {
struct Launch {
  const void* kernel = nullptr;
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
  std::function<void()> thread;       // the kernel with its arguments, for the thread whose turn it is
  std::vector<std::uintptr_t> words;  // the arguments' bytes: pointers among them are looked at
};
cudaError_t enqueue_kernel(Launch, cudaStream_t);
cudaError_t allow_shared(const void* kernel, std::size_t bytes);
cudaError_t attributes(cudaFuncAttributes*);
void add_words(std::vector<std::uintptr_t>&, const void* argument, std::size_t bytes);
// Bytes between the members of a struct hold whatever lay there before, a pointer of another launch perhaps: they are
// cleared where the compiler can do that; else only arguments that are pointers themselves are looked at.
#if __has_builtin(__builtin_clear_padding)
inline constexpr bool kLooksIntoStructs = true;
#else
inline constexpr bool kLooksIntoStructs = false;
#endif
template <class T>
void add_argument(std::vector<std::uintptr_t>& words, T value) {
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&value);
  add_words(words, &value, sizeof value);
#else
  if constexpr (std::is_pointer_v<T>) add_words(words, &value, sizeof value);
#endif
}
}  // namespace standin

// As the real header's template, which hands a typed kernel to the untyped function. Here the types stay known: a
// kernel is called through them.
template <class... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, void** arguments,
                             std::size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
  standin::Launch launch{reinterpret_cast<const void*>(kernel), blocks, threads, shared_bytes, {}, {}};
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (standin::add_argument(launch.words, *static_cast<std::remove_cv_t<Parameters>*>(arguments[i])), ...);
    auto values =
        std::make_shared<const std::tuple<Parameters...>>(*static_cast<std::remove_cv_t<Parameters>*>(arguments[i])...);
    launch.thread = [kernel, values] { kernel(std::get<i>(*values)...); };
  }(std::index_sequence_for<Parameters...>{});
  return standin::enqueue_kernel(std::move(launch), stream);
}
template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  return standin::allow_shared(reinterpret_cast<const void*>(kernel), static_cast<std::size_t>(value));
}
template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, void (*)(Parameters...)) {
  return standin::attributes(out);
}
