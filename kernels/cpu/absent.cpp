// SPDX-License-Identifier: Apache-2.0
// Linked when oneDNN, Highway or OpenMP was not found: same symbol as backend.cpp.
#include "kernels/backend.h"

namespace quadrille {

const Backend& cpu_backend() {
  static const Backend absent{
      .name = "cpu",
      .open_device = nullptr,
      .ops = nullptr,
      .use_threads = nullptr,
      .absent_because =
          "oneDNN, Highway or OpenMP was not found: install libdnnl-dev and libhwy-dev, or see -DQUADRILLE_DEPS=DIR",
      .timed_claims = true};
  return absent;
}

}  // namespace quadrille
