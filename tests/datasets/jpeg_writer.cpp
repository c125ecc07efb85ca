// SPDX-License-Identifier: Apache-2.0
#include "tests/datasets/jpeg_writer.h"

#include <cstdio>
#include <cstdlib>
#include <vector>
// jpeglib.h wants FILE and size_t.
#include <jpeglib.h>

namespace quadrille {

std::string jpeg_of(std::int64_t height, std::int64_t width, const Paint& paint, JpegKind kind, int quality) {
  jpeg_compress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);  // ends the program: there is nothing to be refused
  jpeg_create_compress(&codec);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&codec, &bytes, &size);
  codec.image_height = static_cast<JDIMENSION>(height), codec.image_width = static_cast<JDIMENSION>(width);
  codec.input_components = kind == JpegKind::grey ? 1 : kind == JpegKind::inks ? 4 : 3;
  codec.in_color_space = kind == JpegKind::grey ? JCS_GRAYSCALE : kind == JpegKind::inks ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, quality, TRUE);
  if (kind == JpegKind::progressive) jpeg_simple_progression(&codec);
  codec.optimize_coding = TRUE;
  jpeg_start_compress(&codec, TRUE);
  const auto components = static_cast<std::size_t>(codec.input_components);
  std::vector<unsigned char> row(static_cast<std::size_t>(width) * components);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) paint(y, x, row.data() + static_cast<std::size_t>(x) * components);
    unsigned char* at = row.data();
    jpeg_write_scanlines(&codec, &at, 1);
  }
  jpeg_finish_compress(&codec);
  std::string text(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&codec);
  std::free(bytes);
  return text;
}

}  // namespace quadrille
