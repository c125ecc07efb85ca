// SPDX-License-Identifier: Apache-2.0
// A build without zlib: compressed files cannot be unpacked.
#include "core/error.h"
#include "datasets/inflate.h"

namespace quadrille {

std::string inflate_bytes(std::string_view, std::size_t, const std::string& name) {
  fail(
      "{} is compressed and this build has no zlib: install zlib1g-dev and configure again, or use the unpacked file "
      "(of data to fetch: give --from a folder with the text files)",
      name);
}

std::string inflate_start(std::string_view compressed, std::size_t bytes, const std::string& name) {
  return inflate_bytes(compressed, bytes, name);
}

}  // namespace quadrille
