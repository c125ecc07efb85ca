// SPDX-License-Identifier: Apache-2.0
// A build without zlib: R's data files cannot be unpacked.
#include "core/error.h"
#include "datasets/rdata.h"

namespace quadrille {

std::string inflate_bytes(std::string_view, std::size_t, const std::string& name) {
  fail(
      "{} is compressed and this build has no zlib: install zlib1g-dev and configure again, or give --from a folder "
      "with the "
      "text files",
      name);
}

}  // namespace quadrille
