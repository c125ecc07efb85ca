// SPDX-License-Identifier: Apache-2.0
// The data set of images and its "data" object: see images.h.
#include "datasets/images.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "datasets/text.h"

namespace quadrille {
namespace {

// The crops of a set are part of what it is: the same for every run, whatever its seed. The seed orders the samples.
constexpr std::uint64_t kSeed = 1;

using Scale = std::array<float, 256>;  // a channel's value of each byte

struct ImagePlan {
  std::string source;
  std::int64_t classes = 0;
  Normalisation normal;
  Augmentation augment;
};

std::vector<Scale> scales_of(const ImagePlan& plan) {
  std::vector<Scale> scales(plan.normal.mean.size());
  for (std::size_t c = 0; c < scales.size(); ++c)
    for (std::size_t v = 0; v < 256; ++v)
      scales[c][v] =
          static_cast<float>((static_cast<double>(v) / 255 - plan.normal.mean[c]) / plan.normal.deviation[c]);
  return scales;
}

class ImageDataset : public Dataset {
 public:
  ImageDataset(ImageFiles files, ImageSource source, const ImagePlan& plan, Augmentation augment)
      : files_(std::move(files)),
        source_(std::move(source)),
        classes_(plan.classes),
        kind_(plan.source),
        scales_(scales_of(plan)),
        augment_(augment) {}
  Fields fields() const override {
    const ImageShape& s = source_.shape;
    return {{"image", {s.height, s.width, s.channels}, DType::f32}, {"labels", {1}, DType::i32}};
  }
  std::int64_t size() const override { return source_.shape.count; }
  std::string needed(std::int64_t samples) const override { return fmt::format("{} images", samples); }
  std::int64_t vocabulary() const override { return classes_; }
  double units() const override { return static_cast<double>(size()); }
  std::string unit() const override { return "image"; }
  std::int64_t labels() const override { return size(); }
  void scan() const override {
    for (const auto& file : files_) file->check();
    bytes();
  }
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override;
  Json description() const override;

 private:
  const ImageBytes& bytes() const {
    std::call_once(once_, [this] { bytes_ = source_.load(); });
    return bytes_;
  }
  ImageFiles files_;
  ImageSource source_;
  std::int64_t classes_;
  std::string kind_;
  std::vector<Scale> scales_;  // one a channel
  Augmentation augment_;
  mutable std::once_flag once_;
  mutable ImageBytes bytes_;
};

void ImageDataset::read(std::int64_t epoch, std::int64_t index, const Row& row) const {
  const ImageShape& s = source_.shape;
  require(epoch >= 0 && index >= 0 && index < s.count, "image {} of epoch {}: the set has images 0 to {}", index, epoch,
          s.count - 1);
  const ImageBytes& all = bytes();
  const Crop crop = crop_of(augment_, epoch, index);
  const char* const image = all.pixels.data() + index * s.bytes();
  const auto out = row.numbers("image");
  std::size_t at = 0;
  for (std::int64_t y = 0; y < s.height; ++y) {
    const std::int64_t from_y = y + crop.down - augment_.pad;
    for (std::int64_t x = 0; x < s.width; ++x) {
      const std::int64_t from_x = (crop.flipped ? s.width - 1 - x : x) + crop.right - augment_.pad;
      const bool inside = from_y >= 0 && from_y < s.height && from_x >= 0 && from_x < s.width;
      const char* pixel = inside ? image + (from_y * s.width + from_x) * s.channels : nullptr;
      for (const Scale& scale : scales_) out[at++] = scale[pixel ? static_cast<unsigned char>(*pixel++) : 0];
    }
  }
  row.integers("labels")[0] = static_cast<unsigned char>(all.labels[static_cast<std::size_t>(index)]);
}

Json ImageDataset::description() const {
  const ImageShape& s = source_.shape;
  Json json = Json::object(), files = Json::array();
  for (const auto& file : files_) files.push(file->description());
  json.set("source", kind_);
  json.set("files", std::move(files));
  json.set("images", s.count);
  json.set("shape", Json(Json::Array{s.height, s.width, s.channels}));
  json.set("classes", classes_);
  return json;
}

// One finite number for each channel; without the key `fallback` for each.
std::vector<double> per_channel(Reader& reader, const char* key, std::int64_t channels, double fallback) {
  const Json* value = reader.value(key);
  if (!value) return std::vector<double>(static_cast<std::size_t>(channels), fallback);
  std::vector<double> numbers;
  for (const Json& item : value->items()) {
    numbers.push_back(item.number());
    require(std::isfinite(numbers.back()), "{} (from {}) holds {}: wanted finite numbers", reader.path_of(key),
            item.origin(), numbers.back());
  }
  require(static_cast<std::int64_t>(numbers.size()) == channels,
          "{} (from {}) has {} numbers: wanted {}, one for each channel of an image", reader.path_of(key),
          reader.origin_of(key), numbers.size(), channels);
  return numbers;
}

Augmentation read_augmentation(const Json& config, Json& resolved) {
  Reader reader(config, "data.augment");
  Augmentation augment;
  augment.pad = reader.integer("pad", 0);
  augment.flip = reader.boolean("flip", false);
  reader.done();
  resolved = reader.resolved();
  require(augment.pad >= 0 && augment.pad <= 1024, "{} (from {}) is {}: wanted 0 to 1024 pixels", reader.path_of("pad"),
          reader.origin_of("pad"), augment.pad);
  return augment;
}

ImageFiles open_files(const std::string& source, const std::string& directory, const Json& value,
                      const std::string& path) {
  const std::vector<std::string> names = names_of(value, path);
  require(source != "idx" || names.size() == 2,
          "{} names {} files: source \"idx\" wants two, the images and then their labels", path, names.size());
  ImageFiles files;
  for (const std::string& name : names) files.push_back(std::make_shared<ImageFile>(directory, name));
  return files;
}

void require_apart(const ImageFiles& train, const ImageFiles& evaluate) {
  for (const auto& file : evaluate) {
    const bool trained = std::ranges::any_of(train, [&](const auto& other) { return other->path() == file->path(); });
    require(!trained, "{} is in data.train and in data.evaluate: a model is not judged on what it was trained on",
            file->path());
  }
}

}  // namespace

Json json_of(const std::vector<double>& numbers) {
  Json list = Json::array();
  for (double number : numbers) list.push(number);
  return list;
}

Normalisation read_normalisation(Reader& reader, std::int64_t channels) {
  Normalisation n{per_channel(reader, "mean", channels, 0), per_channel(reader, "deviation", channels, 1)};
  require(std::ranges::all_of(n.deviation, [](double d) { return d > 0; }),
          "{} (from {}) has a number that is not above 0", reader.path_of("deviation"), reader.origin_of("deviation"));
  return n;
}

Crop crop_of(const Augmentation& augment, std::int64_t epoch, std::int64_t index) {
  const Key family = key_of(kSeed, "image augmentation");
  const Key key = key_of(key_of(family, static_cast<std::uint64_t>(epoch)), static_cast<std::uint64_t>(index));
  const auto places = static_cast<double>(2 * augment.pad + 1);
  return {static_cast<std::int64_t>(uniform_at(key, 0) * places),
          static_cast<std::int64_t>(uniform_at(key, 1) * places), augment.flip && uniform_at(key, 2) < 0.5};
}

Datasets open_images(const Json& config, const std::string& data_root) {
  Reader reader(config, "data");
  ImagePlan plan;
  plan.source = reader.choice("source", {"idx", "cifar10"});
  const bool cifar = plan.source == "cifar10";
  const std::string directory = read_directory(reader, data_root);
  const Json* train_names = reader.value("train");
  const Json* evaluate_names = reader.value("evaluate");
  for (const char* key : {"classes", "mean", "deviation", "augment"}) reader.value(key);
  reader.done();  // before what is missing: it may be misspelt
  reader.needed("train");
  plan.classes = cifar ? reader.integer("classes", 10) : reader.integer("classes");
  require(cifar ? plan.classes == 10 : plan.classes >= 2 && plan.classes <= 256, "{} (from {}) is {}: wanted {}",
          reader.path_of("classes"), reader.origin_of("classes"), plan.classes,
          cifar ? "10, which CIFAR-10 has" : "2 to 256");
  Json augment = Json::object();
  const Json* named = reader.value("augment");
  plan.augment = read_augmentation(named ? *named : Json::object(), augment);

  const auto open = cifar ? open_cifar10 : open_idx;
  const ImageFiles train = open_files(plan.source, directory, *train_names, "data.train");
  const ImageSource source = open(train, plan.classes);
  const ImageShape& shape = source.shape;
  plan.normal = read_normalisation(reader, shape.channels);
  Datasets sets;
  sets.resolved = reader.resolved();
  const auto last = [&](const char* key, Json value) {  // so that its place does not depend on whether it was given
    sets.resolved.erase(key);
    sets.resolved.set(key, std::move(value)).from(reader.origin_of(key));
  };
  last("classes", plan.classes);
  last("mean", json_of(plan.normal.mean));
  last("deviation", json_of(plan.normal.deviation));
  last("augment", std::move(augment));
  if (evaluate_names) {
    const ImageFiles evaluate = open_files(plan.source, directory, *evaluate_names, "data.evaluate");
    require_apart(train, evaluate);
    ImageSource other = open(evaluate, plan.classes);
    require(other.shape.height == shape.height && other.shape.width == shape.width,
            "{} has images of {} x {}, {} of {} x {}: wanted the same size in both", train[0]->path(), shape.height,
            shape.width, evaluate[0]->path(), other.shape.height, other.shape.width);
    sets.evaluate = std::make_unique<ImageDataset>(evaluate, std::move(other), plan, Augmentation{});
  }
  sets.train = std::make_unique<ImageDataset>(train, source, plan, plan.augment);
  return sets;
}

}  // namespace quadrille
