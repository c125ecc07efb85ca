// SPDX-License-Identifier: Apache-2.0
#include "core/tensor.h"

#include <algorithm>

#include "core/device.h"
#include "core/error.h"

namespace quadrille {

std::int64_t size_of(DType t) { return t == DType::f64 ? 8 : t == DType::bf16 ? 2 : 4; }
DType wide(DType t) { return t == DType::bf16 ? DType::f32 : t; }

std::string_view name_of(DType t) {
  switch (t) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::bf16:
      return "bf16";
  }
  fail("a number type that does not exist: {}", static_cast<int>(t));
}

DType dtype_from(std::string_view name) {
  for (DType t : {DType::f32, DType::f64, DType::i32, DType::bf16})
    if (name == name_of(t)) return t;
  fail("unknown number type \"{}\": use f32, f64, bf16 or i32", name);
}

Shape::Shape(std::span<const std::int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  require(rank_ <= kMaxRank, "a shape of {} dims: at most {} are supported", rank_, kMaxRank);
  for (std::size_t d = 0; d < extents.size(); ++d) {
    require(extents[d] >= 0, "a shape with a negative extent: {}", extents[d]);
    extents_[d] = extents[d];
  }
}

std::int64_t Shape::count(int from, int to) const {
  std::int64_t n = 1;
  for (int d = from; d < to; ++d)
    if (__builtin_mul_overflow(n, (*this)[d], &n)) fail("a shape {} has more elements than 64 bits can count", text());
  return n;
}

std::string Shape::text() const {
  std::string out = "[";
  for (int d = 0; d < rank_; ++d) out += (d ? ", " : "") + std::to_string((*this)[d]);
  return out + "]";
}

std::int64_t counted_together(std::initializer_list<std::int64_t> counts) {
  std::int64_t sum = 0;
  for (const std::int64_t n : counts)
    require(!__builtin_add_overflow(sum, n, &sum), "the numbers of all tensors are more than 64 bits can count");
  return sum;
}

std::int64_t bytes_of(const Shape& shape, DType dtype) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.count(), size_of(dtype), &bytes))
    fail("a tensor {} of {} has more bytes than 64 bits can count", shape.text(), name_of(dtype));
  return bytes;
}

// In what follows messages are built only when needed: views are made all the time.
Tensor::Tensor(std::shared_ptr<Storage> storage, Shape shape, DType dtype, std::int64_t byte_offset)
    : storage_(std::move(storage)), shape_(shape), dtype_(dtype), offset_(byte_offset) {
  require(storage_ != nullptr, "a tensor without storage was given a shape");
  if (offset_ < 0 || bytes() > storage_->bytes() - offset_)
    fail("a tensor {} of {} at byte {} does not fit its storage of {} bytes", shape_.text(), name_of(dtype_), offset_,
         storage_->bytes());
}

Device& Tensor::device() const {
  require(storage_ != nullptr, "an empty tensor was asked for its device");
  return storage_->device();
}

Tensor Tensor::rows(std::int64_t first, std::int64_t count) const {
  if (shape_.rank() == 0 || first < 0 || count < 0 || count > shape_[0] - first)
    fail("{} rows from {} on were wanted of a tensor {}", count, first, shape_.text());
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  std::copy(shape_.extents().begin(), shape_.extents().end(), extents.begin());
  extents[0] = count;
  const std::int64_t inner = shape_.count(1, shape_.rank());
  return Tensor(storage_, Shape(std::span<const std::int64_t>(extents.data(), shape_.extents().size())), dtype_,
                offset_ + first * inner * size_of(dtype_));
}

Tensor Tensor::reshaped(Shape shape) const {
  if (shape.count() != count())
    fail("a tensor {} cannot be seen as {}: the counts differ", shape_.text(), shape.text());
  return Tensor(storage_, shape, dtype_, offset_);
}

void Tensor::expect(DType wanted) const {
  require(storage_ != nullptr, "an empty tensor was asked for its numbers");
  if (dtype_ != wanted) fail("a tensor {} of {} was asked for {}", shape_.text(), name_of(dtype_), name_of(wanted));
}

void* Tensor::host_data() const {
  const Device& where = storage_->device();
  if (!where.holds_numbers())
    fail("a tensor {} on \"{}\" holds no numbers that could be read", shape_.text(), where.name());
  if (!where.on_host()) fail("a tensor {} lives on \"{}\": copy it to the host first", shape_.text(), where.name());
  return data();
}

}  // namespace quadrille
