// SPDX-License-Identifier: Apache-2.0
// Convolutions on NHWC as products: the windows of a block of output pixels are laid out as rows of a small matrix in
// scratch memory, which stays in the cache, and oneDNN's sgemm does the rest. A 1x1 of stride 1 is a product as it
// lies. Forward is cut into blocks of output pixels, the input gradient into images, so that no two threads add to one
// pixel, and the weight gradient into the weight's rows, so that no two add to one weight.
#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/error.h"
#include "core/slice.h"
#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"

namespace quadrille {

namespace {

constexpr std::int64_t kScratch = std::int64_t{1} << 18;  // floats of a thread: half of a usual second-level cache
constexpr std::int64_t kLeastPixels = 32, kMostPixels = 4096;

// A window's cells, row by row, are the columns of the small matrix: kernel_h runs of kernel_w·in floats, each of which
// lies in one piece in the image but for the padding.
struct Windows {
  ConvExtents e;
  Conv how;
  std::int64_t run() const { return how.kernel_w * e.in; }
  std::int64_t columns() const { return how.kernel_h * run(); }
  std::int64_t pixels() const { return e.rows * e.out_pixels(); }
  // Output pixels at a time, for so many of the columns.
  std::int64_t block(std::int64_t columns) const {
    return std::clamp(kScratch / std::max<std::int64_t>(columns, 1), kLeastPixels, kMostPixels);
  }
};

// visit(offset in the row, offset in the image's floats, count) for the pieces of the columns `wanted` that lie inside
// the image; `gap(offset, count)` for what lies in the padding.
template <class Visit, class Gap>
void for_each_piece(const Windows& w, std::int64_t i, std::int64_t j, Slice wanted, Visit&& visit, Gap&& gap) {
  const std::int64_t run = w.run(), in = w.e.in;
  const std::int64_t left = j * w.how.stride - w.how.pad_left;
  const std::int64_t inside = std::clamp<std::int64_t>(-left, 0, w.how.kernel_w) * in,
                     outside = std::clamp<std::int64_t>(w.e.in_width - left, 0, w.how.kernel_w) * in;
  for (std::int64_t k = wanted.first / run; k * run < wanted.end(); ++k) {
    const std::int64_t first = std::max(wanted.first - k * run, std::int64_t{0}),
                       end = std::min(wanted.end() - k * run, run);
    const std::int64_t to = k * run - wanted.first, y = i * w.how.stride - w.how.pad_top + k;
    const bool here = y >= 0 && y < w.e.in_height;
    const std::int64_t from = here ? std::clamp(inside, first, end) : end,
                       until = here ? std::clamp(outside, from, end) : end;
    if (from > first) gap(to + first, from - first);
    if (until > from) visit(to + from, (y * w.e.in_width + left) * in + from, until - from);
    if (end > until) gap(to + until, end - until);
  }
}

// Rows of the small matrix for the output pixels [pixels), counted over all images.
void lay_out(const Windows& w, float* to, const float* images, Slice pixels, Slice columns) noexcept {
  const std::int64_t of_image = w.e.out_pixels(), step = w.e.in_pixels() * w.e.in;
  for (std::int64_t p = pixels.first; p < pixels.end(); ++p, to += columns.count) {
    const float* image = images + p / of_image * step;
    const std::int64_t at = p % of_image;
    for_each_piece(
        w, at / w.e.out_width, at % w.e.out_width, columns,
        [&](std::int64_t offset, std::int64_t from, std::int64_t n) {
          std::memcpy(to + offset, image + from, static_cast<std::size_t>(n) * sizeof(float));
        },
        [&](std::int64_t offset, std::int64_t n) { std::fill_n(to + offset, n, 0.0F); });
  }
}

// The reverse: adds the rows of pixels of one image to it.
void put_back(const Windows& w, float* image, const float* from, Slice pixels) noexcept {
  const auto add = element_loops().add;
  for (std::int64_t p = pixels.first; p < pixels.end(); ++p, from += w.columns())
    for_each_piece(
        w, p / w.e.out_width, p % w.e.out_width, {0, w.columns()},
        [&](std::int64_t offset, std::int64_t at, std::int64_t n) { add(image + at, image + at, from + offset, n); },
        [](std::int64_t, std::int64_t) {});
}

bool is_product(const Conv& how) {
  return how.kernel_h == 1 && how.kernel_w == 1 && how.stride == 1;  // then there are no pads
}
Tensor rows_of(const Tensor& t) { return t.reshaped({t.shape().count(0, 3), t.shape()[3]}); }
Tensor weight_of(const Tensor& w) { return w.reshaped({w.shape()[2], w.shape()[3]}); }

void require_done(bool done, const Windows& w) {
  require(done, "oneDNN refused a convolution of {} pixels, {} cells and {} channels", w.pixels(), w.columns(),
          w.e.out);
}

}  // namespace

std::int64_t scratch_of_windows(std::int64_t cells, std::int64_t threads) {
  return cells > 0 ? threads * std::max(kScratch, kLeastPixels * cells) : 0;
}

Cost CpuOps::conv(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Conv& how) const {
  const Windows windows{check_conv(stream, out, x, w, how), how};
  if (is_product(how) && out.count() > 0) {
    matmul(stream, rows_of(out), rows_of(x), weight_of(w), {}, {});
    return bill_conv(out, x, w, how);
  }
  const std::int64_t k = windows.columns(), n = windows.e.out, pixels = windows.pixels(),
                     threads = omp_get_max_threads();
  const std::int64_t block = std::clamp((pixels + threads - 1) / threads, std::int64_t{1}, windows.block(k));
  float* scratch = scratch_of_rank(threads, block * k);
  std::atomic<bool> done{true};
  parallel_items((pixels + block - 1) / block, pixels * k,
                 [&, to = floats(out), from = floats(x), weight = floats(w)](std::int64_t item, int thread) noexcept {
                   const Slice mine{item * block, std::min(block, pixels - item * block)};
                   float* small = scratch + thread * block * k;
                   lay_out(windows, small, from, mine, {0, k});
                   if (dnnl_sgemm('N', 'N', mine.count, n, k, 1.0F, small, k, weight, n, 0.0F, to + mine.first * n,
                                  n) != dnnl_success)
                     done = false;
                 });
  require_done(done, windows);
  return bill_conv(out, x, w, how);
}

Cost CpuOps::conv_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w, const Conv& how,
                                 Write write) const {
  const Windows windows{check_conv_backward_input(stream, dx, dy, w, how, write), how};
  if (is_product(how) && dx.count() > 0) {
    matmul(stream, rows_of(dx), rows_of(dy), weight_of(w), {}, {Transpose::no, Transpose::yes, write, false});
    return bill_conv_backward_input(dx, dy, w, how, write);
  }
  const std::int64_t k = windows.columns(), n = windows.e.out, pixels = windows.e.out_pixels(),
                     image = windows.e.in_pixels() * windows.e.in, threads = omp_get_max_threads();
  const std::int64_t block = std::clamp(pixels, std::int64_t{1}, windows.block(k));
  float* scratch = scratch_of_rank(threads, block * k);
  std::atomic<bool> done{true};
  parallel_items(windows.e.rows, windows.pixels() * k + dx.count(),
                 [&, to = floats(dx), from = floats(dy), weight = floats(w)](std::int64_t b, int thread) noexcept {
                   float* small = scratch + thread * block * k;
                   if (write == Write::replace) std::fill_n(to + b * image, image, 0.0F);
                   for (std::int64_t first = 0; first < pixels; first += block) {
                     const Slice mine{first, std::min(block, pixels - first)};
                     if (dnnl_sgemm('N', 'T', mine.count, k, n, 1.0F, from + (b * pixels + first) * n, n, weight, n,
                                    0.0F, small, k) != dnnl_success)
                       done = false;
                     put_back(windows, to + b * image, small, mine);
                   }
                 });
  require_done(done, windows);
  return bill_conv_backward_input(dx, dy, w, how, write);
}

Cost CpuOps::conv_backward_weight(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Conv& how,
                                  Write write) const {
  const Windows windows{check_conv_backward_weight(stream, dw, dy, x, how, write), how};
  if (is_product(how)) {
    matmul(stream, weight_of(dw), rows_of(x), rows_of(dy), {}, {Transpose::yes, Transpose::no, write, false});
    return bill_conv_backward_weight(dw, dy, x, how, write);
  }
  const std::int64_t k = windows.columns(), n = windows.e.out, pixels = windows.pixels(),
                     threads = omp_get_max_threads();
  if (write == Write::replace) stream.zero(dw);
  const std::int64_t parts = std::min(threads, k), widest = (k + parts - 1) / parts, block = windows.block(widest);
  float* scratch = scratch_of_rank(threads, block * widest);
  std::atomic<bool> done{true};
  parallel_items(parts, pixels * k,
                 [&, to = floats(dw), from = floats(dy), seen = floats(x)](std::int64_t item, int thread) noexcept {
                   const Slice mine = part({0, k}, parts, item);
                   float* small = scratch + thread * block * widest;
                   for (std::int64_t first = 0; first < pixels; first += block) {
                     const Slice now{first, std::min(block, pixels - first)};
                     lay_out(windows, small, seen, now, mine);
                     if (dnnl_sgemm('T', 'N', mine.count, n, now.count, 1.0F, small, mine.count, from + first * n, n,
                                    1.0F, to + mine.first * n, n) != dnnl_success)
                       done = false;
                   }
                 });
  require_done(done, windows);
  return bill_conv_backward_weight(dw, dy, x, how, write);
}

}  // namespace quadrille
