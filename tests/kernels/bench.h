// SPDX-License-Identifier: Apache-2.0
// The bench on which an op case is run: it makes the same input numbers for every back end, device and type, hands out
// outputs full of "never written", and keeps what came out. Cases see nothing else, so they hold for any Ops. No test
// framework here: a program can run the cases too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "core/random.h"
#include "kernels/ops.h"

namespace quadrille {

using Numbers = std::vector<double>;
using Ids = std::vector<std::int32_t>;

struct Result {
  std::string name;
  Numbers values;        // empty on a device that holds no numbers
  double tolerance = 0;  // of the largest expected entry, as stated for f32
  DType type = DType::f64;
  int roundings = 1;  // to bf16 between the inputs and these numbers, where that is the type
};

class Bench {
 public:
  // `real`: the floating type under test. `exact`: the type in which all input numbers are exact, f32 or bf16, so that
  // a judge in f64 starts from the same. Numbers are functions of `key`, `exact` and the order of requests alone.
  Bench(const Ops&, Device&, DType real, Key key, DType exact = DType::f32);

  const Ops& ops() const { return ops_; }
  Stream& stream() const { return *stream_; }
  DType real() const { return real_; }

  Numbers normals(std::int64_t count, double deviation = 1, double mean = 0);
  Ids ids(std::int64_t count, std::int64_t first, std::int64_t end);  // uniform in [first, end)

  // Tensors on the device. `put` takes the type under test; `put_sum` its wide type, in which sums are kept; `put_wide`
  // f64, for sums that cross ranks.
  Tensor put(const Shape&, const Numbers&);
  Tensor put_sum(const Shape&, const Numbers&);
  Tensor put_wide(const Shape&, const Numbers&);
  Tensor put_ids(const Shape&, const Ids&);
  Tensor normal(const Shape& shape, double deviation = 1, double mean = 0) {
    return put(shape, normals(shape.count(), deviation, mean));
  }
  Tensor normal_sum(const Shape& shape, double deviation = 1, double mean = 0) {
    return put_sum(shape, normals(shape.count(), deviation, mean));
  }
  Tensor unset(const Shape& shape) { return unset(shape, real_); }
  Tensor unset(const Shape&, DType);  // NaN everywhere (i32: the least number)
  Tensor unset_sum(const Shape& shape) { return unset(shape, wide(real_)); }
  Tensor start(const Shape& shape, Write write) { return write == Write::accumulate ? normal(shape) : unset(shape); }
  Tensor start_sum(const Shape& shape, Write write) {
    return write == Write::accumulate ? normal_sum(shape) : unset_sum(shape);
  }

  Numbers read(const Tensor&) const;
  void bill(const Cost& cost) { bill_ += cost; }
  void result(std::string name, Numbers values, double tolerance, DType type, int roundings = 1) {
    results_.push_back({std::move(name), std::move(values), tolerance, type, roundings});
  }
  void result(std::string name, const Tensor& t, double tolerance, int roundings = 1) {
    result(std::move(name), read(t), tolerance, t.dtype(), roundings);
  }
  // One result per column of a matrix whose columns differ in size.
  void result_by_column(const std::string& name, const Tensor& matrix, double tolerance);

  const std::vector<Result>& results() const { return results_; }
  const Cost& total_bill() const { return bill_; }
  bool used_real() const { return used_real_; }  // whether any tensor was of the type under test

 private:
  template <class T>
  Tensor upload(const Shape&, const std::vector<T>&);
  Tensor put_as(DType, const Shape&, const Numbers&);
  double exactly(double) const;

  const Ops& ops_;
  Device& device_;
  DType real_, exact_;
  Key key_;
  std::uint64_t requests_ = 0;
  std::unique_ptr<Device> host_;
  std::unique_ptr<Stream> stream_;
  std::vector<Result> results_;
  Cost bill_;
  bool used_real_ = false;
};

// A bench of the reference in f64 with a device of its own: for what a case needs to have been computed before.
class ReferenceBench {
 public:
  explicit ReferenceBench(Key key = 0, DType exact = DType::f32);
  Bench* operator->() { return &bench_; }
  Bench& operator*() { return bench_; }

 private:
  std::unique_ptr<Device> device_;
  Bench bench_;
};

}  // namespace quadrille
