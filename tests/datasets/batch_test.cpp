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
        ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
        labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
      }
      EXPECT_EQ(ids, whole.ids);
      EXPECT_EQ(labels, whole.labels);
    }
  }
}

TEST(TrainingBatch, SampleNIsItsWindowOfItsEpoch) {
  const auto data = training(1003, 10);
  const std::int64_t windows = data->size();
  ASSERT_EQ(windows, 100);
  for (std::int64_t n : {0, 99, 100, 250}) {
    const Window window = training_window(windows, 5, n);
    EXPECT_EQ(window.epoch, n / windows);
    std::vector<std::int32_t> ids(10), labels(10);
    data->read(window.epoch, window.index, ids, labels);
    const Batch batch = training_batch(*data, 5, n / 20, 20, {n % 20, 1});
    EXPECT_EQ(batch.ids, ids);
    EXPECT_EQ(batch.labels, labels);
  }
}

TEST(TrainingBatch, EachWindowOncePerEpochAndAnotherOrderInEach) {
  for (std::int64_t windows : {1, 2, 3, 17, 64, 1000}) {
    std::vector<std::int64_t> before;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::int64_t> order;
      for (std::int64_t n = 0; n < windows; ++n)
        order.push_back(training_window(windows, 1, epoch * windows + n).index);
      EXPECT_EQ(std::set(order.begin(), order.end()).size(), static_cast<std::size_t>(windows));
      EXPECT_TRUE(windows <= 10 || order != before);
      before = order;
    }
  }
}

TEST(TrainingBatch, OrderDependsOnTheSeed) {
  const auto data = training(2001, 10);
  EXPECT_NE(training_batch(*data, 1, 0, 8, {0, 8}).ids, training_batch(*data, 2, 0, 8, {0, 8}).ids);
}

TEST(TrainingWindows, LabelsAreTheIdsOneFurtherOn) {
  const auto data = training(47, 5);
  std::vector<std::int32_t> ids(5), labels(5);
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    for (std::int64_t i = 0; i < data->size(); ++i) {
      data->read(epoch, i, ids, labels);
      for (std::size_t j = 0; j < 5; ++j) EXPECT_EQ(labels[j], ids[j] + 1);
    }
  }
}

TEST(TrainingWindows, CutMovesFromEpochToEpochAndStartsAtZero) {
  const auto data = training(1001, 10);
  ASSERT_EQ(data->size(), 100);
  EXPECT_EQ(data->labels(), 1000);
  std::vector<std::int32_t> ids(10), labels(10);
  std::set<std::int32_t> starts;
  for (std::int64_t epoch = 0; epoch < 60; ++epoch) {
    data->read(epoch, 0, ids, labels);
    const std::int32_t offset = ids[0];
    EXPECT_TRUE(epoch > 0 || offset == 0);
    EXPECT_LT(offset, 10);
    starts.insert(offset);
    data->read(epoch, 50, ids, labels);
    EXPECT_EQ(ids[0], 500 + offset);
    data->read(epoch, 99, ids, labels);  // what the shift pushes over the end takes the head of the text
    EXPECT_EQ(ids[0], offset == 0 ? 990 : 0);
  }
  EXPECT_EQ(starts.size(), 10u);
}

TEST(TrainingWindows, OneTokenShortIsRefusedWithTheEquation) {
  EXPECT_EQ(training(11, 10)->size(), 1);
  expect_parts(message_of([] { training(10, 10)->size(); }), {"counting holds 10 tokens", "10 + 1 = 11 tokens"});
  const auto data = training(81, 10);
  EXPECT_NO_THROW(require_one_batch(*data, 8));
  expect_parts(message_of([&] { require_one_batch(*training(80, 10), 8); }), {"7 windows", "8 x 10 + 1 = 81 tokens"});
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
              for (std::size_t i = 0; i < batch.labels.size(); ++i) {
                if (batch.labels[i] < 0) continue;
                EXPECT_EQ(batch.labels[i], batch.ids[i] + 1);
                seen.push_back(batch.labels[i]);
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
  EXPECT_EQ(batch.ids[0], 10);
  for (std::size_t i = 10; i < 30; ++i) EXPECT_TRUE(batch.labels[i] == -1 && batch.ids[i] == 0) << i;
  expect_parts(message_of([] { evaluation(1, 10)->size(); }), {"1 tokens", "at least 2"});
}

}  // namespace
}  // namespace quadrille
