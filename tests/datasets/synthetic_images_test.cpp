// SPDX-License-Identifier: Apache-2.0
// Synthetic images: a function of their address, with a pattern that tells the class, and refusals.
#include "datasets/synthetic_images.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/error.h"

namespace quadrille {
namespace {

Datasets open(const std::string& more) {
  return open_datasets(parse_json(R"({"source": "synthetic_images", "height": 6, "width": 9)" + more + "}", "data"), 0,
                       "data");
}

TEST(SyntheticImages, HaveTheFieldsOfImages) {
  const Datasets sets = open(R"(, "train_images": 40, "evaluate_images": 7)");
  EXPECT_EQ(text_of(sets.train->fields()), "image [6, 9, 3] f32, labels [1] i32");
  EXPECT_EQ(sets.train->size(), 40);
  EXPECT_EQ(sets.evaluate->size(), 7);
  EXPECT_EQ(sets.evaluate->labels(), 7);
  EXPECT_EQ(sets.train->vocabulary(), 10);
  EXPECT_EQ(sets.train->unit(), "image");
}

TEST(SyntheticImages, AreAFunctionOfTheirAddress) {
  const Datasets once = open(""), again = open(""), other = open(R"(, "process_seed": 2)");
  const Batch a = single_sample(*once.train, 0, 5), b = single_sample(*again.train, 3, 5);
  EXPECT_EQ(a.numbers("image"), b.numbers("image"));
  EXPECT_EQ(a.integers("labels"), b.integers("labels"));
  EXPECT_NE(a.numbers("image"), single_sample(*once.train, 0, 6).numbers("image"));
  EXPECT_NE(a.numbers("image"), single_sample(*once.evaluate, 0, 5).numbers("image"));
  EXPECT_NE(a.numbers("image"), single_sample(*other.train, 0, 5).numbers("image"));
}

// Without noise the numbers of an image are those of its class, in another place.
TEST(SyntheticImages, AreThePatternOfTheirClassMoved) {
  const Datasets sets = open(R"(, "noise": 0, "classes": 4)");
  std::map<std::int32_t, std::vector<float>> of_class;
  std::set<std::vector<float>> different;
  for (std::int64_t i = 0; i < 60; ++i) {
    const Batch image = single_sample(*sets.train, 0, i);
    std::vector<float> numbers = image.numbers("image");
    different.insert(numbers);
    std::sort(numbers.begin(), numbers.end());
    const auto [at, first] = of_class.try_emplace(image.integers("labels")[0], numbers);
    EXPECT_EQ(at->second, numbers) << "image " << i;
  }
  EXPECT_EQ(of_class.size(), 4u);
  EXPECT_GT(different.size(), 40u);
}

TEST(SyntheticImages, NoiseHasItsDeviation) {
  const Datasets sets = open(R"(, "noise": 0.5)"), still = open(R"(, "noise": 0)");
  double squares = 0, count = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    const auto a = single_sample(*sets.train, 0, i).numbers("image"),
               b = single_sample(*still.train, 0, i).numbers("image");
    for (std::size_t k = 0; k < a.size(); ++k) squares += std::pow(static_cast<double>(a[k] - b[k]), 2), ++count;
  }
  EXPECT_NEAR(std::sqrt(squares / count), 0.5, 0.01);
}

TEST(SyntheticImages, RefuseWhatIsNoImage) {
  EXPECT_THROW(open(R"(, "colours": 0)"), Error);
  EXPECT_THROW(open(R"(, "classes": 1)"), Error);
  EXPECT_THROW(open(R"(, "noise": -1)"), Error);
  EXPECT_THROW(open(R"(, "tokens": 8)"), Error);
}

}  // namespace
}  // namespace quadrille
