// SPDX-License-Identifier: Apache-2.0
// Does NCCL work on one GPU? A communicator of one rank sums numbers whose sum is known: with one rank a run itself
// calls nothing of NCCL. Prints one JSON object; ends with 1 where a sum is wrong or NCCL refuses. Used by
// scripts/gpu_check.sh.
#include <fmt/core.h>

#include <exception>

#include "core/error.h"
#include "kernels/backend.h"
#include "parallelism/device_worlds.h"
#include "parallelism/world.h"

namespace quadrille {
namespace {

constexpr std::int64_t kNumbers = 1 << 20;
constexpr double kTimeoutSeconds = 60;

void measure() {
  const Backend& backend = backend_named("cuda");
  WorldOptions options;
  options.ranks = 1;
  run_threads(options, [&](std::unique_ptr<Communicator> host) {
    const auto device = backend.open_device(0);
    const double seconds = try_nccl(std::move(host), *device, kNumbers, kTimeoutSeconds);
    fmt::print(
        "{{\"op\": \"all_reduce\", \"over\": \"NCCL {}\", \"ranks\": 1, \"bytes\": {}, \"median_seconds\": {:.3e}}}\n",
        nccl_version(), kNumbers * size_of(DType::f32), seconds);
  });
}

}  // namespace
}  // namespace quadrille

int main() {
  try {
    quadrille::measure();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
