// SPDX-License-Identifier: Apache-2.0
// The stand-in's NCCL: the names that this project uses, over the stand-in's streams. Meanings and numbers are the real
// library's; standin/nccl.cpp says what is stricter here.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#define NCCL_UNIQUE_ID_BYTES 128
struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};
using ncclComm_t = struct ncclComm*;

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3 };
enum ncclDataType_t { ncclInt32 = 2, ncclFloat32 = 7, ncclFloat64 = 8, ncclBfloat16 = 9 };

struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { 1 }

ncclResult_t ncclGetVersion(int*);
const char* ncclGetErrorString(ncclResult_t);
const char* ncclGetLastError(ncclComm_t);
ncclResult_t ncclGetUniqueId(ncclUniqueId*);
ncclResult_t ncclCommInitRankConfig(ncclComm_t*, int ranks, ncclUniqueId, int rank, ncclConfig_t*);
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t*);
ncclResult_t ncclCommFinalize(ncclComm_t);
ncclResult_t ncclCommDestroy(ncclComm_t);
ncclResult_t ncclCommAbort(ncclComm_t);

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           cudaStream_t);
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                               cudaStream_t);
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t, ncclDataType_t, int root, ncclComm_t, cudaStream_t);
ncclResult_t ncclSend(const void* in, std::size_t, ncclDataType_t, int peer, ncclComm_t, cudaStream_t);
ncclResult_t ncclRecv(void* out, std::size_t, ncclDataType_t, int peer, ncclComm_t, cudaStream_t);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
