// SPDX-License-Identifier: Apache-2.0
// The runtime's calls about memory. Copies from and to pinned memory read and write it late; from pageable memory they
// read at once, to pageable memory they wait: as the real ones do.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/cuda/standin/capture.h"
#include "tests/cuda/standin/memory.h"
#include "tests/cuda/standin/runtime.h"

namespace standin {
namespace {

// Why this stream must not touch these bytes; empty: it may.
std::string complaint(const Where& where, const void* p, std::size_t bytes, int device, std::string_view what) {
  if (where.place == Place::pageable) return {};
  if (where.place == Place::device && where.device != device)
    return fmt::format("{} on device {} was given memory of device {}", what, device, where.device);
  if (!where.live && where.block.data == nullptr) return fmt::format("{} {}", what, describe_address(p));
  if (!where.live)
    return fmt::format("{} of {} bytes from byte {} on leaves an allocation of {} bytes", what, bytes,
                       static_cast<const std::byte*>(p) - where.block.data, where.block.bytes);
  return {};
}

bool kind_fits(cudaMemcpyKind kind, const Where& to, const Where& from) {
  const bool to_device = to.place == Place::device, from_device = from.place == Place::device;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

cudaError_t refuse(int device, const std::string& why) {
  fault_of(device, why);
  return keep(error_of(device));
}

cudaError_t copy(Lock& lock, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, CUstream_st& stream) {
  if (const cudaError_t error = error_of(stream.device); error != cudaSuccess) return keep(error);
  const Where there = where_is(to, bytes), here = where_is(from, bytes);
  if (!kind_fits(kind, there, here)) return keep(cudaErrorInvalidValue);
  for (const auto& [where, p] : {std::pair<const Where&, const void*>(there, to), {here, from}})
    if (const std::string why = complaint(where, p, bytes, stream.device, "copy"); !why.empty())
      return refuse(stream.device, why);
  const bool pageable = there.place == Place::pageable || here.place == Place::pageable;
  if (pageable && stream.capture) {  // the graph would read it whenever it is launched
    stream.capture->invalid = true;
    return keep(cudaErrorStreamCaptureUnsupported);
  }
  std::function<void()> work;
  if (here.place == Place::pageable) {
    const auto* p = static_cast<const std::byte*>(from);
    work = [to, bytes, held = std::vector<std::byte>(p, p + bytes)] { std::memcpy(to, held.data(), bytes); };
  } else {
    work = [to, from, bytes] { std::memmove(to, from, bytes); };
  }
  const cudaError_t error = submit(stream, {.name = "copy", .work = std::move(work), .waits_for = {}, .reaches = {}});
  if (error != cudaSuccess || there.place != Place::pageable) return keep(error);
  wait_on_host(lock, stream, stream.pushed);
  return keep(error_of(stream.device));
}

cudaError_t set(void* p, int value, std::size_t bytes, CUstream_st& stream) {
  if (const cudaError_t error = error_of(stream.device); error != cudaSuccess) return keep(error);
  const Where where = where_is(p, bytes);
  if (where.place == Place::pageable) return keep(cudaErrorInvalidValue);
  if (const std::string why = complaint(where, p, bytes, stream.device, "memset"); !why.empty())
    return refuse(stream.device, why);
  return keep(submit(
      stream,
      {.name = "memset", .work = [p, value, bytes] { std::memset(p, value, bytes); }, .waits_for = {}, .reaches = {}}));
}

cudaError_t release(void* p, bool pinned) {
  if (p == nullptr) return cudaSuccess;
  Lock lock(state().mutex);
  if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return keep(error);
  const Where where = where_is(p);
  if (where.place != (pinned ? Place::pinned : Place::device)) return keep(cudaErrorInvalidValue);
  // As the real one: work that is queued may still use it. Pinned memory is used by the device of who frees it.
  drain(lock, pinned ? current_device() : where.device);
  const int owner = where.device;
  if (const std::string broken = broken_guards(owner); !broken.empty())
    fault_of(std::max(owner, 0), "somebody " + broken);
  if (!free_memory(p, owner)) return keep(cudaErrorInvalidValue);
  return cudaSuccess;
}

}  // namespace

cudaError_t drain(Lock& lock, int device) {
  const std::vector<CUstream_st*> all = state().streams;
  for (CUstream_st* s : all)
    if (exists(s) && s->device == device) wait_on_host(lock, *s, s->pushed);
  return error_of(device);
}

}  // namespace standin

using namespace standin;

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  const Lock lock(state().mutex);
  *out = nullptr;
  if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return keep(error);
  if (const cudaError_t error = error_of(current_device()); error != cudaSuccess) return keep(error);
  if (bytes == 0) return cudaSuccess;
  *out = allocate_on(current_device(), bytes);
  return *out == nullptr ? keep(cudaErrorMemoryAllocation) : cudaSuccess;
}
cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned) {
  const Lock lock(state().mutex);
  *out = nullptr;
  if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return keep(error);
  *out = allocate_pinned(bytes);
  return *out == nullptr ? keep(cudaErrorMemoryAllocation) : cudaSuccess;
}
cudaError_t cudaMallocHost(void** out, std::size_t bytes) { return cudaHostAlloc(out, bytes, cudaHostAllocDefault); }
cudaError_t cudaFree(void* p) { return release(p, false); }
cudaError_t cudaFreeHost(void* p) { return release(p, true); }

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = kDeviceBytes;
  *free = kDeviceBytes - bytes_on(current_device());
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* p) {
  const Where where = where_is(p);
  *out = {};
  out->type = where.place == Place::device   ? cudaMemoryTypeDevice
              : where.place == Place::pinned ? cudaMemoryTypeHost
                                             : cudaMemoryTypeUnregistered;
  out->device = where.device;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  Lock lock(state().mutex);
  if (stream == nullptr) return keep(cudaErrorInvalidResourceHandle);
  return copy(lock, to, from, bytes, kind, *stream);
}

cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  const Lock lock(state().mutex);
  if (stream == nullptr) return keep(cudaErrorInvalidResourceHandle);
  return set(p, value, bytes, *stream);
}

// The forms without a stream run on one that exists for the call. Our streams do not wait for it (they are made with
// cudaStreamNonBlocking), nor does it for them.
namespace {
template <class Call>
cudaError_t at_once(const Call& call) {
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  cudaError_t error = call(stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  return error;
}
}  // namespace

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  {
    const Lock lock(state().mutex);
    if (const cudaError_t error = refuse_in_capture(); error != cudaSuccess) return keep(error);
  }
  return at_once([&](cudaStream_t s) { return cudaMemcpyAsync(to, from, bytes, kind, s); });
}
cudaError_t cudaMemset(void* p, int value, std::size_t bytes) {
  return at_once([&](cudaStream_t s) { return cudaMemsetAsync(p, value, bytes, s); });
}
