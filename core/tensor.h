// SPDX-License-Identifier: Apache-2.0
// Numbers in a row: shape, type, place. Always contiguous and row-major; the only views are a run of rows and another
// shape. A Tensor is a counted reference: copies share the numbers, the last one gives the memory back to its device or
// arena. Used by every floor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace quadrille {

class Device;

enum class DType : std::uint8_t { f32, f64, i32, bf16 };
std::int64_t size_of(DType);         // bytes of one element
std::string_view name_of(DType);     // "f32", ...
DType dtype_from(std::string_view);  // throws Error naming the known types
DType wide(DType);                   // what sums and masters of a type are kept in: f32 for bf16, else the type itself
template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::i32;
}

// Up to six extents. An empty shape is a single number.
class Shape {
 public:
  static constexpr int kMaxRank = 6;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const std::int64_t> extents);  // throws Error: more than kMaxRank, or a negative extent
  int rank() const { return rank_; }
  std::int64_t operator[](int dim) const { return extents_[static_cast<std::size_t>(dim)]; }
  std::int64_t count() const { return count(0, rank_); }
  std::int64_t count(int from, int to) const;  // product of the extents of dims [from, to)
  std::span<const std::int64_t> extents() const { return {extents_.data(), static_cast<std::size_t>(rank_)}; }
  std::string text() const;  // "[8, 256, 384]"
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

std::int64_t bytes_of(const Shape&, DType);                          // throws Error beyond 64 bits
std::int64_t counted_together(std::initializer_list<std::int64_t>);  // the sum; throws Error beyond 64 bits

// Memory with an owner. Devices and arenas derive from it; the destructor returns the memory.
class Storage {
 public:
  Storage(Device& device, std::byte* data, std::int64_t bytes) : device_(device), data_(data), bytes_(bytes) {}
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  Device& device() const { return device_; }
  std::byte* data() const { return data_; }  // null on a device that holds no numbers
  std::int64_t bytes() const { return bytes_; }

 private:
  Device& device_;
  std::byte* data_;
  std::int64_t bytes_;
};

class Tensor {
 public:
  Tensor() = default;  // no numbers at all; `if (tensor)` tells
  Tensor(std::shared_ptr<Storage> storage, Shape shape, DType dtype, std::int64_t byte_offset = 0);
  explicit operator bool() const { return storage_ != nullptr; }

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  std::int64_t count() const { return shape_.count(); }
  std::int64_t bytes() const { return bytes_of(shape_, dtype_); }
  Device& device() const;  // throws Error for an empty tensor

  Tensor rows(std::int64_t first, std::int64_t count) const;  // a run of the outermost dim
  Tensor reshaped(Shape) const;                               // same count, same numbers
  Tensor flat() const { return reshaped({count()}); }
  // Whether two tensors hold the same numbers, or some of them; exact also on a device that holds none.
  bool same_place(const Tensor& other) const {
    return storage_ != nullptr && storage_ == other.storage_ && offset_ == other.offset_ && bytes() == other.bytes();
  }
  bool overlaps(const Tensor& other) const {
    return storage_ != nullptr && storage_ == other.storage_ && count() > 0 && other.count() > 0 &&
           offset_ < other.offset_ + other.bytes() && other.offset_ < offset_ + bytes();
  }

  bool sole_owner() const { return storage_.use_count() == 1; }  // nobody else can see these numbers

  // The address: null where no numbers are held. For kernels of the tensor's own device.
  void* data() const { return storage_ && storage_->data() ? storage_->data() + offset_ : nullptr; }
  template <class T>
  T* as() const {
    expect(dtype_of<T>());
    return static_cast<T*>(data());
  }
  // The numbers as the host sees them; throws Error if they live elsewhere, do not exist, or are of another type.
  template <class T>
  std::span<T> host() const {
    expect(dtype_of<T>());
    return {static_cast<T*>(host_data()), static_cast<std::size_t>(count())};
  }

 private:
  void expect(DType) const;
  void* host_data() const;

  std::shared_ptr<Storage> storage_;
  Shape shape_;
  DType dtype_ = DType::f32;
  std::int64_t offset_ = 0;
};

}  // namespace quadrille
