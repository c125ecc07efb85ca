// SPDX-License-Identifier: Apache-2.0
// Sums over all rows, one for each column: bias gradients and the parameters of norms. Threads share the columns, so
// the order of every sum is fixed: floats within a band of rows, bands in double.
#pragma once

#include <algorithm>
#include <array>

#include "kernels/checks.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel.h"

namespace quadrille {

// to[i][column] += Σ over rows; add(sums, row, columns) adds one row's terms to sums[i][0 .. columns.count). Null
// destinations are left out, and null in `sums` as well.
template <std::size_t N, class Add>
void add_column_sums(const Extents& e, const std::array<float*, N>& to, Add&& add) {
  constexpr std::int64_t kBand = 64, kColumns = 512;
  parallel_parts(e.columns, e.rows * e.columns, 16, [&](Slice mine) noexcept {
    alignas(64) float floats[N][kColumns];
    alignas(64) double totals[N][kColumns];
    for (std::int64_t first = mine.first; first < mine.end(); first += kColumns) {
      const Slice columns{first, std::min(kColumns, mine.end() - first)};
      std::array<float*, N> sums;
      for (std::size_t i = 0; i < N; ++i) {
        sums[i] = to[i] ? floats[i] : nullptr;
        std::fill_n(totals[i], columns.count, 0.0);
      }
      for (std::int64_t row = 0; row < e.rows;) {
        for (std::size_t i = 0; i < N; ++i) std::fill_n(floats[i], columns.count, 0.0f);
        for (const std::int64_t end = std::min(row + kBand, e.rows); row < end; ++row) add(sums, row, columns);
        for (std::size_t i = 0; i < N; ++i) row_loops().add_to_double(totals[i], floats[i], columns.count);
      }
      for (std::size_t i = 0; i < N; ++i)
        for (std::int64_t j = 0; j < columns.count && to[i]; ++j)
          to[i][first + j] = static_cast<float>(static_cast<double>(to[i][first + j]) + totals[i][j]);
    }
  });
}

}  // namespace quadrille
