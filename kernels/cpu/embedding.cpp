// SPDX-License-Identifier: Apache-2.0
// Rows of a table by id, and back. Threads share the columns in the backward pass: each adds all rows in order, so
// there are no atomics and one result.
#include <algorithm>
#include <array>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace quadrille {

Cost CpuOps::positions(Stream& stream, const Tensor& ids, std::int64_t first, const Jump& jump) const {
  const Extents e = check_positions(stream, ids, first, jump);
  const auto numbers = ids.host<std::int32_t>();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<std::int32_t>(position_of(first, jump, static_cast<std::int64_t>(i) % e.columns));
  return bill_positions(ids);
}

// The sinusoids of a token are computed once for all rows, a few features at a time.
Cost CpuOps::sinusoids(Stream& stream, const Tensor& out, const Tensor& x, const Sinusoids& how) const {
  check_sinusoids(stream, out, x, how);
  const std::int64_t rows = x.shape()[0], tokens = x.shape()[1], features = x.shape()[2];
  const auto factor = static_cast<float>(how.factor);
  parallel_parts(tokens, x.count(), 1, [=, &how, to = floats(out), from = floats(x)](Slice s) noexcept {
    std::array<float, 64> added{};
    constexpr auto kAtOnce = static_cast<std::int64_t>(added.size());
    for (std::int64_t t = s.first; t < s.end(); ++t)
      for (std::int64_t f = 0; f < features; f += kAtOnce) {
        const std::int64_t count = std::min(kAtOnce, features - f),
                           position = position_of(how.first_token, how.jump, t);
        for (std::int64_t k = 0; how.amplitude != 0 && k < count; ++k)
          added[static_cast<std::size_t>(k)] =
              static_cast<float>(how.amplitude * sinusoid_at(position, how.first_feature + f + k, how.features));
        for (std::int64_t b = 0; b < rows; ++b) {
          const std::int64_t at = (b * tokens + t) * features + f;
          for (std::int64_t k = 0; k < count; ++k)
            to[at + k] = factor * from[at + k] + added[static_cast<std::size_t>(k)];
        }
      }
  });
  return bill_sinusoids(out, x);
}

Cost CpuOps::row_lengths(Stream& stream, const Tensor& lengths, const Tensor& ids) const {
  const Extents e = check_row_lengths(stream, lengths, ids);
  parallel_parts(
      e.rows, ids.count(), 1, [e, to = lengths.host<std::int32_t>().data(), id = integers(ids)](Slice s) noexcept {
        for (std::int64_t i = s.first; i < s.end(); ++i)
          to[i] = static_cast<std::int32_t>(
              std::count_if(id + i * e.columns, id + (i + 1) * e.columns, [](std::int32_t word) { return word >= 0; }));
      });
  return bill_row_lengths(lengths, ids);
}

Cost CpuOps::rows_of_places(Stream& stream, const Tensor& rows, const Tensor& places, std::int64_t tokens,
                            std::int64_t first, const Jump& jump) const {
  const Extents e = check_rows_of_places(stream, rows, places, tokens, first, jump);
  const auto to = rows.host<std::int32_t>(), from = places.host<std::int32_t>();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::int64_t token = token_at(first, jump, tokens, from[i]), row = static_cast<std::int64_t>(i) / e.columns;
    to[i] = token < 0 ? -1 : static_cast<std::int32_t>(row * tokens + token);
  }
  return bill_rows_of_places(rows, places);
}

Cost CpuOps::embedding(Stream& stream, const Tensor& out, const Tensor& table, const Tensor& ids,
                       std::int64_t first_row) const {
  const Extents e = check_embedding(stream, out, table, ids, first_row);
  const std::int64_t held = table.shape()[0];
  parallel_parts(e.rows, e.rows * e.columns, 1,
                 [=, to = floats(out), from = floats(table), id = integers(ids)](Slice s) noexcept {
                   for (std::int64_t i = s.first; i < s.end(); ++i) {
                     const std::int64_t row = id[i] - first_row;
                     if (row >= 0 && row < held)
                       std::copy_n(from + row * e.columns, e.columns, to + i * e.columns);
                     else
                       std::fill_n(to + i * e.columns, e.columns, 0.0f);
                   }
                 });
  return bill_embedding(out, table, ids);
}

Cost CpuOps::embedding_backward(Stream& stream, const Tensor& dtable, const Tensor& dout, const Tensor& ids,
                                std::int64_t first_row) const {
  const Extents e = check_embedding_backward(stream, dtable, dout, ids, first_row);
  const std::int64_t held = dtable.shape()[0];
  parallel_parts(
      e.columns, e.rows * e.columns, 16,
      [=, loop = element_loops().add, to = floats(dtable), from = floats(dout), id = integers(ids)](Slice s) noexcept {
        for (std::int64_t i = 0; i < e.rows; ++i) {
          const std::int64_t row = id[i] - first_row;
          if (row < 0 || row >= held) continue;
          float* at = to + row * e.columns + s.first;
          loop(at, at, from + i * e.columns + s.first, s.count);
        }
      });
  return bill_embedding_backward(dtable, dout, ids);
}

}  // namespace quadrille
