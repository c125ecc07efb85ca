// SPDX-License-Identifier: Apache-2.0
// Convolutions and max pooling of the reference, as they read.
#include <cmath>
#include <vector>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/ops.h"

namespace quadrille {

namespace {

// visit(output pixel, input pixel, tap) for every cell of every window that lies inside the image, pixels counted over
// all images, in the order of outputs and then of taps.
template <class Visit>
void for_each_cell(const ConvExtents& e, const Conv& how, Visit&& visit) {
  for (std::int64_t b = 0; b < e.rows; ++b)
    for (std::int64_t i = 0; i < e.out_height; ++i)
      for (std::int64_t j = 0; j < e.out_width; ++j)
        for (std::int64_t k = 0; k < how.kernel_h * how.kernel_w; ++k) {
          const std::int64_t y = i * how.stride - how.pad_top + k / how.kernel_w;
          const std::int64_t x = j * how.stride - how.pad_left + k % how.kernel_w;
          if (y < 0 || y >= e.in_height || x < 0 || x >= e.in_width) continue;
          visit((b * e.out_height + i) * e.out_width + j, (b * e.in_height + y) * e.in_width + x, k);
        }
}

// Sums are made in double, then stored.
template <class T>
void store(const Tensor& to, const std::vector<double>& sums, Write write) {
  T* out = numbers<T>(to);
  for (std::size_t i = 0; i < sums.size(); ++i)
    out[i] = static_cast<T>(write == Write::accumulate ? sums[i] + static_cast<double>(out[i]) : sums[i]);
}

std::vector<double> zeros(const Tensor& like) { return std::vector<double>(static_cast<std::size_t>(like.count())); }
double* at(std::vector<double>& v, std::int64_t i) { return v.data() + i; }

}  // namespace

Cost ReferenceOps::conv(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Conv& how) const {
  const ConvExtents e = check_conv(stream, out, x, w, how);
  with_type_of(x, [&]<class T>(T) {
    std::vector<double> sums = zeros(out);
    for_each_cell(e, how, [&](std::int64_t o, std::int64_t i, std::int64_t tap) {
      const T *from = numbers<T>(x) + i * e.in, *weight = numbers<T>(w) + tap * e.in * e.out;
      double* to = at(sums, o * e.out);
      for (std::int64_t c = 0; c < e.in; ++c)
        for (std::int64_t f = 0; f < e.out; ++f)
          to[f] += static_cast<double>(from[c]) * static_cast<double>(weight[c * e.out + f]);
    });
    store<T>(out, sums, Write::replace);
  });
  return bill_conv(out, x, w, how);
}

Cost ReferenceOps::conv_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                       const Conv& how, Write write) const {
  const ConvExtents e = check_conv_backward_input(stream, dx, dy, w, how, write);
  with_type_of(dy, [&]<class T>(T) {
    std::vector<double> sums = zeros(dx);
    for_each_cell(e, how, [&](std::int64_t o, std::int64_t i, std::int64_t tap) {
      const T *from = numbers<T>(dy) + o * e.out, *weight = numbers<T>(w) + tap * e.in * e.out;
      double* to = at(sums, i * e.in);
      for (std::int64_t c = 0; c < e.in; ++c)
        for (std::int64_t f = 0; f < e.out; ++f)
          to[c] += static_cast<double>(from[f]) * static_cast<double>(weight[c * e.out + f]);
    });
    store<T>(dx, sums, write);
  });
  return bill_conv_backward_input(dx, dy, w, how, write);
}

Cost ReferenceOps::conv_backward_weight(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x,
                                        const Conv& how, Write write) const {
  const ConvExtents e = check_conv_backward_weight(stream, dw, dy, x, how, write);
  with_type_of(dy, [&]<class T>(T) {
    std::vector<double> sums = zeros(dw);
    for_each_cell(e, how, [&](std::int64_t o, std::int64_t i, std::int64_t tap) {
      const T *from = numbers<T>(dy) + o * e.out, *seen = numbers<T>(x) + i * e.in;
      double* to = at(sums, tap * e.in * e.out);
      for (std::int64_t c = 0; c < e.in; ++c)
        for (std::int64_t f = 0; f < e.out; ++f)
          to[c * e.out + f] += static_cast<double>(seen[c]) * static_cast<double>(from[f]);
    });
    store<T>(dw, sums, write);
  });
  return bill_conv_backward_weight(dw, dy, x, how, write);
}

namespace {

// For every output number the place of the first largest of its window; -1 where it sees no cell.
template <class T>
std::vector<std::int64_t> first_largest(const ConvExtents& e, const Tensor& x, const Conv& how, std::int64_t outputs) {
  std::vector<std::int64_t> place(static_cast<std::size_t>(outputs), -1);
  const T* from = numbers<T>(x);
  for_each_cell(e, how, [&](std::int64_t o, std::int64_t i, std::int64_t) {
    for (std::int64_t c = 0; c < e.in; ++c) {
      std::int64_t& best = place[static_cast<std::size_t>(o * e.out + c)];
      const T v = from[i * e.in + c];
      if (best < 0 || v > from[best] || std::isnan(v)) best = i * e.in + c;
    }
  });
  return place;
}

}  // namespace

Cost ReferenceOps::max_pool(Stream& stream, const Tensor& out, const Tensor& x, const Conv& how) const {
  const ConvExtents e = check_max_pool(stream, out, x, how);
  with_type_of(x, [&]<class T>(T) {
    const auto place = first_largest<T>(e, x, how, out.count());
    for (std::size_t o = 0; o < place.size(); ++o) numbers<T>(out)[o] = numbers<T>(x)[place[o]];
  });
  return bill_max_pool(out, x);
}

Cost ReferenceOps::max_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                     const Conv& how) const {
  const ConvExtents e = check_max_pool_backward(stream, dx, dy, x, how);
  with_type_of(x, [&]<class T>(T) {
    const auto place = first_largest<T>(e, x, how, dy.count());
    std::vector<double> sums = zeros(dx);
    for (std::size_t o = 0; o < place.size(); ++o) *at(sums, place[o]) += static_cast<double>(numbers<T>(dy)[o]);
    store<T>(dx, sums, Write::replace);
  });
  return bill_max_pool_backward(dx, dy, x);
}

}  // namespace quadrille
