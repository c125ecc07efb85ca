// SPDX-License-Identifier: Apache-2.0
// One JPEG file, by libjpeg-turbo (libjpeg's interface). A build without the library has these functions too: they
// refuse with the name of the package that brings it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace quadrille {

struct ImageSize {
  std::int64_t height = 0, width = 0;
};

// Bytes [height, width, 3]: red, green, blue.
struct Pixels {
  ImageSize size;
  std::vector<unsigned char> bytes;
};

inline constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;  // of one image

// Decodes the file whose bytes these are; `name` is for messages. `reduction` is asked, with the size that the header
// tells, by how much height and width may be divided: 1, 2, 4 or 8. Then only the low frequencies of each block of 8 x
// 8 are transformed, and a size that does not divide is rounded up. Grey files have three equal channels; of CMYK red
// is (1 - cyan)(1 - black), and so on. A turn that the file's EXIF data ask for is not done. Throws Error: not a JPEG
// file, truncated or damaged, more than kMostPixels, kinds that the library cannot read.
Pixels read_jpeg(std::string_view bytes, const std::string& name,
                 const std::function<int(const ImageSize&)>& reduction);

}  // namespace quadrille
