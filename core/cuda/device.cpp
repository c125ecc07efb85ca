// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>

#include "core/cuda/check.h"
#include "core/cuda/probe.h"
#include "core/error.h"

namespace quadrille {
namespace {

std::size_t size_in_bytes(std::int64_t bytes) { return static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)); }

class CudaDevice : public Device {
 public:
  CudaDevice(int index, std::string name) : index_(index), name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  bool holds_numbers() const override { return true; }
  bool on_host() const override { return false; }
  std::unique_ptr<Stream> make_stream() override { return make_cuda_stream(*this, false); }
  std::unique_ptr<Device> host_side() override;

  int index() const { return index_; }
  // The runtime's current device belongs to the thread, and a rank may come from any.
  void enter() const { check(cudaSetDevice(index_)); }

 protected:
  std::byte* allocate(std::int64_t bytes) override {
    enter();
    void* p = nullptr;
    const cudaError_t error = cudaMalloc(&p, size_in_bytes(bytes));
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      std::size_t free = 0, total = 0;
      check(cudaMemGetInfo(&free, &total));
      fail(
          "out of memory on {}: {} bytes wanted, {} of {} are free; use a smaller batch or more GPUs, and look whether "
          "other programs hold memory (nvidia-smi)",
          name_, bytes, free, total);
    }
    check(error);
    return static_cast<std::byte*>(p);
  }
  void release(std::byte* p, std::int64_t) noexcept override {
    check_quietly(cudaSetDevice(index_));
    check_quietly(cudaFree(p));  // waits for the work that may still use it
  }

 private:
  int index_;
  std::string name_;
};

// Pinned memory: the GPU reads and writes it itself, while the host goes on.
class PinnedDevice : public Device {
 public:
  explicit PinnedDevice(int index) : index_(index) {}
  std::string_view name() const override { return "pinned host"; }
  bool holds_numbers() const override { return true; }
  bool on_host() const override { return true; }
  std::unique_ptr<Stream> make_stream() override { return make_host_stream(*this); }

 protected:
  std::byte* allocate(std::int64_t bytes) override {
    check(cudaSetDevice(index_));
    void* p = nullptr;
    const cudaError_t error = cudaHostAlloc(&p, size_in_bytes(bytes), cudaHostAllocPortable);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      fail("out of pinned memory: {} bytes wanted on the host; a limit on locked memory may hold (ulimit -l)", bytes);
    }
    check(error);
    return static_cast<std::byte*>(p);
  }
  void release(std::byte* p, std::int64_t) noexcept override {
    check_quietly(cudaSetDevice(index_));
    check_quietly(cudaFreeHost(p));
  }

 private:
  int index_;
};

std::unique_ptr<Device> CudaDevice::host_side() { return std::make_unique<PinnedDevice>(index_); }

const CudaDevice& cuda_device(const Device& device) {
  const auto* cuda = dynamic_cast<const CudaDevice*>(&device);
  require(cuda != nullptr, "a tensor or stream of a CUDA device was wanted, this one is of \"{}\"", device.name());
  return *cuda;
}

class CudaEvent : public Event {
 public:
  // By the calling thread's current device, which is the stream's.
  explicit CudaEvent(cudaStream_t stream) {
    check(cudaEventCreate(&event_));
    try {
      check(cudaEventRecord(event_, stream));
    } catch (...) {
      cudaEventDestroy(event_);
      throw;
    }
  }
  ~CudaEvent() override { check_quietly(cudaEventDestroy(event_)); }
  void block_host() override { check(cudaEventSynchronize(event_)); }
  double seconds_since(const Event& earlier) const override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, dynamic_cast<const CudaEvent&>(earlier).event_, event_));
    return static_cast<double>(milliseconds) * 1e-3;
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaReplay : public Replay {
 public:
  CudaReplay(const CudaDevice& device, cudaStream_t stream, cudaGraph_t graph) : device_(device), stream_(stream) {
    check(cudaGraphInstantiate(&executable_, graph, 0));
  }
  ~CudaReplay() override { check_quietly(cudaGraphExecDestroy(executable_)); }
  void run() override {
    device_.enter();
    check(cudaGraphLaunch(executable_, stream_));
  }

 private:
  const CudaDevice& device_;
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

class CudaStream : public Stream {
 public:
  CudaStream(CudaDevice& device, bool high_priority) : device_(device) {
    device_.enter();
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    check(cudaMalloc(&scratch_, kCudaScratchBytes));
    const cudaError_t error =
        cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, high_priority ? greatest : least);
    if (error != cudaSuccess) cudaFree(scratch_);
    check(error);
  }
  ~CudaStream() override {
    check_quietly(cudaSetDevice(device_.index()));
    check_quietly(cudaStreamDestroy(stream_));
    check_quietly(cudaFree(scratch_));  // waits for the work that may still use it
  }
  Device& device() const override { return device_; }

  void copy(const Tensor& to, const Tensor& from) override {
    check_copy(to, from);
    if (to.bytes() == 0 || !to.device().holds_numbers()) return;
    if (!from.device().holds_numbers()) return zero(to);
    device_.enter();
    check(cudaMemcpyAsync(to.data(), from.data(), static_cast<std::size_t>(to.bytes()), cudaMemcpyDefault, stream_));
  }
  void zero(const Tensor& t) override {
    if (t.bytes() == 0 || !t.device().holds_numbers()) return;
    device_.enter();
    check(cudaMemsetAsync(t.data(), 0, static_cast<std::size_t>(t.bytes()), stream_));
  }
  std::unique_ptr<Event> record() override {
    device_.enter();
    return std::make_unique<CudaEvent>(stream_);
  }
  void wait(const Event& event) override {
    // An event of the host lies in the past: what was done before it is done.
    if (const auto* cuda = dynamic_cast<const CudaEvent*>(&event)) {
      device_.enter();
      check(cudaStreamWaitEvent(stream_, cuda->get(), 0));
    }
  }
  void synchronize() override {
    device_.enter();
    check(cudaStreamSynchronize(stream_));
  }
  void begin_range(const std::string& name) override { nvtxRangePushA(name.c_str()); }
  void end_range() noexcept override { nvtxRangePop(); }
  // Other ranks of the process go on meanwhile, so only this thread's calls are held to the rules of capture.
  std::unique_ptr<Replay> keep_work(const std::function<void()>& work) override {
    device_.enter();
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    try {
      work();
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    check(cudaStreamEndCapture(stream_, &graph));
    const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, void (*)(cudaGraph_t)> kept(
        graph, [](cudaGraph_t g) { check_quietly(cudaGraphDestroy(g)); });
    return std::make_unique<CudaReplay>(device_, stream_, graph);
  }
  cudaStream_t get() const { return stream_; }
  std::byte* scratch() const { return static_cast<std::byte*>(scratch_); }

 private:
  CudaDevice& device_;
  cudaStream_t stream_ = nullptr;
  void* scratch_ = nullptr;
};

}  // namespace

int cuda_device_count() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) {
    cudaGetLastError();
    return 0;
  }
  check(error);
  return count;
}

std::unique_ptr<Device> open_cuda_device(int index) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  check(error);
  require(index >= 0 && index < count,
          "GPU {} was asked for, this machine shows {} (CUDA_VISIBLE_DEVICES may hide some)", index, count);
  check(cudaSetDevice(index));
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index));
  const cudaError_t code = probe_code();
  if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction ||
      code == cudaErrorUnsupportedPtxVersion) {
    cudaGetLastError();
    fail(
        "this build has no code for GPU {}, {} of compute capability {}.{}: configure with "
        "-DCMAKE_CUDA_ARCHITECTURES={}{}",
        index, properties.name, properties.major, properties.minor, properties.major, properties.minor);
  }
  check(code);
  return std::make_unique<CudaDevice>(index, fmt::format("cuda:{}", index));
}

namespace {
CudaStream& own_stream(Stream& stream) {
  auto* cuda = dynamic_cast<CudaStream*>(&stream);
  require(cuda != nullptr, "a stream of a CUDA device was wanted, this one is of \"{}\"", stream.device().name());
  return *cuda;
}
}  // namespace

cudaStream_t cuda_stream(Stream& stream) {
  CudaStream& cuda = own_stream(stream);
  dynamic_cast<CudaDevice&>(cuda.device()).enter();
  return cuda.get();
}
std::byte* cuda_scratch(Stream& stream) { return own_stream(stream).scratch(); }

int cuda_index(const Device& device) { return cuda_device(device).index(); }

std::unique_ptr<Stream> make_cuda_stream(Device& device, bool high_priority) {
  cuda_device(device);  // throws for any other
  return std::make_unique<CudaStream>(dynamic_cast<CudaDevice&>(device), high_priority);
}

}  // namespace quadrille
