// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) of files and texts, for manifests. Own code because it is 60 lines and spares the smallest build
// a crypto library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quadrille {

class Sha256 {
 public:
  void add(std::span<const std::byte>);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  std::string hex();  // of everything added; then starts anew

 private:
  void block(const std::byte*);
  std::array<std::uint32_t, 8> state_ = kStart;
  std::array<std::byte, 64> rest_{};
  std::uint64_t bytes_ = 0;
  static constexpr std::array<std::uint32_t, 8> kStart = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

std::string sha256_of(std::string_view text);
std::string sha256_of_file(const std::string& path);

}  // namespace quadrille
