// SPDX-License-Identifier: Apache-2.0
// CIFAR-10's "binary version": records of 3073 bytes without any header, the class and then three planes of 32 x 32
// bytes, red, green, blue (cs.toronto.edu/~kriz/cifar.html).
#include "core/error.h"
#include "datasets/images.h"

namespace quadrille {
namespace {

constexpr std::int64_t kSide = 32, kChannels = 3, kPlane = kSide * kSide, kRecord = 1 + kChannels * kPlane;

void add(const ImageFile& file, std::int64_t classes, ImageBytes& out) {
  const std::string content = file.content();
  const auto records = static_cast<std::int64_t>(content.size()) / kRecord;
  for (std::int64_t n = 0; n < records; ++n) {
    const char* record = content.data() + n * kRecord;
    const auto label = static_cast<unsigned char>(record[0]);
    require(label < classes, "{}: the label of record {}, at byte {}, is {}; 0 to {} was wanted", file.path(), n,
            n * kRecord, label, classes - 1);
    out.labels += record[0];
    for (std::int64_t pixel = 0; pixel < kPlane; ++pixel)
      for (std::int64_t c = 0; c < kChannels; ++c) out.pixels += record[1 + c * kPlane + pixel];
  }
}

}  // namespace

ImageSource open_cifar10(const ImageFiles& files, std::int64_t classes) {
  ImageShape shape{0, kSide, kSide, kChannels};
  for (const auto& file : files) {
    const std::int64_t bytes = file->content_bytes();
    require(bytes > 0 && bytes % kRecord == 0,
            "{} holds {} bytes{}, {} records of {} and {} more: wanted whole records; it is truncated, bytes "
            "follow, or it is no binary file of CIFAR-10",
            file->path(), bytes, file->as_told(), bytes / kRecord, kRecord, bytes % kRecord);
    shape.count += bytes / kRecord;
  }
  return {shape, [files, classes, shape] {
            ImageBytes bytes;
            bytes.pixels.reserve(static_cast<std::size_t>(shape.count * shape.bytes()));
            for (const auto& file : files) add(*file, classes, bytes);
            return bytes;
          }};
}

}  // namespace quadrille
