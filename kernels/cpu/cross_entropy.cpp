// SPDX-License-Identifier: Apache-2.0
// Cross-entropy over a vocabulary that may be split, in the four steps of ops.h.
// loss = (1-s)(L - logit of the label) + s(L - mean logit), L = max + log Σ exp(logit - max), s the smoothing.
#include <cmath>
#include <limits>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace quadrille {

namespace {

template <class Body>
void over_rows(const Extents& e, Body&& body) {
  parallel_parts(e.rows, e.rows * (e.columns + 1), 1, [&](Slice s) noexcept {
    for (std::int64_t i = s.first; i < s.end(); ++i) body(i);
  });
}

}  // namespace

Cost CpuOps::cross_entropy_max(Stream& stream, const Tensor& max, const Tensor& logits) const {
  const Extents e = check_cross_entropy_max(stream, max, logits);
  over_rows(e, [&, loop = row_loops().max, to = doubles(max), x = floats(logits)](std::int64_t i) noexcept {
    to[i] = e.columns > 0 ? static_cast<double>(loop(x + i * e.columns, e.columns))
                          : -std::numeric_limits<double>::infinity();
  });
  return bill_cross_entropy_max(max, logits);
}

Cost CpuOps::cross_entropy_sums(Stream& stream, const Tensor& sums, const Tensor& logits, const Tensor& max,
                                const Tensor& labels, const CrossEntropy& how) const {
  const Extents e = check_cross_entropy_sums(stream, sums, logits, max, labels, how);
  check_labels(labels.host<std::int32_t>(), how);
  over_rows(e, [&, loop = row_loops().exponential_sums, to = doubles(sums), x = floats(logits), most = doubles(max),
                label = integers(labels)](std::int64_t i) noexcept {
    const float* row = x + i * e.columns;
    double both[2];
    loop(both, row, static_cast<float>(most[i]), e.columns);
    const std::int64_t at = label[i] - how.first_word;
    to[3 * i] = both[0];
    to[3 * i + 1] = label[i] >= 0 && at >= 0 && at < e.columns ? static_cast<double>(row[at]) : 0;
    to[3 * i + 2] = both[1];
  });
  return bill_cross_entropy_sums(sums, logits, max, labels);
}

// A few numbers a row: one thread, in order.
Cost CpuOps::cross_entropy_loss(Stream& stream, const Tensor& loss, const Tensor& sums, const Tensor& max,
                                const Tensor& labels, const CrossEntropy& how) const {
  const std::int64_t rows = check_cross_entropy_loss(stream, loss, sums, max, labels, how);
  check_labels(labels.host<std::int32_t>(), how);
  const double *three = doubles(sums), *most = doubles(max);
  const std::int32_t* label = integers(labels);
  double total = 0, count = 0;
  for (std::int64_t i = 0; i < rows; ++i, three += 3) {
    if (label[i] < 0) continue;
    const double log_sum = most[i] + std::log(three[0]);
    total += (1 - how.smoothing) * (log_sum - three[1]);
    if (how.smoothing > 0) total += how.smoothing * (log_sum - three[2] / static_cast<double>(how.words));
    count += 1;
  }
  doubles(loss)[0] += total;
  doubles(loss)[1] += count;
  return bill_cross_entropy_loss(loss, sums, max, labels);
}

Cost CpuOps::label_matches(Stream& stream, const Tensor& matches, const Tensor& logits, const Tensor& max,
                           const Tensor& labels, const CrossEntropy& how) const {
  const Extents e = check_label_matches(stream, matches, logits, max, labels, how);
  check_labels(labels.host<std::int32_t>(), how);
  over_rows(e, [&, to = doubles(matches), x = floats(logits), most = doubles(max),
                label = integers(labels)](std::int64_t i) noexcept {
    const float* row = x + i * e.columns;
    const auto peak = static_cast<float>(most[i]);
    std::int64_t equal = 0;
    for (std::int64_t j = 0; j < e.columns; ++j) equal += row[j] == peak;
    const std::int64_t at = label[i] - how.first_word;
    to[2 * i] = static_cast<double>(equal);
    to[2 * i + 1] = label[i] >= 0 && at >= 0 && at < e.columns && row[at] == peak ? 1 : 0;
  });
  return bill_label_matches(matches, logits, max, labels);
}

Cost CpuOps::count_correct(Stream& stream, const Tensor& correct, const Tensor& matches, const Tensor& labels) const {
  const std::int64_t rows = check_count_correct(stream, correct, matches, labels);
  const double* two = doubles(matches);
  const std::int32_t* label = integers(labels);
  double sum = 0;
  for (std::int64_t i = 0; i < rows; ++i, two += 2)
    if (label[i] >= 0 && two[0] > 0) sum += two[1] / two[0];
  doubles(correct)[0] += sum;
  return bill_count_correct(correct, matches, labels);
}

Cost CpuOps::cross_entropy_backward(Stream& stream, const Tensor& dlogits, const Tensor& logits, const Tensor& max,
                                    const Tensor& sums, const Tensor& labels, const Tensor& counts,
                                    const CrossEntropy& how) const {
  const Extents e = check_cross_entropy_backward(stream, dlogits, logits, max, sums, labels, counts, how);
  check_labels(labels.host<std::int32_t>(), how);
  const float scale = counts ? static_cast<float>(doubles(counts)[0] / doubles(counts)[1]) : 1.0f;
  const auto spread = static_cast<float>(how.smoothing / static_cast<double>(how.words));
  const auto sharp = static_cast<float>(1 - how.smoothing);
  over_rows(e, [&, loop = row_loops().softmax_gradient, to = floats(dlogits), x = floats(logits), most = doubles(max),
                s = doubles(sums), label = integers(labels)](std::int64_t i) noexcept {
    float* row = to + i * e.columns;
    if (label[i] < 0) {
      std::fill_n(row, e.columns, 0.0f);
      return;
    }
    loop(row, x + i * e.columns, static_cast<float>(most[i]), static_cast<float>(1 / s[3 * i]), spread, e.columns);
    const std::int64_t at = label[i] - how.first_word;
    if (at >= 0 && at < e.columns) row[at] -= sharp;
    if (scale != 1)
      for (std::int64_t j = 0; j < e.columns; ++j) row[j] *= scale;
  });
  return bill_cross_entropy_backward(dlogits, logits, max, sums, labels, counts);
}

}  // namespace quadrille
