// SPDX-License-Identifier: Apache-2.0
// Layer and RMS norm, in halves around the row sums (see ops.h). x̂ = (x - mean) / deviation, deviation² = E[x²] - mean²
// + epsilon; mean is 0 for an rms norm.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace quadrille {

namespace {

struct RowFacts {
  double mean = 0, scale = 1;
  Standardise rounded() const { return {static_cast<float>(mean), static_cast<float>(scale)}; }
};
RowFacts facts_of(const double* sums, std::int64_t row, const Norm& how) noexcept {
  const auto width = static_cast<double>(how.width);
  const double mean = how.kind == NormKind::layer ? sums[2 * row] / width : 0;
  const double variance = std::max(0.0, sums[2 * row + 1] / width - mean * mean);  // rounding may take it below 0
  return {mean, 1 / std::sqrt(variance + how.epsilon)};
}

// body(row, first element of the row)
template <class Body>
void over_rows(const Extents& e, Body&& body) {
  parallel_parts(e.rows, e.rows * e.columns, 1, [&](Slice s) noexcept {
    for (std::int64_t i = s.first; i < s.end(); ++i) body(i, i * e.columns);
  });
}

}  // namespace

Cost CpuOps::norm_sums(Stream& stream, const Tensor& sums, const Tensor& x) const {
  const Extents e = check_norm_sums(stream, sums, x);
  over_rows(e, [&, loop = row_loops().sums, to = doubles(sums), from = floats(x)](
                   std::int64_t row, std::int64_t at) noexcept { loop(to + 2 * row, from + at, e.columns); });
  return bill_norm_sums(sums, x);
}

Cost CpuOps::norm(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
                  const Tensor& bias, const Norm& how) const {
  const Extents e = check_norm(stream, out, x, sums, gain, bias, how);
  over_rows(e, [&, loop = row_loops().norm, to = floats(out), from = floats(x), s = doubles(sums), by = floats(gain),
                plus = floats(bias)](std::int64_t row, std::int64_t at) noexcept {
    loop(to + at, from + at, by, plus, facts_of(s, row, how).rounded(), e.columns);
  });
  return bill_norm(out, x, sums, gain, bias);
}

Cost CpuOps::norm_backward_sums(Stream& stream, const Tensor& sums, const Tensor& dy, const Tensor& x,
                                const Tensor& forward_sums, const Tensor& gain, const Norm& how) const {
  const Extents e = check_norm_backward_sums(stream, sums, dy, x, forward_sums, gain, how);
  over_rows(e, [&, loop = row_loops().norm_backward_sums, to = doubles(sums), d = floats(dy), from = floats(x),
                s = doubles(forward_sums), by = floats(gain)](std::int64_t row, std::int64_t at) noexcept {
    loop(to + 2 * row, d + at, from + at, by, facts_of(s, row, how).rounded(), e.columns);
  });
  return bill_norm_backward_sums(sums, dy, x, forward_sums, gain);
}

// dx = (g - mean(g) - x̂ mean(g x̂)) / deviation, without mean(g) for an rms norm.
Cost CpuOps::norm_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                           const Tensor& forward_sums, const Tensor& backward_sums, const Tensor& gain, const Norm& how,
                           Write write) const {
  const Extents e = check_norm_backward(stream, dx, dy, x, forward_sums, backward_sums, gain, how);
  const auto width = static_cast<double>(how.width);
  over_rows(e, [&, loop = row_loops().norm_backward, to = floats(dx), d = floats(dy), from = floats(x),
                s = doubles(forward_sums), back = doubles(backward_sums),
                by = floats(gain)](std::int64_t row, std::int64_t at) noexcept {
    const double shift = how.kind == NormKind::layer ? back[2 * row] / width : 0, slope = back[2 * row + 1] / width;
    const RowFacts facts = facts_of(s, row, how);
    loop(to + at, d + at, from + at, by, {facts.mean, facts.scale, shift, slope}, write == Write::accumulate,
         e.columns);
  });
  return bill_norm_backward(dx, dy, x, forward_sums, backward_sums, gain, write);
}

Cost CpuOps::norm_backward_parameters(Stream& stream, const Tensor& dgain, const Tensor& dbias, const Tensor& dy,
                                      const Tensor& x, const Tensor& forward_sums, const Norm& how) const {
  const Extents e = check_norm_backward_parameters(stream, dgain, dbias, dy, x, forward_sums, how);
  const std::array<float*, 2> to{floats(dgain), floats(dbias)};
  add_column_sums(e, to,
                  [&, loop = row_loops().norm_parameters, d = floats(dy), from = floats(x), s = doubles(forward_sums)](
                      std::array<float*, 2> sums, std::int64_t row, Slice columns) noexcept {
                    const std::int64_t at = row * e.columns + columns.first;
                    loop(sums[0], sums[1], d + at, from + at, facts_of(s, row, how).rounded(), columns.count);
                  });
  return bill_norm_backward_parameters(dgain, dbias, dy, x, forward_sums);
}

}  // namespace quadrille
