// SPDX-License-Identifier: Apache-2.0
// Shapes, views and refusals of tensors, and the rule by which axes are cut.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "core/device.h"
#include "core/slice.h"
#include "core/tensor.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

TEST(Shape, CountsAndShowsItself) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.rank(), 3);
  EXPECT_EQ(s.count(), 24);
  EXPECT_EQ(s.count(1, 3), 12);
  EXPECT_EQ(s.count(1, 1), 1);
  EXPECT_EQ(s.text(), "[2, 3, 4]");
  EXPECT_EQ(Shape{}.count(), 1);
  EXPECT_EQ(Shape{}.text(), "[]");
  EXPECT_EQ((Shape{5, 0}).count(), 0);
  EXPECT_NE(Shape({2, 3}), Shape({2, 3, 1}));
}

TEST(Shape, RefusesTheImpossible) {
  EXPECT_EQ(message_of([] { Shape({1, 1, 1, 1, 1, 1, 1}); }), "a shape of 7 dims: at most 6 are supported");
  EXPECT_EQ(message_of([] { Shape({2, -1}); }), "a shape with a negative extent: -1");
  const std::int64_t large = std::int64_t{1} << 32;
  EXPECT_EQ(message_of([&] {
              Shape({large, large}).count();
            }),
            "a shape [4294967296, 4294967296] has more elements than 64 bits can count");
  EXPECT_EQ(message_of([&] { bytes_of({std::numeric_limits<std::int64_t>::max()}, DType::f32); }),
            "a tensor [9223372036854775807] of f32 has more bytes than 64 bits can count");
}

TEST(DType, NamesRoundTrip) {
  for (const DType t : {DType::f32, DType::f64, DType::i32}) EXPECT_EQ(dtype_from(name_of(t)), t);
  EXPECT_EQ(size_of(DType::f32), 4);
  EXPECT_EQ(size_of(DType::f64), 8);
  EXPECT_EQ(size_of(DType::i32), 4);
  EXPECT_EQ(message_of([] { dtype_from("f16"); }), "unknown number type \"f16\": use f32, f64, bf16 or i32");
}

class TensorTest : public testing::Test {
 protected:
  TensorTest() {
    const auto values = t_.host<double>();
    std::iota(values.begin(), values.end(), 0.0);
  }
  std::unique_ptr<Device> device_ = make_host_device();
  Tensor t_ = device_->empty({3, 2, 2}, DType::f64);
};

TEST_F(TensorTest, ViewsShareTheNumbers) {
  const Tensor rows = t_.rows(1, 2);
  EXPECT_EQ(rows.shape(), Shape({2, 2, 2}));
  EXPECT_EQ(rows.host<double>()[0], 4.0);
  const Tensor table = rows.reshaped({4, 2});
  table.host<double>()[7] = -1.0;
  EXPECT_EQ(t_.flat().host<double>()[11], -1.0);
  EXPECT_EQ(table.rows(3, 1).host<double>()[1], -1.0);
  EXPECT_EQ(t_.rows(3, 0).count(), 0);
  Tensor copy = t_;
  t_ = {};
  EXPECT_EQ(copy.host<double>()[1], 1.0);
}

TEST_F(TensorTest, RefusesWrongViewsTypesAndEmptyOnes) {
  EXPECT_EQ(message_of([&] { t_.rows(2, 2); }), "2 rows from 2 on were wanted of a tensor [3, 2, 2]");
  EXPECT_EQ(message_of([&] { t_.rows(-1, 1); }), "1 rows from -1 on were wanted of a tensor [3, 2, 2]");
  EXPECT_TRUE(contains(message_of([&] { t_.rows(1, std::numeric_limits<std::int64_t>::max()); }), "were wanted"));
  EXPECT_EQ(message_of([&] { t_.reshaped({5}); }), "a tensor [3, 2, 2] cannot be seen as [5]: the counts differ");
  EXPECT_EQ(message_of([&] { t_.as<float>(); }), "a tensor [3, 2, 2] of f64 was asked for f32");
  const Tensor empty;
  EXPECT_FALSE(empty);
  EXPECT_EQ(message_of([&] { empty.as<float>(); }), "an empty tensor was asked for its numbers");
  EXPECT_EQ(message_of([&] { empty.device(); }), "an empty tensor was asked for its device");
  EXPECT_EQ(message_of([&] { empty.flat(); }), "a tensor without storage was given a shape");
}

TEST_F(TensorTest, NumbersThatDoNotExistCannotBeRead) {
  const auto counting = make_counting_device();
  const Tensor t = counting->empty({4}, DType::f32);
  EXPECT_EQ(t.data(), nullptr);
  EXPECT_EQ(message_of([&] { t.host<float>(); }), "a tensor [4] on \"counting\" holds no numbers that could be read");
}

TEST(Slice, PartsCoverTheWholeAndDifferByAtMostOne) {
  for (std::int64_t count = 0; count < 40; ++count)
    for (std::int64_t parts = 1; parts < 9; ++parts) {
      std::int64_t next = 100;
      for (std::int64_t i = 0; i < parts; ++i) {
        const Slice s = part({100, count}, parts, i);
        EXPECT_EQ(s.first, next);
        EXPECT_EQ(s.count, count / parts + (i < count % parts ? 1 : 0));
        next = s.end();
      }
      EXPECT_EQ(next, 100 + count);
    }
}

}  // namespace
}  // namespace quadrille
