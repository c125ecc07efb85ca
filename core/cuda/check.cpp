// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/check.h"

#include <cstdio>
#include <string>
#include <string_view>

#include "core/error.h"

namespace quadrille {
namespace {

std::string_view remedy(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "; use a smaller batch or more ranks; other programs may hold memory too (nvidia-smi tells)";
    case cudaErrorInsufficientDriver:
      return "; the driver is older than the toolkit of this build: update it, or build with an older toolkit";
    case cudaErrorNoDevice:
      return "; look at nvidia-smi and at CUDA_VISIBLE_DEVICES";
    case cudaErrorSystemDriverMismatch:
      return "; the driver's parts are of different versions: restart the machine, or load the driver again";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return "; this build has no code for the GPU: configure with -DCMAKE_CUDA_ARCHITECTURES=native";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
      return "; a kernel that ran earlier failed: run again under compute-sanitizer, or with CUDA_LAUNCH_BLOCKING=1 to "
             "learn which";
    default:
      return "";
  }
}

std::string message(cudaError_t error, const std::source_location& where) {
  const std::string_view file = where.file_name();
  return fmt::format("CUDA at {}:{}: {} ({}){}", file.substr(file.rfind('/') + 1), where.line(),
                     cudaGetErrorString(error), cudaGetErrorName(error), remedy(error));
}

}  // namespace

void check(cudaError_t error, std::source_location where) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // said here: the next call must not say it again
  throw Error(message(error, where));
}

void check_quietly(cudaError_t error, std::source_location where) noexcept {
  if (error == cudaSuccess || error == cudaErrorCudartUnloading) return;
  cudaGetLastError();
  try {
    fmt::print(stderr, "warning: {}\n", message(error, where));
  } catch (...) {  // stderr is closed or memory is short: nobody can be told
  }
}

}  // namespace quadrille
