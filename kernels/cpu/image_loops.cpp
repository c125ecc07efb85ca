// SPDX-License-Identifier: Apache-2.0
// Loops over rows of channels: batch norm, ReLU, pooling. Rows are taken inside, because they may be as short as 16.
#include "kernels/cpu/loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/image_loops.cpp"
#include <hwy/foreach_target.h>  // compiles this file once for each instruction set
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace quadrille::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Whole = hn::ScalableTag<float>;
using Single = hn::CappedTag<float, 1>;
using Doubles = hn::ScalableTag<double>;
using SingleDouble = hn::CappedTag<double, 1>;

template <class D>
std::int64_t lanes(D d) {
  return static_cast<std::int64_t>(hn::Lanes(d));
}

// run(tag, i) for vectors of channels [i, i + lanes), then for single ones.
template <class Vectors, class Singles, class Run>
HWY_INLINE void over(std::int64_t n, Run&& run) {
  std::int64_t i = 0;
  for (; i + lanes(Vectors()) <= n; i += lanes(Vectors())) run(Vectors(), i);
  for (; i < n; ++i) run(Singles(), i);
}

// The gradient that passes back through the ReLU.
template <class D>
HWY_INLINE hn::Vec<D> through(D d, const float* dy, const float* out) {
  const auto g = hn::LoadU(d, dy);
  return out ? hn::IfThenElseZero(hn::Gt(hn::LoadU(d, out), hn::Zero(d)), g) : g;
}

// What is not a number stays what it is.
template <class D>
HWY_INLINE hn::Vec<D> rectified(D d, hn::Vec<D> v) {
  return hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Zero(d), v);
}

void sums(double* sum, double* squares, const float* x, std::int64_t rows, std::int64_t n) noexcept {
  over<Doubles, SingleDouble>(n, [&](auto dd, std::int64_t i) HWY_ATTR {
    const hn::Rebind<float, decltype(dd)> df;
    auto s = hn::LoadU(dd, sum + i), q = hn::LoadU(dd, squares + i);
    const float* from = x + i;
    for (std::int64_t r = 0; r < rows; ++r, from += n) {
      const auto v = hn::PromoteTo(dd, hn::LoadU(df, from));
      s = hn::Add(s, v);
      q = hn::MulAdd(v, v, q);
    }
    hn::StoreU(s, dd, sum + i);
    hn::StoreU(q, dd, squares + i);
  });
}

void norm(float* out, const float* x, const float* mean, const float* scale, const float* bias, bool relu,
          std::int64_t rows, std::int64_t n) noexcept {
  for (std::int64_t r = 0; r < rows; ++r, out += n, x += n)
    over<Whole, Single>(n, [&](auto d, std::int64_t i) HWY_ATTR {
      auto v = hn::MulAdd(hn::Sub(hn::LoadU(d, x + i), hn::LoadU(d, mean + i)), hn::LoadU(d, scale + i),
                          hn::LoadU(d, bias + i));
      if (relu) v = rectified(d, v);
      hn::StoreU(v, d, out + i);
    });
}

void backward_sums(double* sum, double* products, const float* dy, const float* x, const float* out, const float* mean,
                   std::int64_t rows, std::int64_t n) noexcept {
  over<Doubles, SingleDouble>(n, [&](auto dd, std::int64_t i) HWY_ATTR {
    const hn::Rebind<float, decltype(dd)> df;
    auto s = hn::LoadU(dd, sum + i), p = hn::LoadU(dd, products + i);
    const auto centre = hn::LoadU(df, mean + i);
    std::int64_t at = i;
    for (std::int64_t r = 0; r < rows; ++r, at += n) {
      const auto g = hn::PromoteTo(dd, through(df, dy + at, out ? out + at : nullptr));
      s = hn::Add(s, g);
      p = hn::MulAdd(g, hn::PromoteTo(dd, hn::Sub(hn::LoadU(df, x + at), centre)), p);
    }
    hn::StoreU(s, dd, sum + i);
    hn::StoreU(p, dd, products + i);
  });
}

void backward(float* dx, const float* dy, const float* x, const float* out, const float* mean, const float* scale,
              const float* slope, const float* shift, bool accumulate, std::int64_t rows, std::int64_t n) noexcept {
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t row = r * n;
    over<Whole, Single>(n, [&](auto d, std::int64_t i) HWY_ATTR {
      const std::int64_t at = row + i;
      const auto g = through(d, dy + at, out ? out + at : nullptr);
      const auto centred = hn::Sub(hn::LoadU(d, x + at), hn::LoadU(d, mean + i));
      auto v =
          hn::MulAdd(hn::LoadU(d, scale + i), g, hn::MulAdd(hn::LoadU(d, slope + i), centred, hn::LoadU(d, shift + i)));
      if (accumulate) v = hn::Add(v, hn::LoadU(d, dx + at));
      hn::StoreU(v, d, dx + at);
    });
  }
}

void add_relu(float* out, const float* a, const float* b, std::int64_t n) noexcept {
  over<Whole, Single>(n, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(rectified(d, hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i))), d, out + i);
  });
}

void relu_backward(float* dx, const float* dy, const float* out, std::int64_t n) noexcept {
  over<Whole, Single>(n, [&](auto d, std::int64_t i) HWY_ATTR { hn::StoreU(through(d, dy + i, out + i), d, dx + i); });
}

void take_larger(float* out, const float* x, std::int64_t n) noexcept {
  over<Whole, Single>(n, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto best = hn::LoadU(d, out + i), v = hn::LoadU(d, x + i);
    hn::StoreU(hn::IfThenElse(hn::Or(hn::Gt(v, best), hn::IsNaN(v)), v, best), d, out + i);
  });
}

constexpr ChannelLoops kLoops{sums, norm, backward_sums, backward, add_relu, relu_backward, take_larger};

}  // namespace
const ChannelLoops* channel_loops_table() { return &kLoops; }
}  // namespace quadrille::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille {
HWY_EXPORT(channel_loops_table);
const ChannelLoops& channel_loops() { return *HWY_DYNAMIC_DISPATCH(channel_loops_table)(); }
}  // namespace quadrille
#endif
