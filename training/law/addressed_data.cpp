// SPDX-License-Identifier: Apache-2.0
// See addressed_data.h.
#include "training/law/addressed_data.h"

#include <algorithm>
#include <utility>

#include "core/random.h"
#include "models/model.h"

namespace quadrille {

namespace {

constexpr Key kPixels = 0x1399, kClasses = 0xc1a5, kMasks = 0x3a5c, kWords = 0x7a15, kLengths = 0x1e46;

// About a quarter of the labels are masked.
class AddressedImages : public Dataset {
 public:
  AddressedImages(std::int64_t images, Fields fields, std::int64_t classes)
      : images_(images), fields_(std::move(fields)), classes_(classes) {}
  std::int64_t size() const override { return images_; }
  Fields fields() const override { return fields_; }
  std::int64_t vocabulary() const override { return classes_; }
  double units() const override { return static_cast<double>(labels()); }
  std::string unit() const override { return "image"; }
  std::int64_t labels() const override {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < images_; ++i) n += kept(i);
    return n;
  }
  void read(std::int64_t, std::int64_t index, const Row& row) const override {
    const auto address = static_cast<std::uint64_t>(index);
    const auto pixels = row.numbers("image");
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<float>(normal_at(key_of(kPixels, address), i));
    row.integers("labels")[0] =
        kept(index) ? static_cast<std::int32_t>(bits_at(kClasses, address) % static_cast<std::uint64_t>(classes_)) : -1;
  }
  void scan() const override {}
  Json description() const override { return Json::object(); }

 private:
  static bool kept(std::int64_t index) { return bits_at(kMasks, static_cast<std::uint64_t>(index)) % 4 != 0; }

  std::int64_t images_;
  Fields fields_;
  std::int64_t classes_;
};

// Pairs of rows of words, each padded at its end. Some sources fill their row, some are a single word.
class AddressedPairs : public Dataset {
 public:
  AddressedPairs(std::int64_t pairs, Fields fields, std::int64_t vocabulary)
      : pairs_(pairs), fields_(std::move(fields)), vocabulary_(vocabulary) {}
  std::int64_t size() const override { return pairs_; }
  Fields fields() const override { return fields_; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  double units() const override { return static_cast<double>(labels()); }
  std::string unit() const override { return "token"; }
  std::int64_t labels() const override {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < pairs_; ++i) n += length(i, "ids");
    return n;
  }
  void read(std::int64_t, std::int64_t index, const Row& row) const override {
    for (const Field& f : fields_) {
      const auto ids = row.integers(f.name);
      const Key key = key_of(key_of(kWords, f.name == "source"), static_cast<std::uint64_t>(index));
      const std::uint64_t further = f.name == "labels";
      const auto filled = static_cast<std::size_t>(length(index, f.name));
      for (std::size_t t = 0; t < ids.size(); ++t)
        ids[t] = t < filled
                     ? static_cast<std::int32_t>(bits_at(key, t + further) % static_cast<std::uint64_t>(vocabulary_))
                     : -1;
    }
  }
  void scan() const override {}
  Json description() const override { return Json::object(); }

 private:
  // Of labels as of ids.
  std::int64_t length(std::int64_t index, std::string_view field) const {
    const std::int64_t most = field_named(fields_, field).shape[0];
    if (index % 4 == 3) return most;
    const Key key = key_of(kLengths, field == "source");
    return 1 + static_cast<std::int64_t>(bits_at(key, static_cast<std::uint64_t>(index)) %
                                         static_cast<std::uint64_t>(most));
  }

  std::int64_t pairs_;
  Fields fields_;
  std::int64_t vocabulary_;
};

bool has_field(const Fields& fields, std::string_view name) {
  return std::any_of(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
}

}  // namespace

std::unique_ptr<Dataset> law_data(const Workload& w, std::int64_t samples) {
  const auto model = describe_model(w.model, w.vocabulary);
  if (has_field(model->fields(), "source"))
    return std::make_unique<AddressedPairs>(samples, model->fields(), w.vocabulary);
  if (model->tokens() > 0) return std::make_unique<AddressedText>(samples, model->tokens(), w.vocabulary);
  return std::make_unique<AddressedImages>(samples, model->fields(), w.vocabulary);
}

}  // namespace quadrille
