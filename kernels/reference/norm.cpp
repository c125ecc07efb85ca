// SPDX-License-Identifier: Apache-2.0
// Layer norm (Ba, Kiros, Hinton 2016) and RMS norm (Zhang, Sennrich 2019) of the reference, in halves around the row
// sums. x̂ = (x - mean) / deviation; deviation² = E[x²] - mean² + epsilon; an rms norm has mean 0.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/ops.h"

namespace quadrille {

namespace {

struct RowFacts {
  double mean = 0, inverse_deviation = 0;
  double normalised(double x) const { return (x - mean) * inverse_deviation; }
};

RowFacts facts_of(const double* sums, std::int64_t row, const Norm& how) {
  const auto width = static_cast<double>(how.width);
  const double mean = how.kind == NormKind::layer ? sums[2 * row] / width : 0;
  const double variance = std::max(0.0, sums[2 * row + 1] / width - mean * mean);  // rounding may take it below 0
  return {mean, 1 / std::sqrt(variance + how.epsilon)};
}

}  // namespace

Cost ReferenceOps::norm_sums(Stream& stream, const Tensor& sums, const Tensor& x) const {
  const Extents e = check_norm_sums(stream, sums, x);
  with_type_of(x, [&]<class T>(T) {
    const T* x_at = numbers<T>(x);
    double* sums_at = numbers<double>(sums);
    for (std::int64_t i = 0; i < e.rows; ++i) {
      double sum = 0, squares = 0;
      for (std::int64_t j = 0; j < e.columns; ++j) {
        const double v = x_at[i * e.columns + j];
        sum += v;
        squares += v * v;
      }
      sums_at[2 * i] = sum;
      sums_at[2 * i + 1] = squares;
    }
  });
  return bill_norm_sums(sums, x);
}

Cost ReferenceOps::norm(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
                        const Tensor& bias, const Norm& how) const {
  const Extents e = check_norm(stream, out, x, sums, gain, bias, how);
  with_type_of(x, [&]<class T>(T) {
    const T* x_at = numbers<T>(x);
    const T* gain_at = numbers<T>(gain);
    T* out_at = numbers<T>(out);
    const T* added = numbers<T>(bias);
    for (std::int64_t i = 0; i < e.rows; ++i) {
      const RowFacts row = facts_of(numbers<double>(sums), i, how);
      for (std::int64_t j = 0; j < e.columns; ++j) {
        const double v = row.normalised(x_at[i * e.columns + j]) * gain_at[j];
        out_at[i * e.columns + j] = static_cast<T>(added ? v + added[j] : v);
      }
    }
  });
  return bill_norm(out, x, sums, gain, bias);
}

Cost ReferenceOps::norm_backward_sums(Stream& stream, const Tensor& sums, const Tensor& dy, const Tensor& x,
                                      const Tensor& forward_sums, const Tensor& gain, const Norm& how) const {
  const Extents e = check_norm_backward_sums(stream, sums, dy, x, forward_sums, gain, how);
  with_type_of(x, [&]<class T>(T) {
    const T* dy_at = numbers<T>(dy);
    const T* gain_at = numbers<T>(gain);
    const T* x_at = numbers<T>(x);
    double* sums_at = numbers<double>(sums);
    for (std::int64_t i = 0; i < e.rows; ++i) {
      const RowFacts row = facts_of(numbers<double>(forward_sums), i, how);
      double sum = 0, with_x = 0;
      for (std::int64_t j = 0; j < e.columns; ++j) {
        const double g = static_cast<double>(dy_at[i * e.columns + j]) * gain_at[j];
        sum += g;
        with_x += g * row.normalised(x_at[i * e.columns + j]);
      }
      sums_at[2 * i] = sum;
      sums_at[2 * i + 1] = with_x;
    }
  });
  return bill_norm_backward_sums(sums, dy, x, forward_sums, gain);
}

// dx = (g - mean(g) - x̂ mean(g x̂)) / deviation, without mean(g) for an rms norm.
Cost ReferenceOps::norm_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                 const Tensor& forward_sums, const Tensor& backward_sums, const Tensor& gain,
                                 const Norm& how, Write write) const {
  const Extents e = check_norm_backward(stream, dx, dy, x, forward_sums, backward_sums, gain, how);
  const auto width = static_cast<double>(how.width);
  with_type_of(x, [&]<class T>(T) {
    const T* dy_at = numbers<T>(dy);
    const T* gain_at = numbers<T>(gain);
    const T* x_at = numbers<T>(x);
    T* dx_at = numbers<T>(dx);
    for (std::int64_t i = 0; i < e.rows; ++i) {
      const RowFacts row = facts_of(numbers<double>(forward_sums), i, how);
      const double* sums = numbers<double>(backward_sums) + 2 * i;
      const double mean_g = how.kind == NormKind::layer ? sums[0] / width : 0, mean_gx = sums[1] / width;
      for (std::int64_t j = 0; j < e.columns; ++j) {
        const std::int64_t at = i * e.columns + j;
        const double g = static_cast<double>(dy_at[at]) * gain_at[j];
        const double d = (g - mean_g - row.normalised(x_at[at]) * mean_gx) * row.inverse_deviation;
        dx_at[at] = static_cast<T>(write == Write::accumulate ? dx_at[at] + d : d);
      }
    }
  });
  return bill_norm_backward(dx, dy, x, forward_sums, backward_sums, gain, write);
}

Cost ReferenceOps::norm_backward_parameters(Stream& stream, const Tensor& dgain, const Tensor& dbias, const Tensor& dy,
                                            const Tensor& x, const Tensor& forward_sums, const Norm& how) const {
  const Extents e = check_norm_backward_parameters(stream, dgain, dbias, dy, x, forward_sums, how);
  std::vector<RowFacts> rows;
  for (std::int64_t i = 0; i < e.rows; ++i) rows.push_back(facts_of(numbers<double>(forward_sums), i, how));
  with_type_of(x, [&]<class T>(T) {
    const T* dy_at = numbers<T>(dy);
    const T* x_at = numbers<T>(x);
    T* dgain_at = numbers<T>(dgain);
    T* dbias_at = numbers<T>(dbias);
    for (std::int64_t j = 0; j < e.columns; ++j) {
      double of_gain = 0, of_bias = 0;
      for (std::int64_t i = 0; i < e.rows; ++i) {
        const double d = dy_at[i * e.columns + j];
        of_gain += d * rows[static_cast<std::size_t>(i)].normalised(x_at[i * e.columns + j]);
        of_bias += d;
      }
      if (dgain) dgain_at[j] = static_cast<T>(dgain_at[j] + of_gain);
      if (dbias) dbias_at[j] = static_cast<T>(dbias_at[j] + of_bias);
    }
  });
  return bill_norm_backward_parameters(dgain, dbias, dy, x, forward_sums);
}

}  // namespace quadrille
