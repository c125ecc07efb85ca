// SPDX-License-Identifier: Apache-2.0
// Linked when oneDNN, Highway or OpenMP is missing: same symbol as backend.cpp. Says which of them, and what brings it.
#include <string>

#include "core/build.h"
#include "kernels/backend.h"

namespace quadrille {

namespace {

std::string reason() {
  std::string text;
  for (const char* name : {"oneDNN", "Highway", "OpenMP"}) {
    const Part& part = build_part(name);
    if (!part.built) text += std::string(name) + ": " + std::string(part.remedy) + "; ";
  }
  return text + "or take --backend reference, which is slow";
}

}  // namespace

const Backend& cpu_backend() {
  static const std::string kReason = reason();
  static const Backend absent{.name = "cpu",
                              .open_device = nullptr,
                              .ops = nullptr,
                              .use_threads = nullptr,
                              .absent_because = kReason,
                              .timed_claims = true};
  return absent;
}

}  // namespace quadrille
