// SPDX-License-Identifier: Apache-2.0
// Batches are pure functions: slices are slices of the whole, each window comes once an epoch, each label once an
// evaluation.
#include <algorithm>
#include <memory>
#include <set>

#include "datasets/text.h"
#include "datasets/tokens.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

// Ids 0, 1, 2, ...: every label is its id + 1, and where a window lies can be read off.
class Counting : public Tokens {
 public:
  explicit Counting(std::int64_t count) : count_(count) {}
  std::int64_t count() const override { return count_; }
  std::int64_t vocabulary() const override { return count_; }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    ASSERT_GE(first, 0);
    ASSERT_LE(first + static_cast<std::int64_t>(ids.size()), count_);
    for (auto& id : ids) id = static_cast<std::int32_t>(first++);
  }
  double units(Slice tokens) const override { return static_cast<double>(tokens.count); }
  std::string unit() const override { return "token"; }
  std::string name() const override { return "counting"; }
  Json description() const override { return {}; }

 private:
  std::int64_t count_;
};

std::unique_ptr<Dataset> training(std::int64_t count, std::int64_t tokens) {
  return training_windows(std::make_shared<Counting>(count), tokens);
}
std::unique_ptr<Dataset> evaluation(std::int64_t count, std::int64_t tokens) {
  return evaluation_windows(std::make_shared<Counting>(count), tokens);
}

TEST(TrainingBatch, RowsOfTheWholeAreTheSlicesPutTogether) {
  const auto data = training(1003, 10);
  for (std::int64_t step : {0, 3, 40}) {
    const Batch whole = training_batch(*data, 7, step, 12, {0, 12});
    EXPECT_EQ(whole.rows, 12);
    for (std::int64_t ranks = 1; ranks <= 13; ++ranks) {
      std::vector<std::int32_t> ids, labels;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const Slice rows = part({0, 12}, ranks, rank);
        const Batch batch = training_batch(*data, 7, step, 12, rows);
        EXPECT_EQ(batch.first_row, rows.first);
        ids.insert(ids.end(), batch.integers("ids").begin(), batch.integers("ids").end());
        labels.insert(labels.end(), batch.integers("labels").begin(), batch.integers("labels").end());
      }
      EXPECT_EQ(ids, whole.integers("ids"));
      EXPECT_EQ(labels, whole.integers("labels"));
    }
  }
}

TEST(TrainingBatch, SampleNIsItsWindowOfItsEpoch) {
  const auto data = training(1003, 10);
  const std::int64_t windows = data->size();
  ASSERT_EQ(windows, 100);
  for (std::int64_t n : {0, 99, 100, 250}) {
    const Sample window = training_sample(windows, 5, n);
    EXPECT_EQ(window.epoch, n / windows);
    const Batch single = single_sample(*data, window.epoch, window.index);
    const Batch batch = training_batch(*data, 5, n / 20, 20, {n % 20, 1});
    EXPECT_EQ(batch.integers("ids"), single.integers("ids"));
    EXPECT_EQ(batch.integers("labels"), single.integers("labels"));
  }
}

TEST(TrainingBatch, EachWindowOncePerEpochAndAnotherOrderInEach) {
  for (std::int64_t windows : {1, 2, 3, 17, 64, 1000}) {
    std::vector<std::int64_t> before;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::int64_t> order;
      for (std::int64_t n = 0; n < windows; ++n)
        order.push_back(training_sample(windows, 1, epoch * windows + n).index);
      EXPECT_EQ(std::set(order.begin(), order.end()).size(), static_cast<std::size_t>(windows));
      EXPECT_TRUE(windows <= 10 || order != before);
      before = order;
    }
  }
}

TEST(TrainingBatch, OrderDependsOnTheSeed) {
  const auto data = training(2001, 10);
  EXPECT_NE(training_batch(*data, 1, 0, 8, {0, 8}).integers("ids"),
            training_batch(*data, 2, 0, 8, {0, 8}).integers("ids"));
}

TEST(TrainingWindows, LabelsAreTheIdsOneFurtherOn) {
  const auto data = training(47, 5);
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    for (std::int64_t i = 0; i < data->size(); ++i) {
      const Batch sample = single_sample(*data, epoch, i);
      const std::vector<std::int32_t>&ids = sample.integers("ids"), &labels = sample.integers("labels");
      for (std::size_t j = 0; j < 5; ++j) EXPECT_EQ(labels[j], ids[j] + 1);
    }
  }
}

TEST(TrainingWindows, CutMovesFromEpochToEpochAndStartsAtZero) {
  const auto data = training(1001, 10);
  ASSERT_EQ(data->size(), 100);
  EXPECT_EQ(data->labels(), 1000);
  const auto first_id = [&](std::int64_t epoch, std::int64_t index) {
    return single_sample(*data, epoch, index).integers("ids")[0];
  };
  std::set<std::int32_t> starts;
  for (std::int64_t epoch = 0; epoch < 60; ++epoch) {
    const std::int32_t offset = first_id(epoch, 0);
    EXPECT_TRUE(epoch > 0 || offset == 0);
    EXPECT_LT(offset, 10);
    starts.insert(offset);
    EXPECT_EQ(first_id(epoch, 50), 500 + offset);
    EXPECT_EQ(first_id(epoch, 99), offset == 0 ? 990 : 0);  // pushed over the end it takes the head of the text
  }
  EXPECT_EQ(starts.size(), 10u);
}

TEST(TrainingWindows, OneTokenShortIsRefusedWithTheEquation) {
  EXPECT_EQ(training(11, 10)->size(), 1);
  expect_parts(message_of([] { training(10, 10)->size(); }), {"counting holds 10 tokens", "10 + 1 = 11 tokens"});
  const auto data = training(81, 10);
  EXPECT_NO_THROW(require_one_batch(*data, 8));
  expect_parts(message_of([&] { require_one_batch(*training(80, 10), 8); }), {"7 samples", "8 x 10 + 1 = 81 tokens"});
}

TEST(TrainingBatch, NonsenseIsRefused) {
  const auto data = training(101, 10);
  expect_parts(message_of([&] { training_batch(*data, 1, 0, 4, {2, 3}); }), {"[2, 5)", "[0, 4)"});
  expect_parts(message_of([&] { training_batch(*data, 1, -1, 4, {0, 4}); }), {"step -1"});
  expect_parts(message_of([&] { training_batch(*data, 1, std::int64_t{1} << 62, 4, {0, 4}); }), {"beyond 64 bits"});
  EXPECT_NO_THROW(training_batch(*data, 1, std::int64_t{1} << 60, 4, {0, 4}));
}

// Labels are 1 .. count - 1, each once, whatever the length of windows, the rows of a batch and the ranks.
TEST(EvaluationBatch, EachLabelOnceForAnySplit) {
  for (std::int64_t count : {2, 3, 10, 11, 12, 99, 101}) {
    for (std::int64_t tokens : {1, 5, 10, 64}) {
      const auto data = evaluation(count, tokens);
      EXPECT_EQ(data->labels(), count - 1);
      EXPECT_EQ(data->size(), (count - 1 + tokens - 1) / tokens);
      for (std::int64_t rows : {1, 3, 8}) {
        for (std::int64_t ranks : {1, 2, 3, 5}) {
          std::vector<std::int32_t> seen;
          std::int64_t padded = 0;
          for (std::int64_t first = 0; first < data->size(); first += rows) {
            for (std::int64_t rank = 0; rank < ranks; ++rank) {
              const Batch batch = evaluation_batch(*data, first, part({0, rows}, ranks, rank));
              padded += batch.padded_rows;
              for (std::size_t i = 0; i < batch.integers("labels").size(); ++i) {
                if (batch.integers("labels")[i] < 0) continue;
                EXPECT_EQ(batch.integers("labels")[i], batch.integers("ids")[i] + 1);
                seen.push_back(batch.integers("labels")[i]);
              }
            }
          }
          std::ranges::sort(seen);
          ASSERT_EQ(seen.size(), static_cast<std::size_t>(count - 1));
          for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], static_cast<std::int32_t>(i + 1));
          EXPECT_EQ(padded, (rows - data->size() % rows) % rows);
        }
      }
    }
  }
}

TEST(EvaluationBatch, RowsPastTheEndArePadding) {
  const auto data = evaluation(21, 10);
  const Batch batch = evaluation_batch(*data, 1, {0, 3});
  EXPECT_EQ(batch.padded_rows, 2);
  EXPECT_EQ(batch.integers("ids")[0], 10);
  for (std::size_t i = 10; i < 30; ++i)
    EXPECT_TRUE(batch.integers("labels")[i] == -1 && batch.integers("ids")[i] == -1) << i;
  expect_parts(message_of([] { evaluation(1, 10)->size(); }), {"1 tokens", "at least 2"});
}

// Two fields of two types: what the text does not have.
class Pairs : public Dataset {
 public:
  Fields fields() const override { return {{"image", {2, 1}, DType::f32}, {"labels", {1}, DType::i32}}; }
  std::int64_t size() const override { return 5; }
  std::int64_t vocabulary() const override { return 5; }
  double units() const override { return 5; }
  std::string unit() const override { return "image"; }
  std::int64_t labels() const override { return 5; }
  void read(std::int64_t, std::int64_t index, const Row& row) const override {
    const auto image = row.numbers("image");
    image[0] = static_cast<float>(index) + 0.5F, image[1] = 7;
    row.integers("labels")[0] = static_cast<std::int32_t>(index);
  }
  void scan() const override {}
  Json description() const override { return {}; }
};

TEST(Fields, EachHasItsRowsAndItsPadding) {
  const Batch batch = evaluation_batch(Pairs(), 3, {0, 3});
  EXPECT_EQ(batch.numbers("image"), (std::vector<float>{3.5F, 7, 4.5F, 7, 0, 0}));
  EXPECT_EQ(batch.integers("labels"), (std::vector<std::int32_t>{3, 4, -1}));
  EXPECT_EQ(batch.padded_rows, 1);
}

TEST(Fields, OfAnotherNameOrTypeAreRefusedWithTheList) {
  const Batch batch = evaluation_batch(Pairs(), 0, {0, 1});
  for (const char* name : {"ids", "image"})
    expect_parts(message_of([&] { batch.integers(name); }), {name, "image [2, 1] f32, labels [1] i32"});
}

TEST(Fields, ThatTheDataDoNotOfferAreRefusedWithBothLists) {
  EXPECT_NO_THROW(require_fields({{"labels", {1}, DType::i32}}, Pairs().fields()));
  for (const Fields& wanted :
       {text_fields(8), Fields{{"image", {2, 2}, DType::f32}}, Fields{{"labels", {1}, DType::f32}}})
    expect_parts(message_of([&] { require_fields(wanted, Pairs().fields()); }),
                 {text_of(wanted), "image [2, 1] f32, labels [1] i32"});
}

}  // namespace
}  // namespace quadrille
