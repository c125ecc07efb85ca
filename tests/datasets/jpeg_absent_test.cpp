// SPDX-License-Identifier: Apache-2.0
#include "datasets/jpeg.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

TEST(JpegAbsent, WithoutTheLibraryItIsSaid) {
  expect_parts(message_of([] { read_jpeg("\xff\xd8", "x.jpg", [](const ImageSize&) { return 1; }); }),
               {"x.jpg", "libjpeg-dev"});
}

}  // namespace
}  // namespace quadrille
