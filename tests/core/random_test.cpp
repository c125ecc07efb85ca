// SPDX-License-Identifier: Apache-2.0
// Addressed randomness: fixed vectors (a change would change every published run), moments, and bijectivity of
// shuffles.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "core/random.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

TEST(Random, MixIsSplitMix64) {
  // First outputs of SplitMix64 seeded with 0 (published with the generator): state advances by the golden ratio.
  EXPECT_EQ(mix(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(mix(0x9e3779b97f4a7c15u), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(mix(2 * 0x9e3779b97f4a7c15u), 0x06c45d188009454fu);
}

TEST(Random, FamiliesDifferByEveryPartOfTheirName) {
  const Key key = key_of(1, "dropout");
  EXPECT_EQ(key, key_of(1, "dropout"));
  EXPECT_NE(key, key_of(2, "dropout"));
  EXPECT_NE(key, key_of(1, "dropouu"));
  EXPECT_NE(key_of(1, ""), key_of(1, std::string_view("\0", 1)));
  EXPECT_NE(key_of(key, 0), key_of(key, 1));
}

TEST(Random, UniformFillsTheUnitIntervalEvenly) {
  const Key key = key_of(7, "uniform");
  constexpr int kCount = 200'000, kBins = 50;
  std::vector<int> bins(kBins);
  double sum = 0, squares = 0, neighbours = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double u = uniform_at(key, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<std::size_t>(u * kBins)];
    sum += u, squares += u * u, neighbours += (u - 0.5) * (uniform_at(key, i + 1) - 0.5);
  }
  double chi = 0;
  for (int n : bins) chi += std::pow(n - kCount / kBins, 2) / (kCount / kBins);
  EXPECT_LT(chi, 49 + 5 * std::sqrt(2 * 49.0));  // five deviations of chi squared with 49 degrees of freedom
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kCount));
  EXPECT_NEAR(neighbours / kCount, 0.0, 5 * (1.0 / 12) / std::sqrt(kCount));
}

TEST(Random, NormalHasItsMoments) {
  const Key key = key_of(7, "normal");
  constexpr int kCount = 200'000;
  double sum = 0, squares = 0, cubes = 0, fourths = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double z = normal_at(key, i);
    ASSERT_TRUE(std::isfinite(z));
    sum += z, squares += z * z, cubes += z * z * z, fourths += z * z * z * z;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1.0, 5 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(cubes / kCount, 0.0, 5 * std::sqrt(15.0 / kCount));
  EXPECT_NEAR(fourths / kCount, 3.0, 5 * std::sqrt(96.0 / kCount));
}

TEST(Permutation, IsABijectionOfEverySize) {
  std::vector<std::int64_t> sizes(300);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (std::int64_t size : {1023, 1024, 1025, 4095, 4097, 16383, 16385, 65536, 100'003}) sizes.push_back(size);
  for (const std::int64_t size : sizes) {
    const Permutation shuffled(key_of(3, "epoch"), size);
    std::vector<bool> seen(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t at = shuffled(i);
      ASSERT_TRUE(at >= 0 && at < size) << size;
      ASSERT_FALSE(seen[static_cast<std::size_t>(at)]) << "size " << size << " gives " << at << " twice";
      seen[static_cast<std::size_t>(at)] = true;
    }
  }
}

TEST(Permutation, MovesThingsAndDependsOnTheKey) {
  constexpr std::int64_t kSize = 10'000;
  const Permutation one(key_of(1, "epoch"), kSize), two(key_of(2, "epoch"), kSize);
  int fixed = 0, equal = 0;
  double drift = 0;
  for (std::int64_t i = 0; i < kSize; ++i) {
    fixed += one(i) == i;
    equal += one(i) == two(i);
    drift += static_cast<double>((one(i) - kSize / 2) * (i - kSize / 2));
  }
  EXPECT_LT(fixed, 10);  // one is expected
  EXPECT_LT(equal, 10);
  EXPECT_NEAR(drift / (kSize * (kSize / 12.0 * kSize)), 0.0, 5 / std::sqrt(kSize));  // correlation of place and number
}

TEST(Permutation, WorksForTheLargestSizesAndRefusesOthers) {
  const Permutation large(key_of(1, "epoch"), std::int64_t{1} << 62);
  EXPECT_NE(large(0), large(1));
  const std::string refused = message_of([] { Permutation(1, (std::int64_t{1} << 62) + 1); });
  EXPECT_TRUE(contains(refused, "at most 2^62")) << refused;
  EXPECT_EQ(message_of([] { Permutation(1, 0); }), "a permutation of 0 things");
  EXPECT_EQ(message_of([] { Permutation(1, 5)(5); }), "permutation of 5 things asked for number 5");
  EXPECT_EQ(message_of([] { Permutation(1, 5)(-1); }), "permutation of 5 things asked for number -1");
}

TEST(Random, VectorsAreFixed) {
  const Key key = key_of(42, "weights");
  EXPECT_EQ(key, 0xb2e9a9f51de9c07du);
  EXPECT_EQ(bits_at(key, 5), 0xf93d0d2a3d1186ffu);
  EXPECT_EQ(key_of(key, 5), 0xf93d0d2a3d1186ffu);
  EXPECT_DOUBLE_EQ(uniform_at(key, 5), 0.97358782082762296);
  EXPECT_NEAR(normal_at(key, 5), -1.1960852251294696, 1e-15);  // log and cos may differ in the last digit
  const Permutation shuffled(key, 10);
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < 10; ++i) order.push_back(shuffled(i));
  EXPECT_EQ(order, (std::vector<std::int64_t>{4, 8, 6, 2, 3, 0, 1, 9, 5, 7}));
}

}  // namespace
}  // namespace quadrille
