// SPDX-License-Identifier: Apache-2.0
// The runtime's calls: errors, devices, streams, events and kernels. Memory and copies are in copies.cpp.
#include "tests/cuda/standin/runtime.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "tests/cuda/standin/block.h"
#include "tests/cuda/standin/capture.h"
#include "tests/cuda/standin/memory.h"
#include "tests/cuda/standin/symbols.h"

namespace standin {
namespace {

thread_local int current = 0;
thread_local cudaError_t last_error = cudaSuccess;

std::map<const void*, std::size_t>& allowed_shared() {
  static std::map<const void*, std::size_t> all;
  return all;
}

}  // namespace

int current_device() { return current; }

cudaError_t keep(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void add_words(std::vector<std::uintptr_t>& words, const void* argument, std::size_t bytes) {
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= bytes; at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(argument) + at, sizeof(word));
    words.push_back(word);
  }
}

namespace {

// What can be said about a launch before it runs; empty: nothing.
std::string complaint(const Launch& launch, int device) {
  for (const std::uintptr_t word : launch.words) {
    const Where where = where_is(reinterpret_cast<const void*>(word));
    if (where.place == Place::device && where.device != device)
      return fmt::format("{} on device {} was given memory of device {}", name_of(launch.kernel), device, where.device);
  }
  return {};
}

bool shape_possible(const Launch& launch) {
  const std::size_t threads = std::size_t{launch.threads.x} * launch.threads.y * launch.threads.z;
  const auto allowed = allowed_shared().find(launch.kernel);
  const std::size_t shared = allowed == allowed_shared().end() ? kSharedBytesDefault : allowed->second;
  return threads >= 1 && threads <= 1024 && launch.threads.z <= 64 && launch.blocks.x >= 1 && launch.blocks.y >= 1 &&
         launch.blocks.z >= 1 && launch.blocks.x <= 0x7fffffffU && launch.blocks.y <= 65535 &&
         launch.blocks.z <= 65535 && launch.shared_bytes <= shared;
}

}  // namespace

cudaError_t enqueue_kernel(Launch launch, cudaStream_t stream) {
  const Lock lock(state().mutex);
  if (stream == nullptr || stream->device != current) return keep(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = error_of(current); error != cudaSuccess) return keep(error);
  if (!shape_possible(launch)) return keep(cudaErrorInvalidConfiguration);
  if (const std::string wrong = complaint(launch, current); !wrong.empty()) {
    fault_of(current, wrong);
    return keep(error_of(current));
  }
  const std::string name = name_of(launch.kernel);
  const std::uint64_t seed = std::hash<std::string>{}(name) + 0x9e3779b97f4a7c15U * ++stream->launches;
  return keep(submit(*stream, {.name = name,
                               .work = [launch = std::move(launch), seed] { run_blocks(launch, seed); },
                               .waits_for = {},
                               .reaches = {}}));
}

cudaError_t allow_shared(const void* kernel, std::size_t bytes) {
  const Lock lock(state().mutex);
  if (bytes > kSharedBytes) return keep(cudaErrorInvalidValue);
  allowed_shared()[kernel] = bytes;
  return cudaSuccess;
}

cudaError_t attributes(cudaFuncAttributes* out) {
  *out = {};
  out->maxThreadsPerBlock = 1024;
  out->numRegs = 32;
  out->ptxVersion = out->binaryVersion = 90;
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, std::string name, std::function<void()> work, bool meets_others) {
  const Lock lock(state().mutex);
  if (stream == nullptr) return keep(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = error_of(stream->device); error != cudaSuccess) return keep(error);
  return keep(submit(*stream, {.name = std::move(name),
                               .work = std::move(work),
                               .waits_for = {},
                               .reaches = {},
                               .meets_others = meets_others}));
}

}  // namespace standin

using namespace standin;

// --- errors
// -----------------------------------------------------------------------------------------------------------

namespace {
struct Words {
  cudaError_t error;
  const char *name, *text;
};
constexpr Words kWords[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};
}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  for (const Words& w : kWords)
    if (w.error == error) return w.name;
  return "cudaErrorUnknown";
}

const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorLaunchFailure) {
    const Lock lock(state().mutex);
    static std::set<std::string>& texts = *new std::set<std::string>;  // callers keep the pointer
    if (const State::Device& d = state().devices[current]; !d.fault.empty())
      return texts.insert(d.fault).first->c_str();
    if (!state().faults.empty()) return texts.insert(state().faults.back()).first->c_str();
  }
  for (const Words& w : kWords)
    if (w.error == error) return w.text;
  return "unrecognized error code";
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

// --- devices
// ----------------------------------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int* out) {
  *out = kDevices;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kDevices) return keep(cudaErrorInvalidDevice);
  current = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* out) {
  *out = current;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (device < 0 || device >= kDevices) return keep(cudaErrorInvalidDevice);
  *out = {};
  std::strncpy(out->name, "stand-in", sizeof(out->name) - 1);
  out->uuid.bytes[0] = static_cast<char>(device + 1);
  out->totalGlobalMem = kDeviceBytes;
  out->sharedMemPerBlock = kSharedBytesDefault;
  out->sharedMemPerBlockOptin = kSharedBytes;
  out->sharedMemPerMultiprocessor = kSharedBytes + 1024;
  out->regsPerBlock = 65536;
  out->warpSize = 32;
  out->maxThreadsPerBlock = 1024;
  out->maxThreadsPerMultiProcessor = 2048;
  out->multiProcessorCount = 4;  // few, so that loops over the grid go round more than once
  out->l2CacheSize = 50 << 20;
  out->maxThreadsDim[0] = out->maxThreadsDim[1] = 1024;
  out->maxThreadsDim[2] = 64;
  out->maxGridSize[0] = 0x7fffffff;
  out->maxGridSize[1] = out->maxGridSize[2] = 65535;
  out->major = 9;
  out->pciBusID = device + 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* out, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p{};
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess) return error;
  *out = attribute == cudaDevAttrMultiProcessorCount      ? p.multiProcessorCount
         : attribute == cudaDevAttrComputeCapabilityMajor ? p.major
                                                          : p.minor;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* out, int length, int device) {
  const std::string text = fmt::format("0000:{:02x}:00.0", device + 1);
  if (static_cast<int>(text.size()) >= length) return keep(cudaErrorInvalidValue);
  std::memcpy(out, text.c_str(), text.size() + 1);
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* out) {
  *out = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* out) { return cudaDriverGetVersion(out); }

cudaError_t cudaDeviceSynchronize() {
  Lock lock(state().mutex);
  if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return keep(error);
  return keep(drain(lock, current));
}

// --- streams
// ----------------------------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned, int priority) {
  const Lock lock(state().mutex);
  *out = new CUstream_st;
  (*out)->device = current;
  (*out)->priority = priority;
  state().streams.push_back(*out);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return cudaStreamCreateWithPriority(out, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* out) { return cudaStreamCreateWithPriority(out, 0, 0); }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Lock lock(state().mutex);
  if (stream == nullptr) return keep(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = refuse_if_captured(*stream); error != cudaSuccess) return keep(error);
  wait_on_host(lock, *stream, stream->pushed);
  stream->ends = true;
  std::erase(state().streams, stream);
  state().changed.notify_all();
  lock.unlock();
  if (stream->worker.joinable()) stream->worker.join();
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Lock lock(state().mutex);
  if (stream == nullptr) return keep(drain(lock, current));
  if (const cudaError_t error = refuse_if_captured(*stream); error != cudaSuccess) return keep(error);
  wait_on_host(lock, *stream, stream->pushed);
  return keep(error_of(stream->device));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = refuse_if_captured(*stream); error != cudaSuccess) return keep(error);
  if (const cudaError_t error = error_of(stream->device); error != cudaSuccess) return keep(error);
  if (stream->done == stream->pushed) {
    stream->first_asked = 0;
    return cudaSuccess;
  }
  if (asked_long_enough(stream->first_asked)) demand(*stream, stream->pushed);
  return cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(state().mutex);
  if (stream == nullptr || event == nullptr) return keep(cudaErrorInvalidResourceHandle);
  return keep(wait(*stream, *event));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return enqueue(stream, "host function", [function, data] { function(data); });
}

// --- events
// -----------------------------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  *out = new CUevent_st{current, (flags & cudaEventDisableTiming) == 0, nullptr};
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(state().mutex);
  if (stream == nullptr || event == nullptr) return keep(cudaErrorInvalidResourceHandle);
  return keep(record(*event, *stream));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock(state().mutex);
  const std::shared_ptr<Mark> mark = event->mark;
  if (!mark) return cudaSuccess;
  if (mark->capture) return keep(cudaErrorCapturedEvent);
  if (!mark->reached) wait_on_host(lock, *mark->stream, mark->number);
  return keep(error_of(event->device));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(state().mutex);
  if (!event->mark) return cudaSuccess;
  if (event->mark->capture) return keep(cudaErrorCapturedEvent);
  if (const cudaError_t error = error_of(event->device); error != cudaSuccess) return keep(error);
  if (event->mark->reached) return cudaSuccess;
  if (asked_long_enough(event->mark->first_asked)) demand(*event->mark->stream, event->mark->number);
  return cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* out, cudaEvent_t start, cudaEvent_t end) {
  const Lock lock(state().mutex);
  if (!start->timed || !end->timed || !start->mark || !end->mark) return keep(cudaErrorInvalidResourceHandle);
  if (start->mark->capture || end->mark->capture) return keep(cudaErrorCapturedEvent);
  if (!start->mark->reached || !end->mark->reached) return keep(cudaErrorNotReady);
  *out = static_cast<float>((end->mark->seconds - start->mark->seconds) * 1e3);
  return cudaSuccess;
}
