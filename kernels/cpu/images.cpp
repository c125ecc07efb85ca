// SPDX-License-Identifier: Apache-2.0
// ReLU, max pooling, sums over pixels.
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"

namespace quadrille {

namespace {

constexpr std::int64_t kLine = 16;  // floats of a cache line: threads do not share one

// visit(input pixel of the image) for the cells of a window that lie inside it.
template <class Visit>
void for_each_cell(const ConvExtents& e, const Conv& how, std::int64_t i, std::int64_t j, Visit&& visit) {
  const std::int64_t top = i * how.stride - how.pad_top, left = j * how.stride - how.pad_left;
  const std::int64_t bottom = std::min(top + how.kernel_h, e.in_height),
                     right = std::min(left + how.kernel_w, e.in_width);
  for (std::int64_t y = std::max<std::int64_t>(top, 0); y < bottom; ++y)
    for (std::int64_t x = std::max<std::int64_t>(left, 0); x < right; ++x) visit(y * e.in_width + x);
}

}  // namespace

Cost CpuOps::add_relu(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) const {
  check_add_relu(stream, out, a, b);
  parallel_parts(out.count(), out.count(), kLine, [to = floats(out), x = floats(a), y = floats(b)](Slice s) noexcept {
    channel_loops().add_relu(to + s.first, x + s.first, y + s.first, s.count);
  });
  return bill_add_relu(out, a, b);
}

Cost CpuOps::relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& out) const {
  check_relu_backward(stream, dx, dy, out);
  parallel_parts(out.count(), out.count(), kLine,
                 [to = floats(dx), d = floats(dy), made = floats(out)](Slice s) noexcept {
                   channel_loops().relu_backward(to + s.first, d + s.first, made + s.first, s.count);
                 });
  return bill_relu_backward(dx, dy, out);
}

Cost CpuOps::max_pool(Stream& stream, const Tensor& out, const Tensor& x, const Conv& how) const {
  const ConvExtents e = check_max_pool(stream, out, x, how);
  parallel_parts(e.rows * e.out_height, out.count() * how.kernel_h * how.kernel_w, 1,
                 [&, to = floats(out), from = floats(x)](Slice s) noexcept {
                   for (std::int64_t row = s.first; row < s.end(); ++row) {
                     const float* image = from + row / e.out_height * e.in_pixels() * e.in;
                     for (std::int64_t j = 0; j < e.out_width; ++j) {
                       float* best = to + (row * e.out_width + j) * e.in;
                       bool first = true;
                       for_each_cell(e, how, row % e.out_height, j, [&](std::int64_t pixel) {
                         if (std::exchange(first, false))
                           std::copy_n(image + pixel * e.in, e.in, best);
                         else
                           channel_loops().take_larger(best, image + pixel * e.in, e.in);
                       });
                     }
                   }
                 });
  return bill_max_pool(out, x);
}

Cost CpuOps::max_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                               const Conv& how) const {
  const ConvExtents e = check_max_pool_backward(stream, dx, dy, x, how);
  const std::int64_t of_image = e.in_pixels() * e.in;
  parallel_items(e.rows, dx.count(),
                 [&, to = floats(dx), d = floats(dy), from = floats(x)](std::int64_t b, int) noexcept {
                   float* image_gradient = to + b * of_image;
                   const float* image = from + b * of_image;
                   std::fill_n(image_gradient, of_image, 0.0F);
                   for (std::int64_t p = 0; p < e.out_pixels(); ++p)
                     for (std::int64_t c = 0; c < e.in; ++c) {
                       std::int64_t best = -1;
                       for_each_cell(e, how, p / e.out_width, p % e.out_width, [&](std::int64_t pixel) {
                         const float v = image[pixel * e.in + c];
                         if (best < 0 || v > image[best] || std::isnan(v)) best = pixel * e.in + c;
                       });
                       image_gradient[best] += d[(b * e.out_pixels() + p) * e.in + c];
                     }
                 });
  return bill_max_pool_backward(dx, dy, x);
}

Cost CpuOps::sum_pixels(Stream& stream, const Tensor& out, const Tensor& x, double scale) const {
  const PixelExtents e = check_sum_pixels(stream, out, x, scale);
  const std::int64_t n = e.channels, stride = (n + 7) / 8 * 8;
  auto* sums = reinterpret_cast<double*>(scratch_of_rank(omp_get_max_threads(), 2 * stride));
  parallel_items(e.rows, x.count(), [&, to = floats(out), from = floats(x)](std::int64_t b, int thread) noexcept {
    double* mine = sums + thread * stride;
    std::fill_n(mine, n, 0.0);
    for (std::int64_t p = 0; p < e.pixels; ++p) row_loops().add_to_double(mine, from + (b * e.pixels + p) * n, n);
    for (std::int64_t c = 0; c < n; ++c) to[b * n + c] = static_cast<float>(mine[c] * scale);
  });
  return bill_sum_pixels(out, x);
}

Cost CpuOps::spread_pixels(Stream& stream, const Tensor& dx, const Tensor& dy, double scale) const {
  const PixelExtents e = check_spread_pixels(stream, dx, dy, scale);
  parallel_parts(e.rows * e.pixels, dx.count(), 1,
                 [e, factor = static_cast<float>(scale), to = floats(dx), from = floats(dy)](Slice s) noexcept {
                   for (std::int64_t p = s.first; p < s.end(); ++p)
                     for (std::int64_t c = 0; c < e.channels; ++c)
                       to[p * e.channels + c] = from[p / e.pixels * e.channels + c] * factor;
                 });
  return bill_spread_pixels(dx, dy);
}

}  // namespace quadrille
