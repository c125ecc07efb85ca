// SPDX-License-Identifier: Apache-2.0
// Images as ImageNet's archives unpack: a folder for each class, JPEG files of any size in it. Opening walks the
// folders once and keeps the names; a file is opened when its row is read, so damage in it is an error at that row.
// Rows are squares of one size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/resample.h"

namespace quadrille {

// The names, in order: classes sorted by the name of their folder, in each class files sorted by theirs (bytewise).
class ImageList {
 public:
  // Throws Error: no folder, no classes, a class without files, a name that ends in neither .jpg nor .jpeg (small or
  // capital letters). Names that begin with a dot are left out.
  explicit ImageList(const std::string& directory);
  const std::string& directory() const { return directory_; }
  const std::vector<std::string>& classes() const { return classes_; }
  std::int64_t size() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  std::int64_t class_of(std::int64_t image) const;
  std::string path(std::int64_t image) const;
  std::string digest() const;  // SHA-256 of all names

 private:
  void add_class(const std::string& name);
  std::string directory_;
  std::vector<std::string> classes_;
  std::vector<std::int64_t> first_of_class_;
  std::string names_;                       // all files' names, one after the other
  std::vector<std::int64_t> begins_ = {0};  // in names_
};

// What training does to an image: a part of it with least_area to all of its area and sides that stand 3:4 to 4:3 to
// one another, area and logarithm of the ratio drawn evenly and the place evenly among those inside, is brought to the
// wanted size; then left and right are exchanged for half of the images. After ten draws that do not fit inside, the
// largest part in the middle with a ratio in these bounds. (Szegedy and others 2015, section 6; the draws of ten and
// what follows them are customary.)
struct RandomPart {
  bool crop = true, flip = true;
  double least_area = 0.08;
};
struct PartOfImage {
  Part part;
  bool mirrored = false;
};
PartOfImage random_part(const RandomPart&, const ImageSize&, std::int64_t epoch, std::int64_t index);
// The square in the middle whose side is 224/256 of the shorter side.
Part central_part(const ImageSize&);
// The largest of 1, 2, 4 and 8 that leaves the part no smaller than `size` both ways.
int reduction_for(const Part&, std::int64_t size);

// {"source": "jpeg_folders", "directory": "imagenet", "train": "train", "evaluate": "val", "size": 224,
//  "classes": 1000, "mean": [0.485, 0.456, 0.406], "deviation": [0.229, 0.224, 0.225],
//  "augment": {"crop": true, "least_area": 0.08, "flip": true}}
// A channel's value v in units of a byte becomes (v / 255 - mean) / deviation. Labels are places in the list of
// classes.
Datasets open_jpeg_folders(const Json& config, const std::string& data_root);

}  // namespace quadrille
