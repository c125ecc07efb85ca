// SPDX-License-Identifier: Apache-2.0
// Which sample stands in which row of which step. Pure functions: nothing here knows ranks, so the rows of a slice are
// the slice of the rows. Used by the feeder of the trainer and, to prove coverage, by `data verify`.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"
#include "datasets/dataset.h"

namespace quadrille {
namespace {

std::size_t find(const std::vector<FieldRows>& all, std::string_view name, DType type) {
  Fields known;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].field.name == name && all[i].field.type == type) return i;
    known.push_back(all[i].field);
  }
  fail("no field \"{}\" of {} in a row; there are: {}", name, name_of(type), text_of(known));
}

template <class T>
std::span<T> row_of(std::vector<T>& values, std::int64_t row, const Field& field) {
  const auto n = static_cast<std::size_t>(field.shape.count());
  return std::span(values).subspan(static_cast<std::size_t>(row) * n, n);
}

}  // namespace

const std::vector<std::int32_t>& Batch::integers(std::string_view field) const& {
  return fields[find(fields, field, DType::i32)].integers;
}
const std::vector<float>& Batch::numbers(std::string_view field) const& {
  return fields[find(fields, field, DType::f32)].numbers;
}

std::span<std::int32_t> Row::integers(std::string_view field) const {
  FieldRows& f = batch_.fields[find(batch_.fields, field, DType::i32)];
  return row_of(f.integers, row_, f.field);
}
std::span<float> Row::numbers(std::string_view field) const {
  FieldRows& f = batch_.fields[find(batch_.fields, field, DType::f32)];
  return row_of(f.numbers, row_, f.field);
}

void Row::pad() const {
  for (FieldRows& f : batch_.fields) {
    if (f.field.type == DType::i32)
      std::ranges::fill(row_of(f.integers, row_, f.field), -1);
    else
      std::ranges::fill(row_of(f.numbers, row_, f.field), 0.0F);
  }
}

std::string Dataset::needed(std::int64_t samples) const { return fmt::format("{} samples", samples); }

Sample training_sample(std::int64_t size, std::uint64_t seed, std::int64_t n) {
  require(size > 0 && n >= 0, "training sample {} of a set of {}: wanted 0 or more of at least one sample", n, size);
  const std::int64_t epoch = n / size;
  const Key key = key_of(key_of(seed, "epoch order"), static_cast<std::uint64_t>(epoch));
  return {epoch, Permutation(key, size)(n % size)};
}

std::vector<Sample> training_samples(std::int64_t size, std::uint64_t seed, std::int64_t step, std::int64_t batch_size,
                                     Slice rows) {
  require(step >= 0 && batch_size > 0, "training step {} with {} rows: wanted step >= 0 and at least one row", step,
          batch_size);
  require(rows.first >= 0 && rows.count >= 0 && rows.end() <= batch_size,
          "rows [{}, {}) of a training step that has rows [0, {})", rows.first, rows.end(), batch_size);
  require(step <= (std::numeric_limits<std::int64_t>::max() - batch_size) / batch_size,
          "step {} x {} rows is beyond 64 bits", step, batch_size);
  std::vector<Sample> samples;
  samples.reserve(static_cast<std::size_t>(rows.count));
  for (std::int64_t row = rows.first; row < rows.end(); ++row)
    samples.push_back(training_sample(size, seed, step * batch_size + row));
  return samples;
}

std::vector<Sample> evaluation_samples(std::int64_t size, std::int64_t first_sample, Slice rows) {
  require(first_sample >= 0 && rows.first >= 0 && rows.count >= 0,
          "evaluation from sample {}, rows [{}, {}): wanted 0 or more", first_sample, rows.first, rows.end());
  std::vector<Sample> samples;
  samples.reserve(static_cast<std::size_t>(rows.count));
  for (std::int64_t sample = first_sample + rows.first; sample < first_sample + rows.end(); ++sample)
    samples.push_back({0, sample < size ? sample : -1});
  return samples;
}

Batch room_for_rows(const Dataset& data, std::int64_t rows) {
  require(rows >= 0, "a batch of {} rows: wanted 0 or more", rows);
  Batch batch;
  batch.rows = rows;
  batch.samples.resize(static_cast<std::size_t>(rows));
  for (Field& field : data.fields()) {
    const auto count = static_cast<std::size_t>(rows * field.shape.count());
    require(field.type == DType::i32 || field.type == DType::f32, "field \"{}\" of a row is {}: wanted i32 or f32",
            field.name, name_of(field.type));
    FieldRows& made = batch.fields.emplace_back();
    field.type == DType::i32 ? made.integers.resize(count) : made.numbers.resize(count);
    made.field = std::move(field);
  }
  return batch;
}

void assign_samples(Batch& batch, std::int64_t first_row, std::vector<Sample> samples) {
  require(static_cast<std::int64_t>(samples.size()) == batch.rows, "{} samples for {} rows", samples.size(),
          batch.rows);
  batch.first_row = first_row;
  batch.padded_rows = std::ranges::count(samples, -1, &Sample::index);
  batch.samples = std::move(samples);
}

void read_row(const Dataset& data, Batch& batch, std::int64_t row) {
  const Sample& sample = batch.samples[static_cast<std::size_t>(row)];
  if (sample.index < 0)
    Row(batch, row).pad();
  else
    data.read(sample.epoch, sample.index, Row(batch, row));
}

namespace {
Batch read_all(const Dataset& data, std::int64_t first_row, std::vector<Sample> samples) {
  Batch batch = room_for_rows(data, static_cast<std::int64_t>(samples.size()));
  assign_samples(batch, first_row, std::move(samples));
  for (std::int64_t row = 0; row < batch.rows; ++row) read_row(data, batch, row);
  return batch;
}
}  // namespace

Batch training_batch(const Dataset& data, std::uint64_t seed, std::int64_t step, std::int64_t batch_size, Slice rows) {
  return read_all(data, rows.first, training_samples(data.size(), seed, step, batch_size, rows));
}

Batch evaluation_batch(const Dataset& data, std::int64_t first_sample, Slice rows) {
  return read_all(data, rows.first, evaluation_samples(data.size(), first_sample, rows));
}

Batch single_sample(const Dataset& data, std::int64_t epoch, std::int64_t index) {
  return read_all(data, 0, {{epoch, index}});
}

void require_one_batch(const Dataset& data, std::int64_t batch_size) {
  if (data.holds(batch_size)) return;
  fail("the training data make {} samples; one step takes {} rows, that is {}. Use more data or fewer rows{}",
       data.size(), batch_size, data.needed(batch_size), data.unit() == "image" ? "" : ", or shorter windows");
}

}  // namespace quadrille
