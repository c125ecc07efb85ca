// SPDX-License-Identifier: Apache-2.0
// JPEG files for the tests, made by the library that reads them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace quadrille {

enum class JpegKind : std::uint8_t { colour, grey, inks, progressive };

// The numbers of pixel (y, x): 3 of `colour` and `progressive`, 1 of `grey`, 4 of `inks` as they stand in the file.
using Paint = std::function<void(std::int64_t y, std::int64_t x, unsigned char* pixel)>;
std::string jpeg_of(std::int64_t height, std::int64_t width, const Paint& paint, JpegKind kind = JpegKind::colour,
                    int quality = 95);

}  // namespace quadrille
