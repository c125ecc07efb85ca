// SPDX-License-Identifier: Apache-2.0
#include "datasets/synthetic_images.h"

#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"

namespace quadrille {

namespace {

constexpr std::int64_t kPatch = 4;  // pixels of a pattern that are alike, each way

struct Patterns {
  std::int64_t height, width, colours, classes;
  double noise;
  std::vector<float> numbers;  // [classes, height, width, colours]
  std::int64_t pixels() const { return height * width; }
};

std::shared_ptr<const Patterns> patterns_of(Patterns p, Key key) {
  const std::int64_t across = (p.width + kPatch - 1) / kPatch, down = (p.height + kPatch - 1) / kPatch;
  p.numbers.reserve(static_cast<std::size_t>(p.classes * p.pixels() * p.colours));
  for (std::int64_t k = 0; k < p.classes; ++k)
    for (std::int64_t y = 0; y < p.height; ++y)
      for (std::int64_t x = 0; x < p.width; ++x)
        for (std::int64_t c = 0; c < p.colours; ++c) {
          const std::int64_t patch = ((k * down + y / kPatch) * across + x / kPatch) * p.colours + c;
          p.numbers.push_back(static_cast<float>(normal_at(key, static_cast<std::uint64_t>(patch))));
        }
  return std::make_shared<const Patterns>(std::move(p));
}

class SyntheticImages : public Dataset {
 public:
  SyntheticImages(std::shared_ptr<const Patterns> patterns, Key key, std::int64_t size, Json description)
      : patterns_(std::move(patterns)), key_(key), size_(size), description_(std::move(description)) {}
  std::int64_t size() const override { return size_; }
  Fields fields() const override {
    return {{"image", {patterns_->height, patterns_->width, patterns_->colours}, DType::f32},
            {"labels", {1}, DType::i32}};
  }
  std::int64_t vocabulary() const override { return patterns_->classes; }
  double units() const override { return static_cast<double>(size_); }
  std::string unit() const override { return "image"; }
  std::int64_t labels() const override { return size_; }
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override {
    require(epoch >= 0 && index >= 0 && index < size_,
            "image {} of epoch {} of the synthetic images: it has images 0 to {}", index, epoch, size_ - 1);
    const Patterns& p = *patterns_;
    const Key key = key_of(key_, static_cast<std::uint64_t>(index));  // the same in every epoch
    const auto below = [&](std::uint64_t address, std::int64_t n) {
      return static_cast<std::int64_t>(bits_at(key, address) % static_cast<std::uint64_t>(n));
    };
    const std::int64_t label = below(0, p.classes), down = below(1, p.height), right = below(2, p.width);
    const Key noise = key_of(key, "noise");
    const auto pixels = row.numbers("image");
    std::size_t at = 0;
    for (std::int64_t y = 0; y < p.height; ++y)
      for (std::int64_t x = 0; x < p.width; ++x)
        for (std::int64_t c = 0; c < p.colours; ++c, ++at) {
          const std::int64_t from =
              ((label * p.height + (y + down) % p.height) * p.width + (x + right) % p.width) * p.colours + c;
          pixels[at] = p.numbers[static_cast<std::size_t>(from)] + static_cast<float>(p.noise * normal_at(noise, at));
        }
    row.integers("labels")[0] = static_cast<std::int32_t>(label);
  }
  void scan() const override {}  // nothing lies anywhere that could be damaged
  Json description() const override { return description_; }

 private:
  std::shared_ptr<const Patterns> patterns_;
  Key key_;
  std::int64_t size_;
  Json description_;
};

}  // namespace

Datasets open_synthetic_images(const Json& config) {
  Reader reader(config, "data");
  reader.choice("source", {"synthetic_images"});
  const auto bounded = [&](const char* key, std::int64_t fallback, std::int64_t low, std::int64_t high) {
    const std::int64_t value = reader.integer(key, fallback);
    require(value >= low && value <= high, "{} (from {}) is {}: wanted {} to {}", reader.path_of(key),
            reader.origin_of(key), value, low, high);
    return value;
  };
  constexpr std::int64_t kLargest = 4096, kMost = std::int64_t{1} << 40;
  Patterns p{};
  p.height = bounded("height", 32, 1, kLargest), p.width = bounded("width", p.height, 1, kLargest);
  p.colours = bounded("colours", 3, 1, 16), p.classes = bounded("classes", 10, 2, 65536);
  p.noise = reader.number("noise", 1);
  require(p.noise >= 0 && p.noise <= 100, "{} (from {}) is {}: wanted 0 to 100", reader.path_of("noise"),
          reader.origin_of("noise"), p.noise);
  const std::int64_t numbers = p.classes * p.pixels() * p.colours;
  require(numbers <= std::int64_t{1} << 28, "patterns of {} numbers, one image for each class: wanted at most {}",
          numbers, std::int64_t{1} << 28);
  const std::int64_t seed = reader.integer("process_seed", 1);
  const std::int64_t train = bounded("train_images", 50000, 1, kMost),
                     evaluate = bounded("evaluate_images", 10000, 1, kMost);
  reader.done();
  const Key key = key_of(static_cast<std::uint64_t>(seed), "synthetic images");
  const auto patterns = patterns_of(std::move(p), key_of(key, "patterns"));
  Datasets sets;
  sets.resolved = reader.resolved();
  sets.train = std::make_unique<SyntheticImages>(patterns, key_of(key, "train"), train, sets.resolved);
  sets.evaluate = std::make_unique<SyntheticImages>(patterns, key_of(key, "evaluate"), evaluate, sets.resolved);
  return sets;
}

}  // namespace quadrille
