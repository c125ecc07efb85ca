// SPDX-License-Identifier: Apache-2.0
// Matrix products and the block mover of the reference.
#include <vector>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/ops.h"

namespace quadrille {

namespace {

// out += a' b' for one row i of out, in double. Strides say where the next row and the next column lie.
struct Strides {
  std::int64_t row = 0, column = 0;
};
template <class T>
void multiply_row(std::vector<double>& sums, const T* a, Strides by_a, const T* b, Strides by_b, std::int64_t i,
                  std::int64_t k) {
  const auto n = static_cast<std::int64_t>(sums.size());
  for (std::int64_t l = 0; l < k; ++l) {
    const double left = a[i * by_a.row + l * by_a.column];
    const T* right = b + l * by_b.row;
    if (by_b.column == 1)  // said apart because compilers then use vectors; the sums are the same
      for (std::int64_t j = 0; j < n; ++j) sums[static_cast<std::size_t>(j)] += left * static_cast<double>(right[j]);
    else
      for (std::int64_t j = 0; j < n; ++j)
        sums[static_cast<std::size_t>(j)] += left * static_cast<double>(right[j * by_b.column]);
  }
}

template <class T>
void move_runs(const Tensor& to, const Tensor& from, const BlockMove& how) {
  T* out = numbers<T>(to);
  const T* in = numbers<T>(from);
  for (std::int64_t o = 0; o < how.outer; ++o)
    for (std::int64_t r = 0; r < how.rows; ++r)
      for (std::int64_t i = 0; i < how.inner; ++i) {
        T& target = out[(o * how.out_rows + how.out_first + r) * how.inner + i];
        const T value = in[(o * how.in_rows + how.in_first + r) * how.inner + i];
        target = how.write == Write::accumulate ? target + value : value;
      }
}

}  // namespace

Cost ReferenceOps::matmul(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                          const Matmul& how) const {
  const MatmulExtents e = check_matmul(stream, out, a, b, bias, how);
  const Strides by_a = how.a == Transpose::yes ? Strides{1, e.m} : Strides{e.k, 1};
  const Strides by_b = how.b == Transpose::yes ? Strides{1, e.k} : Strides{e.n, 1};
  with_type_of(out, [&]<class T>(T) {
    T* to = numbers<T>(out);
    const T* added = numbers<T>(bias);
    for (std::int64_t i = 0; i < e.m; ++i) {
      std::vector<double> sums(static_cast<std::size_t>(e.n), 0.0);
      multiply_row(sums, numbers<T>(a), by_a, numbers<T>(b), by_b, i, e.k);
      for (std::int64_t j = 0; j < e.n; ++j) {
        double sum = sums[static_cast<std::size_t>(j)];
        if (added) sum += added[j];
        if (how.write == Write::accumulate) sum += to[i * e.n + j];
        to[i * e.n + j] = static_cast<T>(sum);
      }
    }
  });
  return bill_matmul(out, a, b, bias, how);
}

Cost ReferenceOps::move_block(Stream& stream, const Tensor& out, const Tensor& in, const BlockMove& how) const {
  check_move_block(stream, out, in, how);
  if (out.dtype() == DType::i32)
    move_runs<std::int32_t>(out, in, how);
  else
    with_type_of(out, [&]<class T>(T) { move_runs<T>(out, in, how); });
  return bill_move_block(out, how);
}

}  // namespace quadrille
