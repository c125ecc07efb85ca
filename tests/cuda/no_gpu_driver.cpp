// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 without a GPU: the names that cuDNN looks up before it compiles kernels for a device that was only
// described. Loading code succeeds and gives handles that nothing can be done with; all else fails as on a machine
// without a device. For sdpa_plans_test alone.
extern "C" {

constexpr int kGood = 0, kStub = 34;  // CUDA_SUCCESS, CUDA_ERROR_STUB_LIBRARY

static int handle(void** made) {
  static char one;
  *made = &one;
  return kGood;
}
int cuLibraryLoadData(void** made) { return handle(made); }
int cuLibraryLoadFromFile(void** made) { return handle(made); }
int cuLibraryGetKernel(void** made) { return handle(made); }
int cuModuleLoadData(void** made) { return handle(made); }
int cuModuleLoadDataEx(void** made) { return handle(made); }
int cuModuleLoadFatBinary(void** made) { return handle(made); }
int cuModuleGetFunction(void** made) { return handle(made); }
int cuLibraryUnload() { return kGood; }
int cuModuleUnload() { return kGood; }
int cuKernelGetAttribute() { return kGood; }
int cuKernelSetAttribute() { return kGood; }
int cuFuncGetAttribute() { return kGood; }
int cuFuncSetAttribute() { return kGood; }

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kGood;
}
int cuGetErrorString(int, const char** text) {
  *text = "no GPU: the driver of a test";
  return kGood;
}
int cuGetErrorName(int, const char** text) {
  *text = "CUDA_ERROR_STUB_LIBRARY";
  return kGood;
}

int cuInit() { return kStub; }
int cuCtxGetCurrent() { return kStub; }
int cuCtxGetDevice() { return kStub; }
int cuCtxGetLimit() { return kStub; }
int cuCtxPopCurrent() { return kStub; }
int cuCtxPushCurrent() { return kStub; }
int cuDeviceGet() { return kStub; }
int cuDeviceGetAttribute() { return kStub; }
int cuDeviceGetCount() { return kStub; }
int cuDevicePrimaryCtxRelease() { return kStub; }
int cuDevicePrimaryCtxReset() { return kStub; }
int cuDevicePrimaryCtxRetain() { return kStub; }
int cuLaunchCooperativeKernel() { return kStub; }
int cuLaunchKernel() { return kStub; }
int cuLaunchKernelEx() { return kStub; }
int cuLinkAddData() { return kStub; }
int cuLinkAddData_v2() { return kStub; }
int cuLinkAddFile_v2() { return kStub; }
int cuLinkComplete() { return kStub; }
int cuLinkCreate() { return kStub; }
int cuLinkCreate_v2() { return kStub; }
int cuLinkDestroy() { return kStub; }
int cuMemcpyDtoH_v2() { return kStub; }
int cuModuleGetGlobal_v2() { return kStub; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor() { return kStub; }
int cuOccupancyMaxPotentialClusterSize() { return kStub; }
int cuStreamGetCtx() { return kStub; }
int cuStreamSynchronize() { return kStub; }
int cuTensorMapEncodeTiled() { return kStub; }
}
