// SPDX-License-Identifier: Apache-2.0
// Sets of small images with one class each, held in memory as bytes: IDX files (MNIST, Fashion-MNIST) and CIFAR-10's
// binary files. Opening looks at sizes and headers; the bytes are read when a first image is wanted, within the time of
// the run, and stay. Training images may be cropped and mirrored anew in each epoch, by addressed randomness alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "datasets/dataset.h"
#include "datasets/mapped_file.h"

namespace quadrille {

// A file of such a set, as it lies or packed by gzip (told by its first two bytes).
class ImageFile {
 public:
  // Throws Error: missing, empty, not of the size that the folder's manifest says.
  ImageFile(std::string directory, const std::string& name);
  const std::string& path() const { return file_.path(); }
  // What the size is told from, for messages: "" or " unpacked, as its last four bytes say".
  std::string_view as_told() const;
  // Unpacked. A gzip file says it in its last four bytes, modulo 2^32 (RFC 1952); content() proves it.
  std::int64_t content_bytes() const;
  std::string start(std::size_t bytes) const;  // of the content; fewer when there are fewer
  std::string content() const;                 // throws Error unless content_bytes() come out
  void check() const;                          // against the manifest where it lists the file
  Json description() const;                    // file, bytes, sha256 (the manifest's where it knows)

 private:
  bool packed() const;
  std::string directory_;
  std::string name_;
  MappedFile file_;
  Json entry_;  // of the manifest; null when there is none
};

struct ImageShape {
  std::int64_t count = 0, height = 0, width = 0, channels = 0;
  std::int64_t bytes() const { return height * width * channels; }  // of one image
};
struct ImageBytes {
  std::string pixels;  // [count, height, width, channels]
  std::string labels;  // [count], each below the number of classes
};
// What a format makes of its files: sizes known from headers, bytes on demand.
struct ImageSource {
  ImageShape shape;
  std::function<ImageBytes()> load;
};
using ImageFiles = std::vector<std::shared_ptr<const ImageFile>>;

// Images and labels, in this order: IDX files of unsigned bytes with three dimensions and with one.
ImageSource open_idx(const ImageFiles&, std::int64_t classes);
// Any number of files of records: one byte of class, then 32 x 32 bytes of red, of green and of blue.
ImageSource open_cifar10(const ImageFiles&, std::int64_t classes);

// The dimensions in the header of an IDX file of unsigned bytes with `rank` dimensions; `start`: 4 + 4 x rank bytes at
// least. Throws Error: another magic number, a dimension of 0, too short a file.
std::vector<std::int64_t> idx_dimensions(std::string_view start, std::int64_t rank, const std::string& name);
// Bytes of the whole file.
std::int64_t idx_bytes(const std::vector<std::int64_t>& dimensions);

// What training does to an image: `pad` black pixels on each side and a cut of the old size at one of (2 pad + 1)^2
// places, then left and right exchanged for half of the images (He and others 2015, section 4.2).
struct Augmentation {
  std::int64_t pad = 0;
  bool flip = false;
};
struct Crop {
  std::int64_t down = 0, right = 0;  // of the cut in the padded image, 0 to 2 pad; pad: as it was
  bool flipped = false;
};
Crop crop_of(const Augmentation&, std::int64_t epoch, std::int64_t index);

// What configurations of images share: "mean" (0) and "deviation" (1), lists of one finite number for each channel,
// deviations above 0. Throws Error.
struct Normalisation {
  std::vector<double> mean, deviation;
};
Normalisation read_normalisation(Reader&, std::int64_t channels);
Json json_of(const std::vector<double>&);

// {"source": "idx" | "cifar10", "directory": "fashion_mnist", "train": [images, labels] | files, "evaluate": ...,
//  "classes": 10, "mean": [0.2860], "deviation": [0.3530], "augment": {"pad": 2, "flip": true}}
// A pixel of channel c becomes (byte / 255 - mean[c]) / deviation[c].
Datasets open_images(const Json& config, const std::string& data_root);

}  // namespace quadrille
