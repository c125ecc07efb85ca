// SPDX-License-Identifier: Apache-2.0
// What GPUs there are, for the table of ranks, `quadrille info` and records.
#include <fmt/core.h>

#include "core/cuda/check.h"
#include "core/cuda/device.h"
#include "core/error.h"

namespace quadrille {

namespace {

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string hexadecimal(const cudaUUID_t& id) {
  std::string text;
  for (const char byte : id.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// Without a driver the first call of the runtime says so; what helps is said here.
int count_or_refuse() {
  int count = 0;
  try {
    check(cudaGetDeviceCount(&count));
  } catch (const Error& error) {
    fail("no CUDA driver or no GPU that could be used: {}. Without a GPU take --backend cpu", error.what());
  }
  require(count > 0, "no GPU is to be seen; CUDA_VISIBLE_DEVICES may hide them. Without a GPU take --backend cpu");
  return count;
}

}  // namespace

std::vector<DeviceFacts> cuda_devices() {
  const int count = count_or_refuse();
  int before = 0;
  check(cudaGetDevice(&before));
  std::vector<DeviceFacts> all;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index));
    check(cudaSetDevice(index));
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total));
    all.push_back({properties.name, hexadecimal(properties.uuid), static_cast<std::int64_t>(total),
                   static_cast<std::int64_t>(free),
                   fmt::format("compute capability {}.{}", properties.major, properties.minor)});
  }
  check(cudaSetDevice(before));
  return all;
}

std::vector<std::pair<std::string, std::string>> cuda_versions() {
  count_or_refuse();
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&runtime));
  return {{"CUDA of the driver", version_text(driver)}, {"CUDA runtime", version_text(runtime)}};
}

}  // namespace quadrille
