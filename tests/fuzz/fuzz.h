// SPDX-License-Identifier: Apache-2.0
// What the fuzzers share. Each of them feeds hostile bytes to one reader of ours: it may answer or throw Error;
// anything else (another exception, a crash, a leak, a broken promise) ends the process, and libFuzzer keeps the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "core/error.h"
#include "datasets/child.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace quadrille {

// Only Error may come out of `act`; true when nothing did.
template <class Act>
bool answers(Act act) {
  try {
    act();
  } catch (const Error&) {
    return false;
  }
  return true;
}

inline void promise(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

// Takes pieces off an input: numbers, and strings that end where the separator 0xff (never in UTF-8) stands.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  unsigned byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::string_view piece() {
    const std::string_view text = rest_.substr(0, rest_.find('\xff'));
    rest_.remove_prefix(text.size() < rest_.size() ? text.size() + 1 : text.size());
    return text;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// For readers that want a file: one folder for the whole process.
inline std::string file_of(std::string_view name, std::string_view content) {
  static const TemporaryFolder kFolder("/tmp", "quadrille-fuzz");
  std::string path = kFolder.path() + "/" + std::string(name);
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
  return path;
}

}  // namespace quadrille
