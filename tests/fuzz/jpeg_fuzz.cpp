// SPDX-License-Identifier: Apache-2.0
// JPEG files: one byte for the reduction, then the file. Promise: pixels as many as the size says, and any part of them
// can be brought to any size.
#include <cmath>

#include "datasets/jpeg_folders.h"
#include "tests/fuzz/fuzz.h"

using namespace quadrille;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int64_t kLarge = 1 << 20;  // a few bytes may stand for an image that takes seconds
  Input input(data, size);
  const unsigned choice = input.byte();
  answers([&] {
    Part part;
    int reduction = 1;
    const Pixels pixels = read_jpeg(input.rest(), "x.jpg", [&](const ImageSize& whole) {
      require(whole.height * whole.width <= kLarge, "large");
      part = choice & 4 ? central_part(whole) : random_part({}, whole, choice, choice).part;
      promise(part.top >= 0 && part.left >= 0 && part.height > 0 && part.width > 0, "the part is one");
      promise(part.top + part.height <= static_cast<double>(whole.height) + 1e-9 &&
                  part.left + part.width <= static_cast<double>(whole.width) + 1e-9,
              "the part lies inside");
      return reduction = 1 << (choice & 3);
    });
    promise(static_cast<std::int64_t>(pixels.bytes.size()) == pixels.size.height * pixels.size.width * 3, "all pixels");
    for (double* length : {&part.top, &part.left, &part.height, &part.width}) *length /= reduction;
    std::vector<float> out(7 * 5 * 3);
    resample(pixels, part, {7, 5}, (choice & 8) != 0, out);
    for (const float value : out) promise(value >= -1e-3F && value <= 255.01F, "a mean of bytes");
  });
  return 0;
}
