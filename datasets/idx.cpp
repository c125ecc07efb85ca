// SPDX-License-Identifier: Apache-2.0
// The IDX format of the MNIST data base: two zero bytes, the type (8: unsigned byte), the number of dimensions, each
// dimension as four bytes with the highest first, then the values with the last dimension fastest.
#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "datasets/images.h"

namespace quadrille {
namespace {

constexpr std::int64_t kUnsignedBytes = 0x800;
constexpr std::int64_t kMostPixels = 16384;  // in a row or column: keeps all products within 64 bits

std::int64_t big_endian(std::string_view bytes, std::size_t at) {
  std::int64_t value = 0;
  for (std::size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::vector<std::int64_t> header_of(const ImageFile& file, std::int64_t rank) {
  return idx_dimensions(file.start(static_cast<std::size_t>(4 + 4 * rank)), rank, file.path());
}

void require_size(const ImageFile& file, const std::vector<std::int64_t>& dimensions, std::string_view what) {
  const std::int64_t wanted = idx_bytes(dimensions), found = file.content_bytes();
  const std::string_view cause = !file.as_told().empty() ? "it is truncated or damaged, or bytes follow the data"
                                 : found < wanted        ? "it is truncated"
                                                         : "bytes follow the data";
  require(found == wanted, "{} holds {} bytes{}; its header promises {} {}, that is {}: {}", file.path(), found,
          file.as_told(), dimensions[0], what, wanted, cause);
}

ImageBytes load(const ImageFile& images, const ImageFile& labels, std::int64_t classes) {
  ImageBytes bytes{images.content(), labels.content()};
  bytes.pixels.erase(0, 16);
  bytes.labels.erase(0, 8);
  const auto wrong =
      std::ranges::find_if(bytes.labels, [&](char c) { return static_cast<unsigned char>(c) >= classes; });
  require(wrong == bytes.labels.end(), "{}: label {} is {}; data.classes is {}, so 0 to {} was wanted", labels.path(),
          wrong - bytes.labels.begin(), wrong == bytes.labels.end() ? 0 : static_cast<unsigned char>(*wrong), classes,
          classes - 1);
  return bytes;
}

}  // namespace

std::vector<std::int64_t> idx_dimensions(std::string_view start, std::int64_t rank, const std::string& name) {
  const auto header = static_cast<std::size_t>(4 + 4 * rank);
  require(start.size() >= header, "{} ends after {} bytes: wanted an IDX header of {}", name, start.size(), header);
  const std::int64_t magic = big_endian(start, 0);
  require(magic == kUnsignedBytes + rank,
          "{} begins with 0x{:08x}: wanted 0x{:08x}, an IDX file of unsigned bytes with {} ({})", name, magic,
          kUnsignedBytes + rank, rank == 1 ? "one dimension" : fmt::format("{} dimensions", rank),
          rank == 1 ? "labels" : "images");
  std::vector<std::int64_t> dimensions;
  for (std::int64_t i = 1; i <= rank; ++i) {
    dimensions.push_back(big_endian(start, static_cast<std::size_t>(4 * i)));
    require(dimensions.back() >= 1 && (i == 1 || dimensions.back() <= kMostPixels),
            "{}: dimension {} is {}: wanted 1 to {}", name, i, dimensions.back(),
            i == 1 ? std::int64_t{0xffffffff} : kMostPixels);
  }
  return dimensions;
}

std::int64_t idx_bytes(const std::vector<std::int64_t>& dimensions) {
  const auto header = static_cast<std::int64_t>(4 + 4 * dimensions.size());
  return header + std::accumulate(dimensions.begin(), dimensions.end(), std::int64_t{1}, std::multiplies<>());
}

ImageSource open_idx(const ImageFiles& files, std::int64_t classes) {
  const auto images = files.at(0), labels = files.at(1);
  const std::vector<std::int64_t> shape = header_of(*images, 3), counts = header_of(*labels, 1);
  require(shape[0] == counts[0], "{} holds {} images and {} holds {} labels: wanted one label for each image",
          images->path(), shape[0], labels->path(), counts[0]);
  require_size(*images, shape, fmt::format("images of {} x {} bytes", shape[1], shape[2]));
  require_size(*labels, counts, "labels");
  return {{shape[0], shape[1], shape[2], 1}, [=] { return load(*images, *labels, classes); }};
}

}  // namespace quadrille
