// SPDX-License-Identifier: Apache-2.0
// Linked when the build has no CUDA: same symbol as backend.cpp. Says why, and what brings it.
#include <string>

#include "core/build.h"
#include "kernels/backend.h"

namespace quadrille {

const Backend& cuda_backend() {
  static const std::string kReason = "CUDA: " + std::string(build_part("CUDA").remedy) + ", or take the preset cuda";
  static const Backend absent{.name = "cuda",
                              .open_device = nullptr,
                              .ops = nullptr,
                              .use_threads = nullptr,
                              .absent_because = kReason,
                              .timed_claims = true,
                              .tensor_cores = true};
  return absent;
}

}  // namespace quadrille
