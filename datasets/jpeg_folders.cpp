// SPDX-License-Identifier: Apache-2.0
// See jpeg_folders.h.
#include "datasets/jpeg_folders.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "datasets/images.h"
#include "datasets/sha256.h"
#include "datasets/text.h"

namespace quadrille {
namespace {

namespace fs = std::filesystem;

// The parts are a property of the set, the same for every run, whatever its seed. The seed orders the samples.
constexpr std::uint64_t kSeed = 1;
constexpr std::int64_t kColours = 3;

bool is_jpeg_name(const std::string& name) {
  const auto dot = name.rfind('.');
  if (dot == std::string::npos) return false;
  std::string ending = name.substr(dot);
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return ending == ".jpg" || ending == ".jpeg";
}

// Sorted names of what lies in a folder, hidden ones left out.
std::vector<std::string> entries_of(const std::string& directory, bool folders) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator at(directory, code), end; !code && at != end; at.increment(code)) {
    std::string name = at->path().filename().string();
    if (name.starts_with(".")) continue;
    std::error_code unknown;
    const bool right = folders ? at->is_directory(unknown) : at->is_regular_file(unknown) && is_jpeg_name(name);
    require(right, "{}/{} is no {}", directory, name,
            folders ? "folder: wanted a folder for each class and nothing else"
                    : "file whose name ends in .jpg or .jpeg: wanted such files and nothing else");
    names.push_back(std::move(name));
  }
  require(!code, "{}: {}", directory, code.message());
  require(!names.empty(), "{} is empty: wanted {}", directory, folders ? "a folder for each class" : "JPEG files");
  std::ranges::sort(names);
  return names;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  require(file.is_open(), "cannot open {}", path);
  const std::streamoff size = file.tellg();
  std::string content(static_cast<std::size_t>(std::max<std::streamoff>(size, 0)), '\0');
  file.seekg(0);
  file.read(content.data(), size);
  require(size >= 0 && file.good(), "cannot read {}", path);
  return content;
}

struct Settings {
  std::int64_t size = 0;
  Normalisation normal;
  RandomPart augment;
};

class JpegDataset : public Dataset {
 public:
  JpegDataset(ImageList list, const Settings& settings, bool training)
      : list_(std::move(list)), settings_(settings), training_(training) {
    for (std::size_t c = 0; c < kColours; ++c) {
      const double deviation = settings.normal.deviation[c];
      factor_[c] = static_cast<float>(1 / (255 * deviation));
      shift_[c] = static_cast<float>(-settings.normal.mean[c] / deviation);
    }
  }
  Fields fields() const override {
    return {{"image", {settings_.size, settings_.size, kColours}, DType::f32}, {"labels", {1}, DType::i32}};
  }
  std::int64_t size() const override { return list_.size(); }
  std::string needed(std::int64_t samples) const override { return fmt::format("{} images", samples); }
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(list_.classes().size()); }
  double units() const override { return static_cast<double>(size()); }
  std::string unit() const override { return "image"; }
  std::int64_t labels() const override { return size(); }
  void scan() const override {}  // a million files: each is checked when its row is read
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override;
  Json description() const override;

 private:
  ImageList list_;
  Settings settings_;
  bool training_;
  std::array<float, kColours> factor_{}, shift_{};
};

void JpegDataset::read(std::int64_t epoch, std::int64_t index, const Row& row) const {
  require(epoch >= 0 && index >= 0 && index < size(), "image {} of epoch {}: {} has images 0 to {}", index, epoch,
          list_.directory(), size() - 1);
  const std::string path = list_.path(index);
  PartOfImage taken;
  int reduction = 1;
  const Pixels pixels = read_jpeg(content_of(path), path, [&](const ImageSize& whole) {
    taken = training_ ? random_part(settings_.augment, whole, epoch, index) : PartOfImage{central_part(whole)};
    return reduction = reduction_for(taken.part, settings_.size);
  });
  Part part = taken.part;
  for (double* length : {&part.top, &part.left, &part.height, &part.width}) *length /= reduction;
  const auto out = row.numbers("image");
  resample(pixels, part, {settings_.size, settings_.size}, taken.mirrored, out);
  for (std::size_t i = 0; i < out.size(); i += kColours)
    for (std::size_t c = 0; c < kColours; ++c) out[i + c] = out[i + c] * factor_[c] + shift_[c];
  row.integers("labels")[0] = static_cast<std::int32_t>(list_.class_of(index));
}

Json JpegDataset::description() const {
  Json json = Json::object();
  json.set("source", "jpeg_folders");
  json.set("directory", list_.directory());
  json.set("images", size());
  json.set("classes", vocabulary());
  json.set("size", settings_.size);
  json.set("names_sha256", list_.digest());
  return json;
}

RandomPart read_augmentation(const Json& config, Json& resolved) {
  Reader reader(config, "data.augment");
  RandomPart augment;
  augment.crop = reader.boolean("crop", true);
  augment.least_area = reader.number("least_area", 0.08);
  augment.flip = reader.boolean("flip", true);
  reader.done();
  resolved = reader.resolved();
  require(augment.least_area > 0 && augment.least_area <= 1, "{} (from {}) is {}: wanted above 0 and at most 1",
          reader.path_of("least_area"), reader.origin_of("least_area"), augment.least_area);
  return augment;
}

ImageList open_list(const std::string& directory, const std::string& name, const std::string& key) {
  require_below(name, key);
  return ImageList((fs::path(directory) / name).lexically_normal().string());
}

void require_same_classes(const ImageList& train, const ImageList& evaluate) {
  const auto& a = train.classes();
  const auto& b = evaluate.classes();
  const auto [in_a, in_b] = std::ranges::mismatch(a, b);
  require(in_a == a.end() && in_b == b.end(),
          "{} and {} have other classes: {} there, {} here. Wanted the same folders in both", train.directory(),
          evaluate.directory(), in_a == a.end() ? "no more" : *in_a, in_b == b.end() ? "no more" : *in_b);
}

}  // namespace

ImageList::ImageList(const std::string& directory) : directory_(directory) {
  require(fs::is_directory(directory), "{} is no folder: wanted one that holds a folder for each class", directory);
  for (const std::string& name : entries_of(directory, true)) add_class(name);
}

void ImageList::add_class(const std::string& name) {
  first_of_class_.push_back(size());
  classes_.push_back(name);
  for (const std::string& file : entries_of((fs::path(directory_) / name).string(), false)) {
    names_ += file;
    begins_.push_back(static_cast<std::int64_t>(names_.size()));
  }
}

std::int64_t ImageList::class_of(std::int64_t image) const {
  return std::ranges::upper_bound(first_of_class_, image) - first_of_class_.begin() - 1;
}

std::string ImageList::path(std::int64_t image) const {
  const auto at = static_cast<std::size_t>(image), begin = static_cast<std::size_t>(begins_[at]);
  const std::string& folder = classes_[static_cast<std::size_t>(class_of(image))];
  return (fs::path(directory_) / folder / names_.substr(begin, static_cast<std::size_t>(begins_[at + 1]) - begin))
      .string();
}

std::string ImageList::digest() const {
  std::string all;
  for (std::int64_t i = 0; i < size(); ++i) all += fs::path(path(i)).lexically_relative(directory_).string() + '\n';
  return sha256_of(all);
}

PartOfImage random_part(const RandomPart& augment, const ImageSize& whole, std::int64_t epoch, std::int64_t index) {
  constexpr std::uint64_t kDraws = 10;
  constexpr double kMostRatio = 4.0 / 3;
  const Key family = key_of(kSeed, "part of an image");
  const Key key = key_of(key_of(family, static_cast<std::uint64_t>(epoch)), static_cast<std::uint64_t>(index));
  const bool mirrored = augment.flip && uniform_at(key, 4 * kDraws) < 0.5;
  if (!augment.crop) return {central_part(whole), mirrored};
  const auto height = static_cast<double>(whole.height), width = static_cast<double>(whole.width);
  for (std::uint64_t draw = 0; draw < kDraws; ++draw) {
    const auto drawn = [&](std::uint64_t n, double low, double high) {
      return low + uniform_at(key, 4 * draw + n) * (high - low);
    };
    const double area = drawn(0, augment.least_area, 1) * height * width;
    const double ratio = std::exp(drawn(1, -std::log(kMostRatio), std::log(kMostRatio)));
    const double part_width = std::round(std::sqrt(area * ratio)), part_height = std::round(std::sqrt(area / ratio));
    if (part_width < 1 || part_height < 1 || part_width > width || part_height > height) continue;
    return {{std::floor(drawn(2, 0, height - part_height + 1)), std::floor(drawn(3, 0, width - part_width + 1)),
             part_height, part_width},
            mirrored};
  }
  const double part_width = std::min(width, std::max(1.0, std::round(height * kMostRatio)));
  const double part_height = std::min(height, std::max(1.0, std::round(width * kMostRatio)));
  return {{std::floor((height - part_height) / 2), std::floor((width - part_width) / 2), part_height, part_width},
          mirrored};
}

Part central_part(const ImageSize& whole) {
  const auto height = static_cast<double>(whole.height), width = static_cast<double>(whole.width);
  const double side = std::min(height, width) * 224 / 256;
  return {(height - side) / 2, (width - side) / 2, side, side};
}

int reduction_for(const Part& part, std::int64_t size) {
  int reduction = 8;
  while (reduction > 1 && std::min(part.height, part.width) < static_cast<double>(size * reduction)) reduction /= 2;
  return reduction;
}

Datasets open_jpeg_folders(const Json& config, const std::string& data_root) {
  Reader reader(config, "data");
  reader.choice("source", {"jpeg_folders"});
  const std::string directory = read_directory(reader, data_root);
  for (const char* key : {"train", "evaluate", "classes", "mean", "deviation", "augment"}) reader.value(key);
  Settings settings;
  settings.size = reader.integer("size", 224);
  reader.done();  // before what is missing: it may be misspelt
  require(settings.size >= 1 && settings.size <= 4096, "{} (from {}) is {}: wanted 1 to 4096 pixels",
          reader.path_of("size"), reader.origin_of("size"), settings.size);
  const std::int64_t classes = reader.integer("classes");
  settings.normal = read_normalisation(reader, kColours);
  Json augment = Json::object();
  const Json* named = reader.value("augment");
  settings.augment = read_augmentation(named ? *named : Json::object(), augment);
  ImageList train = open_list(directory, reader.string("train"), "data.train");
  require(classes == static_cast<std::int64_t>(train.classes().size()) && classes >= 2,
          "{} (from {}) is {}, {} holds {} folders: wanted one for each class, and at least 2",
          reader.path_of("classes"), reader.origin_of("classes"), classes, train.directory(), train.classes().size());
  Datasets sets;
  if (reader.value("evaluate")) {
    ImageList evaluate = open_list(directory, reader.string("evaluate"), "data.evaluate");
    require(evaluate.directory() != train.directory(),
            "{} is data.train and data.evaluate: a model is not judged on what it was trained on", train.directory());
    require_same_classes(train, evaluate);
    sets.evaluate = std::make_unique<JpegDataset>(std::move(evaluate), settings, false);
  }
  sets.train = std::make_unique<JpegDataset>(std::move(train), settings, true);
  sets.resolved = reader.resolved();
  const auto last = [&](const char* key, Json value) {  // so that its place does not depend on whether it was given
    sets.resolved.erase(key);
    sets.resolved.set(key, std::move(value)).from(reader.origin_of(key));
  };
  last("mean", json_of(settings.normal.mean));
  last("deviation", json_of(settings.normal.deviation));
  last("augment", std::move(augment));
  return sets;
}

}  // namespace quadrille
