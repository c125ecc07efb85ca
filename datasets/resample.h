// SPDX-License-Identifier: Apache-2.0
// A part of an image at another size. Bilinear where it grows; where it shrinks the triangle is widened to the distance
// of the new pixels (antialiasing), so that every pixel of the part counts. No rounding to bytes in between.
#pragma once

#include <span>

#include "datasets/jpeg.h"

namespace quadrille {

// In pixels of the whole image, edges not centres: [0, width) is all of it. May cut pixels.
struct Part {
  double top = 0, left = 0, height = 0, width = 0;
};

// out: [height, width, 3], in units of a byte. The part lies inside of the image; what is just outside of the part
// counts for its outermost pixels, what is outside of the image does not.
void resample(const Pixels& image, const Part& part, const ImageSize& size, bool mirrored, std::span<float> out);

}  // namespace quadrille
