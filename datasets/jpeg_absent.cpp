// SPDX-License-Identifier: Apache-2.0
// A build without libjpeg-turbo: JPEG files cannot be read.
#include "core/error.h"
#include "datasets/jpeg.h"

namespace quadrille {

Pixels read_jpeg(std::string_view, const std::string& name, const std::function<int(const ImageSize&)>&) {
  fail("{} is a JPEG file and this build has no libjpeg-turbo: install libjpeg-dev and configure again", name);
}

}  // namespace quadrille
