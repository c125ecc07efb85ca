// SPDX-License-Identifier: Apache-2.0
// See addressed_data.h.
#include "training/law/addressed_data.h"

#include <algorithm>
#include <utility>

#include "core/random.h"
#include "models/model.h"
#include "training/law/addressed_bert.h"
#include "training/law/addressed_pairs.h"

namespace quadrille {

namespace {

constexpr Key kPixels = 0x1399, kClasses = 0xc1a5, kMasks = 0x3a5c;

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

}  // namespace

std::unique_ptr<Dataset> law_data(const Workload& w, std::int64_t samples) {
  const auto model = describe_model(w.model, w.vocabulary);
  const Fields fields = model->fields();
  const auto reads = [&](std::string_view name) {
    return std::ranges::any_of(fields, [&](const Field& field) { return field.name == name; });
  };
  if (reads("places"))
    return std::make_unique<AddressedBert>(samples, model->tokens(), field_named(fields, "places").shape[0],
                                           w.vocabulary);
  if (reads("source")) return std::make_unique<AddressedPairs>(samples, fields, w.vocabulary);
  if (reads("image")) return std::make_unique<AddressedImages>(samples, fields, w.vocabulary);
  require_fields(fields, text_fields(model->tokens()));
  return std::make_unique<AddressedText>(samples, model->tokens(), w.vocabulary);
}

}  // namespace quadrille
