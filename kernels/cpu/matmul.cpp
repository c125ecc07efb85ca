// SPDX-License-Identifier: Apache-2.0
// Products by oneDNN's sgemm (row-major). The output is cut into a grid of parts, one for each thread, and every thread
// calls sgemm on its own part: oneDNN's own split over threads lost a quarter to a third of the speed where the inner
// extent was long and b transposed (2048 x 384, inner 8192: 65 % of the peak of two cores, 87 % this way) and won
// nowhere (two cores, Zen 4). The bias is added by the same thread in a pass of its own: on one core that reached 88 to
// 92 % of the peak, the matmul primitive with fused bias 86 to 90 %; only with b transposed was the primitive ahead at
// times (88 against 82 % at 2048 x 384, inner 1152), too little for a second way.
#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/slice.h"
#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/numbers.h"
#include "kernels/cpu/ops.h"

namespace quadrille {

namespace {

struct Product {
  float* out;
  const float *a, *b, *bias;
  std::int64_t m, n, k;
  Matmul how;
};

// The part of `out` in these rows and columns. False when oneDNN refuses.
bool multiply(const Product& p, Slice rows, Slice columns) noexcept {
  if (rows.count == 0 || columns.count == 0) return true;
  const bool a_turned = p.how.a == Transpose::yes, b_turned = p.how.b == Transpose::yes;
  const float* a = p.a + (a_turned ? rows.first : rows.first * p.k);
  const float* b = p.b + (b_turned ? columns.first * p.k : columns.first);
  float* out = p.out + rows.first * p.n + columns.first;
  const float beta = p.how.write == Write::accumulate ? 1.0f : 0.0f;
  const dnnl_status_t status = dnnl_sgemm(a_turned ? 'T' : 'N', b_turned ? 'T' : 'N', rows.count, columns.count, p.k,
                                          1.0f, a, a_turned ? p.m : p.k, b, b_turned ? p.k : p.n, beta, out, p.n);
  if (p.bias)
    for (std::int64_t i = 0; i < rows.count; ++i)
      element_loops().add(out + i * p.n, out + i * p.n, p.bias + columns.first, columns.count);
  return status == dnnl_success;
}

// Of all grids with that many parts the one that reads least: every part reads its rows of a and its columns of b.
int grid_rows(const Product& p, int threads) {
  int best = 1;
  double least = 0;
  for (int rows = 1; rows <= threads; ++rows) {
    if (threads % rows != 0) continue;
    const int columns = threads / rows;
    const double read = static_cast<double>(p.m) / rows + static_cast<double>(p.n) / columns;
    if (rows == 1 || read < least) best = rows, least = read;
  }
  return best;
}

// An inner extent of zero: a sum of nothing.
void fill_empty(const Product& p) {
  for (std::int64_t i = 0; i < p.m; ++i) {
    float* row = p.out + i * p.n;
    if (p.how.write == Write::replace) std::fill(row, row + p.n, 0.0f);
    if (p.bias) element_loops().add(row, row, p.bias, p.n);
  }
}

constexpr double kSerialProducts = 1 << 17;  // multiply-adds that one core does in about 3 µs

}  // namespace

Cost CpuOps::matmul(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                    const Matmul& how) const {
  const MatmulExtents e = check_matmul(stream, out, a, b, bias, how);
  const Product p{floats(out), floats(a), floats(b), floats(bias), e.m, e.n, e.k, how};
  const int threads = omp_get_max_threads();
  bool done = true;
  if (p.k == 0) {
    fill_empty(p);
  } else if (threads == 1 ||
             static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) <= kSerialProducts) {
    done = multiply(p, {0, p.m}, {0, p.n});
  } else {
    const int rows = grid_rows(p, threads), columns = threads / rows;
#pragma omp parallel for schedule(static, 1) reduction(&& : done)
    for (int i = 0; i < threads; ++i)
      done = multiply(p, part({0, p.m}, rows, i / columns), part({0, p.n}, columns, i % columns)) && done;
  }
  require(done, "oneDNN refused a product of {} x {} x {}", p.m, p.n, p.k);
  return bill_matmul(out, a, b, bias, how);
}

}  // namespace quadrille
