// SPDX-License-Identifier: Apache-2.0
// Linked when oneDNN was not found: same symbol as backend.cpp.
#include "kernels/backend.h"

namespace quadrille {

const Backend& cpu_backend() {
  static const Backend absent{"cpu", nullptr, nullptr, nullptr, "oneDNN was not found: install libdnnl-dev or configure with -DQUADRILLE_DEPS=DIR", true};
  return absent;
}

}  // namespace quadrille
