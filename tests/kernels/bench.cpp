// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/bench.h"

#include <algorithm>
#include <limits>

#include "core/bf16.h"
#include "core/error.h"
#include "kernels/backend.h"

namespace quadrille {

Bench::Bench(const Ops& ops, Device& device, DType real, Key key, DType exact)
    : ops_(ops),
      device_(device),
      real_(real),
      exact_(exact),
      key_(key),
      host_(make_host_device()),
      stream_(device.make_stream()) {}

double Bench::exactly(double v) const {
  const auto single = static_cast<float>(v);
  return exact_ == DType::bf16 ? static_cast<float>(bf16(single)) : single;
}

Numbers Bench::normals(std::int64_t count, double deviation, double mean) {
  const Key key = key_of(key_, requests_++);
  Numbers out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = exactly(mean + deviation * normal_at(key, i));
  return out;
}

Ids Bench::ids(std::int64_t count, std::int64_t first, std::int64_t end) {
  const Key key = key_of(key_, requests_++);
  Ids out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::int32_t>(
        first + static_cast<std::int64_t>(uniform_at(key, i) * static_cast<double>(end - first)));
  return out;
}

template <class T>
Tensor Bench::upload(const Shape& shape, const std::vector<T>& values) {
  require(shape.count() == static_cast<std::int64_t>(values.size()), "bench: {} values for a tensor {}", values.size(),
          shape.text());
  const Tensor out = device_.empty(shape, dtype_of<T>());
  if (!device_.holds_numbers()) return out;
  const Tensor here = host_->empty(shape, dtype_of<T>());
  std::copy(values.begin(), values.end(), here.host<T>().begin());
  stream_->copy(out, here);
  stream_->synchronize();
  return out;
}

Tensor Bench::put(const Shape& shape, const Numbers& values) {
  used_real_ = true;
  return put_as(real_, shape, values);
}

Tensor Bench::put_sum(const Shape& shape, const Numbers& values) {
  used_real_ = true;
  return put_as(wide(real_), shape, values);
}

Tensor Bench::put_as(DType type, const Shape& shape, const Numbers& values) {
  Numbers rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(), [&](double v) { return exactly(v); });
  if (type == DType::f64) return upload(shape, rounded);
  const std::vector<float> singles(rounded.begin(), rounded.end());
  if (type == DType::f32) return upload(shape, singles);
  std::vector<bf16> halves;
  for (const float v : singles) halves.push_back(bf16(v));
  return upload(shape, halves);
}

Tensor Bench::put_wide(const Shape& shape, const Numbers& values) { return upload(shape, values); }
Tensor Bench::put_ids(const Shape& shape, const Ids& values) { return upload(shape, values); }

Tensor Bench::unset(const Shape& shape, DType type) {
  const auto count = static_cast<std::size_t>(shape.count());
  if (type == DType::i32) return upload(shape, Ids(count, std::numeric_limits<std::int32_t>::min()));
  if (type == DType::f64) return upload(shape, Numbers(count, std::numeric_limits<double>::quiet_NaN()));
  const float nothing = std::numeric_limits<float>::quiet_NaN();
  if (type == DType::bf16) return upload(shape, std::vector<bf16>(count, bf16(nothing)));
  return upload(shape, std::vector<float>(count, nothing));
}

Numbers Bench::read(const Tensor& t) const {
  if (!device_.holds_numbers()) return {};
  const Tensor here = host_->empty(t.shape(), t.dtype());
  stream_->copy(here, t);
  stream_->synchronize();
  const auto as_doubles = [](const auto& span) { return Numbers(span.begin(), span.end()); };
  if (t.dtype() == DType::f64) return as_doubles(here.host<double>());
  if (t.dtype() == DType::f32) return as_doubles(here.host<float>());
  if (t.dtype() == DType::bf16) {
    Numbers out;
    for (const bf16 v : here.host<bf16>()) out.push_back(static_cast<float>(v));
    return out;
  }
  return as_doubles(here.host<std::int32_t>());
}

void Bench::result_by_column(const std::string& name, const Tensor& matrix, double tolerance) {
  const Numbers all = read(matrix);
  const auto columns = static_cast<std::size_t>(matrix.shape()[1]);
  for (std::size_t c = 0; c < columns; ++c) {
    Numbers column;
    for (std::size_t i = c; i < all.size(); i += columns) column.push_back(all[i]);
    result(name + " column " + std::to_string(c), column, tolerance, matrix.dtype());
  }
}

ReferenceBench::ReferenceBench(Key key, DType exact)
    : device_(make_host_device()), bench_(reference_ops(), *device_, DType::f64, key, exact) {}

}  // namespace quadrille
