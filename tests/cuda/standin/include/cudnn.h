// SPDX-License-Identifier: Apache-2.0
// The names of cuDNN that kernels/cuda/ uses outside cudnn_graph.cpp, for the stand-in. The graphs themselves are
// computed by cudnn_graph.cpp beside this folder, which takes the place of the library's.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

enum cudnnStatus_t { CUDNN_STATUS_SUCCESS };
enum cudnnDataType_t { CUDNN_DATA_FLOAT, CUDNN_DATA_INT32, CUDNN_DATA_BFLOAT16, CUDNN_DATA_BOOLEAN };
enum cudnnPointwiseMode_t {
  CUDNN_POINTWISE_ADD,
  CUDNN_POINTWISE_SUB,
  CUDNN_POINTWISE_MUL,
  CUDNN_POINTWISE_DIV,
  CUDNN_POINTWISE_EXP,
  CUDNN_POINTWISE_LOG,
  CUDNN_POINTWISE_CMP_GE,
  CUDNN_POINTWISE_GEN_INDEX,
  CUDNN_POINTWISE_BINARY_SELECT
};
enum cudnnReduceTensorOp_t { CUDNN_REDUCE_TENSOR_ADD, CUDNN_REDUCE_TENSOR_MAX };
using cudnnBackendDescriptor_t = void*;
struct cudnnContext {
  cudaStream_t stream = nullptr;
};
using cudnnHandle_t = cudnnContext*;

inline cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
inline const char* cudnnGetErrorString(cudnnStatus_t) { return ""; }
inline void cudnnGetLastErrorString(char* text, std::size_t) { *text = '\0'; }
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t);
