// SPDX-License-Identifier: Apache-2.0
// Which window stands in which row of which step. Pure functions: nothing here knows ranks, so the rows of a slice are
// the slice of the rows. Used by the feeder of the trainer and, to prove coverage, by `data verify`.
#include <algorithm>
#include <limits>

#include "core/error.h"
#include "datasets/dataset.h"

namespace quadrille {
namespace {

Batch empty_batch(const Dataset& data, Slice rows) {
  require(rows.first >= 0 && rows.count >= 0, "rows [{}, {}) of a batch: both ends must be 0 or more", rows.first,
          rows.end());
  Batch batch;
  batch.first_row = rows.first;
  batch.rows = rows.count;
  batch.tokens = data.tokens();
  batch.ids.resize(static_cast<std::size_t>(rows.count * batch.tokens));
  batch.labels.resize(batch.ids.size());
  return batch;
}

std::span<std::int32_t> row_of(std::vector<std::int32_t>& values, std::int64_t row, std::int64_t tokens) {
  return std::span(values).subspan(static_cast<std::size_t>(row * tokens), static_cast<std::size_t>(tokens));
}

}  // namespace

Window training_window(std::int64_t windows, std::uint64_t seed, std::int64_t sample) {
  require(windows > 0 && sample >= 0,
          "training sample {} of a set of {} windows: wanted 0 or more of at least one window", sample, windows);
  const std::int64_t epoch = sample / windows;
  const Key key = key_of(key_of(seed, "epoch order"), static_cast<std::uint64_t>(epoch));
  return {epoch, Permutation(key, windows)(sample % windows)};
}

Batch training_batch(const Dataset& data, std::uint64_t seed, std::int64_t step, std::int64_t batch_size, Slice rows) {
  require(step >= 0 && batch_size > 0, "training step {} with {} rows: wanted step >= 0 and at least one row", step,
          batch_size);
  require(rows.first >= 0 && rows.count >= 0 && rows.end() <= batch_size,
          "rows [{}, {}) of a training step that has rows [0, {})", rows.first, rows.end(), batch_size);
  require(step <= (std::numeric_limits<std::int64_t>::max() - batch_size) / batch_size,
          "step {} x {} rows is beyond 64 bits", step, batch_size);
  Batch batch = empty_batch(data, rows);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const Window window = training_window(data.size(), seed, step * batch_size + rows.first + row);
    data.read(window.epoch, window.index, row_of(batch.ids, row, batch.tokens),
              row_of(batch.labels, row, batch.tokens));
  }
  return batch;
}

Batch evaluation_batch(const Dataset& data, std::int64_t first_window, Slice rows) {
  require(first_window >= 0, "evaluation from window {}: wanted 0 or more", first_window);
  Batch batch = empty_batch(data, rows);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const std::int64_t window = first_window + rows.first + row;
    auto ids = row_of(batch.ids, row, batch.tokens), labels = row_of(batch.labels, row, batch.tokens);
    if (window < data.size()) {
      data.read(0, window, ids, labels);
    } else {
      std::ranges::fill(ids, 0);
      std::ranges::fill(labels, -1);
      ++batch.padded_rows;
    }
  }
  return batch;
}

void require_one_batch(const Dataset& data, std::int64_t batch_size) {
  if (data.holds_windows(batch_size)) return;
  fail(
      "the training data make {} windows of {} ids; one step takes {} rows, that is {} x {} + 1 = {} tokens. Use more "
      "data, fewer rows or shorter windows",
      data.size(), data.tokens(), batch_size, batch_size, data.tokens(),
      static_cast<double>(batch_size) * static_cast<double>(data.tokens()) + 1);
}

}  // namespace quadrille
