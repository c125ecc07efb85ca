// SPDX-License-Identifier: Apache-2.0
// Embedding and cross-entropy of the reference: the two ops of a table of words that may be split over ranks.
// loss = (1-s)(L - logit of the label) + s(L - mean logit), L = max + log Σ exp(logit - max), s the smoothing.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/ops.h"

namespace quadrille {

Cost ReferenceOps::positions(Stream& stream, const Tensor& ids, std::int64_t first, const Jump& jump) const {
  const Extents e = check_positions(stream, ids, first, jump);
  const auto numbers = ids.host<std::int32_t>();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<std::int32_t>(position_of(first, jump, static_cast<std::int64_t>(i) % e.columns));
  return bill_positions(ids);
}

Cost ReferenceOps::sinusoids(Stream& stream, const Tensor& out, const Tensor& x, const Sinusoids& how) const {
  check_sinusoids(stream, out, x, how);
  const std::int64_t tokens = x.shape()[1], features = x.shape()[2];
  with_type_of(out, [&]<class T>(T) {
    const T* x_at = numbers<T>(x);
    T* out_at = numbers<T>(out);
    for (std::int64_t i = 0; i < out.count(); ++i) {
      const std::int64_t position = position_of(how.first_token, how.jump, i / features % tokens);
      out_at[i] = static_cast<T>(how.factor * x_at[i] +
                                 how.amplitude * sinusoid_at(position, how.first_feature + i % features, how.features));
    }
  });
  return bill_sinusoids(out, x);
}

Cost ReferenceOps::row_lengths(Stream& stream, const Tensor& lengths, const Tensor& ids) const {
  const Extents e = check_row_lengths(stream, lengths, ids);
  const std::int32_t* ids_at = numbers<std::int32_t>(ids);
  std::int32_t* lengths_at = numbers<std::int32_t>(lengths);
  for (std::int64_t i = 0; i < e.rows; ++i) {
    lengths_at[i] = 0;
    for (std::int64_t t = 0; t < e.columns; ++t) lengths_at[i] += ids_at[i * e.columns + t] >= 0;
  }
  return bill_row_lengths(lengths, ids);
}

Cost ReferenceOps::rows_of_places(Stream& stream, const Tensor& rows, const Tensor& places, std::int64_t tokens,
                                  std::int64_t first, const Jump& jump) const {
  const Extents e = check_rows_of_places(stream, rows, places, tokens, first, jump);
  const auto to = rows.host<std::int32_t>(), from = places.host<std::int32_t>();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::int64_t token = token_at(first, jump, tokens, from[i]), row = static_cast<std::int64_t>(i) / e.columns;
    to[i] = token < 0 ? -1 : static_cast<std::int32_t>(row * tokens + token);
  }
  return bill_rows_of_places(rows, places);
}

Cost ReferenceOps::embedding(Stream& stream, const Tensor& out, const Tensor& table, const Tensor& ids,
                             std::int64_t first_row) const {
  const Extents e = check_embedding(stream, out, table, ids, first_row);
  with_type_of(out, [&]<class T>(T) {
    const std::int32_t* ids_at = numbers<std::int32_t>(ids);
    T* out_at = numbers<T>(out);
    const T* table_at = numbers<T>(table);
    for (std::int64_t i = 0; i < e.rows; ++i) {
      const std::int64_t row = ids_at[i] - first_row;
      const bool held = row >= 0 && row < table.shape()[0];
      for (std::int64_t j = 0; j < e.columns; ++j)
        out_at[i * e.columns + j] = held ? table_at[row * e.columns + j] : T{0};
    }
  });
  return bill_embedding(out, table, ids);
}

Cost ReferenceOps::embedding_backward(Stream& stream, const Tensor& dtable, const Tensor& dout, const Tensor& ids,
                                      std::int64_t first_row) const {
  const Extents e = check_embedding_backward(stream, dtable, dout, ids, first_row);
  std::vector<double> sums(static_cast<std::size_t>(dtable.count()), 0.0);
  with_type_of(dtable, [&]<class T>(T) {
    const std::int32_t* ids_at = numbers<std::int32_t>(ids);
    const T* dout_at = numbers<T>(dout);
    T* dtable_at = numbers<T>(dtable);
    for (std::int64_t i = 0; i < e.rows; ++i) {
      const std::int64_t row = ids_at[i] - first_row;
      if (row < 0 || row >= dtable.shape()[0]) continue;
      for (std::int64_t j = 0; j < e.columns; ++j)
        sums[static_cast<std::size_t>(row * e.columns + j)] += dout_at[i * e.columns + j];
    }
    for (std::int64_t i = 0; i < dtable.count(); ++i)
      dtable_at[i] = static_cast<T>(dtable_at[i] + sums[static_cast<std::size_t>(i)]);
  });
  return bill_embedding_backward(dtable, dout, ids);
}

Cost ReferenceOps::cross_entropy_max(Stream& stream, const Tensor& max, const Tensor& logits) const {
  const Extents e = check_cross_entropy_max(stream, max, logits);
  with_type_of(logits, [&]<class T>(T) {
    const T* logits_at = numbers<T>(logits);
    double* max_at = numbers<double>(max);
    for (std::int64_t i = 0; i < e.rows; ++i) {
      double most = -std::numeric_limits<double>::infinity();  // stays where no words are held
      for (std::int64_t j = 0; j < e.columns; ++j) most = std::max<double>(most, logits_at[i * e.columns + j]);
      max_at[i] = most;
    }
  });
  return bill_cross_entropy_max(max, logits);
}

Cost ReferenceOps::cross_entropy_sums(Stream& stream, const Tensor& sums, const Tensor& logits, const Tensor& max,
                                      const Tensor& labels, const CrossEntropy& how) const {
  const Extents e = check_cross_entropy_sums(stream, sums, logits, max, labels, how);
  check_labels(labels.host<std::int32_t>(), how);
  with_type_of(logits, [&]<class T>(T) {
    const std::int32_t* labels_at = numbers<std::int32_t>(labels);
    const double* max_at = numbers<double>(max);
    for (std::int64_t i = 0; i < e.rows; ++i) {
      const T* row = numbers<T>(logits) + i * e.columns;
      const std::int64_t label = labels_at[i] - how.first_word;
      const bool held = labels_at[i] >= 0 && label >= 0 && label < e.columns;
      double exponentials = 0, total = 0;
      for (std::int64_t j = 0; j < e.columns; ++j) {
        exponentials += std::exp(row[j] - max_at[i]);
        total += row[j];
      }
      double* three = numbers<double>(sums) + 3 * i;
      three[0] = exponentials;
      three[1] = held ? static_cast<double>(row[label]) : 0;
      three[2] = total;
    }
  });
  return bill_cross_entropy_sums(sums, logits, max, labels);
}

Cost ReferenceOps::cross_entropy_loss(Stream& stream, const Tensor& loss, const Tensor& sums, const Tensor& max,
                                      const Tensor& labels, const CrossEntropy& how) const {
  const std::int64_t rows = check_cross_entropy_loss(stream, loss, sums, max, labels, how);
  check_labels(labels.host<std::int32_t>(), how);
  double total = 0, count = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    if (numbers<std::int32_t>(labels)[i] < 0) continue;
    const double* three = numbers<double>(sums) + 3 * i;
    const double log_sum = numbers<double>(max)[i] + std::log(three[0]);
    total += (1 - how.smoothing) * (log_sum - three[1]);
    if (how.smoothing > 0) total += how.smoothing * (log_sum - three[2] / static_cast<double>(how.words));
    count += 1;
  }
  numbers<double>(loss)[0] += total;
  numbers<double>(loss)[1] += count;
  return bill_cross_entropy_loss(loss, sums, max, labels);
}

Cost ReferenceOps::label_matches(Stream& stream, const Tensor& matches, const Tensor& logits, const Tensor& max,
                                 const Tensor& labels, const CrossEntropy& how) const {
  const Extents e = check_label_matches(stream, matches, logits, max, labels, how);
  check_labels(labels.host<std::int32_t>(), how);
  with_type_of(logits, [&]<class T>(T) {
    for (std::int64_t i = 0; i < e.rows; ++i) {
      const T* row = numbers<T>(logits) + i * e.columns;
      double* two = numbers<double>(matches) + 2 * i;
      two[0] = two[1] = 0;
      for (std::int64_t j = 0; j < e.columns; ++j) {
        if (static_cast<double>(row[j]) != numbers<double>(max)[i]) continue;
        two[0] += 1;
        if (how.first_word + j == numbers<std::int32_t>(labels)[i]) two[1] = 1;
      }
    }
  });
  return bill_label_matches(matches, logits, max, labels);
}

Cost ReferenceOps::count_correct(Stream& stream, const Tensor& correct, const Tensor& matches,
                                 const Tensor& labels) const {
  const std::int64_t rows = check_count_correct(stream, correct, matches, labels);
  for (std::int64_t i = 0; i < rows; ++i) {
    const double* two = numbers<double>(matches) + 2 * i;
    if (numbers<std::int32_t>(labels)[i] >= 0 && two[0] > 0) numbers<double>(correct)[0] += two[1] / two[0];
  }
  return bill_count_correct(correct, matches, labels);
}

Cost ReferenceOps::cross_entropy_backward(Stream& stream, const Tensor& dlogits, const Tensor& logits,
                                          const Tensor& max, const Tensor& sums, const Tensor& labels,
                                          const Tensor& counts, const CrossEntropy& how) const {
  const Extents e = check_cross_entropy_backward(stream, dlogits, logits, max, sums, labels, counts, how);
  check_labels(labels.host<std::int32_t>(), how);
  const double scale = counts ? numbers<double>(counts)[0] / numbers<double>(counts)[1] : 1;
  const double spread = how.smoothing / static_cast<double>(how.words);
  with_type_of(logits, [&]<class T>(T) {
    const std::int32_t* labels_at = numbers<std::int32_t>(labels);
    const T* logits_at = numbers<T>(logits);
    const double* max_at = numbers<double>(max);
    const double* sums_at = numbers<double>(sums);
    T* dlogits_at = numbers<T>(dlogits);
    for (std::int64_t i = 0; i < e.rows; ++i) {
      const std::int32_t label = labels_at[i];
      for (std::int64_t j = 0; j < e.columns; ++j) {
        const std::int64_t at = i * e.columns + j;
        const double probability = std::exp(logits_at[at] - max_at[i]) / sums_at[3 * i];
        const double target = (how.first_word + j == label ? 1 - how.smoothing : 0) + spread;
        dlogits_at[at] = label < 0 ? T{0} : static_cast<T>((probability - target) * scale);
      }
    }
  });
  return bill_cross_entropy_backward(dlogits, logits, max, sums, labels, counts);
}

}  // namespace quadrille
