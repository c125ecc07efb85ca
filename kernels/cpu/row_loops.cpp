// SPDX-License-Identifier: Apache-2.0
// Loops over one row of features or logits: norms and cross-entropy. Sums that decide a whole row are kept in double.
#include "kernels/cpu/loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_loops.cpp"
#include <hwy/foreach_target.h>  // compiles this file once for each instruction set
#include <hwy/highway.h>
#include "kernels/cpu/exponential-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Whole = hn::ScalableTag<float>;
using Single = hn::CappedTag<float, 1>;
using Doubles = hn::ScalableTag<double>;
using Halves = hn::Rebind<float, Doubles>;  // as many floats as a vector holds doubles

template <class D>
std::int64_t lanes(D d) {
  return static_cast<std::int64_t>(hn::Lanes(d));
}
template <class D>
double sum_of(D d, hn::Vec<D> v) {
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, v)));
}
// Of floats: added in double.
double exact_sum_of(hn::Vec<Whole> v) {
  HWY_ALIGN float values[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, Whole(), values);
  double sum = 0;
  for (std::int64_t i = 0; i < lanes(Whole()); ++i) sum += static_cast<double>(values[i]);
  return sum;
}

void sums(double result[2], const float* x, std::int64_t n) noexcept {
  const Doubles dd;
  const Halves dh;
  auto sum = hn::Zero(dd), squares = hn::Zero(dd);
  std::int64_t i = 0;
  for (; i + lanes(dd) <= n; i += lanes(dd)) {
    const auto v = hn::PromoteTo(dd, hn::LoadU(dh, x + i));
    sum = hn::Add(sum, v);
    squares = hn::MulAdd(v, v, squares);
  }
  result[0] = sum_of(dd, sum), result[1] = sum_of(dd, squares);
  for (; i < n; ++i) {
    const auto v = static_cast<double>(x[i]);
    result[0] += v, result[1] += v * v;
  }
}

template <class D>
HWY_INLINE hn::Vec<D> standardised(D d, const float* x, Standardise s) {
  return hn::Mul(hn::Sub(hn::LoadU(d, x), hn::Set(d, s.mean)), hn::Set(d, s.scale));
}

template <class D>
std::int64_t norm_run(D d, float* out, const float* x, const float* gain, const float* bias, Standardise s,
                      std::int64_t i, std::int64_t n) {
  for (; i + lanes(d) <= n; i += lanes(d)) {
    const auto scaled = hn::Mul(standardised(d, x + i, s), hn::LoadU(d, gain + i));
    hn::StoreU(bias ? hn::Add(scaled, hn::LoadU(d, bias + i)) : scaled, d, out + i);
  }
  return i;
}
void norm(float* out, const float* x, const float* gain, const float* bias, Standardise s, std::int64_t n) noexcept {
  norm_run(Single(), out, x, gain, bias, s, norm_run(Whole(), out, x, gain, bias, s, 0, n), n);
}

void norm_backward_sums(double result[2], const float* dy, const float* x, const float* gain, Standardise s,
                        std::int64_t n) noexcept {
  const Doubles dd;
  const Halves dh;
  auto sum = hn::Zero(dd), products = hn::Zero(dd);
  std::int64_t i = 0;
  for (; i + lanes(dd) <= n; i += lanes(dd)) {
    const auto g = hn::PromoteTo(dd, hn::Mul(hn::LoadU(dh, dy + i), hn::LoadU(dh, gain + i)));
    sum = hn::Add(sum, g);
    products = hn::MulAdd(g, hn::PromoteTo(dd, standardised(dh, x + i, s)), products);
  }
  result[0] = sum_of(dd, sum), result[1] = sum_of(dd, products);
  for (; i < n; ++i) {
    const auto g = static_cast<double>(dy[i] * gain[i]);
    result[0] += g, result[1] += g * static_cast<double>((x[i] - s.mean) * s.scale);
  }
}

// In double: for narrow rows the three terms nearly cancel.
template <class DD>
std::int64_t norm_backward_run(DD dd, float* dx, const float* dy, const float* x, const float* gain,
                               const NormSlopes& s, bool accumulate, std::int64_t i, std::int64_t n) {
  const hn::Rebind<float, DD> df;
  const auto mean = hn::Set(dd, s.mean), scale = hn::Set(dd, s.scale), shift = hn::Set(dd, s.shift),
             slope = hn::Set(dd, s.slope);
  const auto wide = [&](const float* from) HWY_ATTR { return hn::PromoteTo(dd, hn::LoadU(df, from)); };
  for (; i + lanes(dd) <= n; i += lanes(dd)) {
    const auto g = hn::MulSub(wide(dy + i), wide(gain + i), shift);
    const auto normalised = hn::Mul(hn::Sub(wide(x + i), mean), scale);
    const auto change = hn::Mul(scale, hn::NegMulAdd(slope, normalised, g));
    hn::StoreU(hn::DemoteTo(df, accumulate ? hn::Add(change, wide(dx + i)) : change), df, dx + i);
  }
  return i;
}
void norm_backward(float* dx, const float* dy, const float* x, const float* gain, const NormSlopes& s, bool accumulate,
                   std::int64_t n) noexcept {
  const auto done = norm_backward_run(Doubles(), dx, dy, x, gain, s, accumulate, 0, n);
  norm_backward_run(hn::CappedTag<double, 1>(), dx, dy, x, gain, s, accumulate, done, n);
}

template <class D>
std::int64_t norm_parameters_run(D d, float* dgain, float* dbias, const float* dy, const float* x, Standardise s,
                                 std::int64_t i, std::int64_t n) {
  for (; i + lanes(d) <= n; i += lanes(d)) {
    const auto y = hn::LoadU(d, dy + i);
    if (dgain) hn::StoreU(hn::MulAdd(y, standardised(d, x + i, s), hn::LoadU(d, dgain + i)), d, dgain + i);
    if (dbias) hn::StoreU(hn::Add(y, hn::LoadU(d, dbias + i)), d, dbias + i);
  }
  return i;
}
void norm_parameters(float* dgain, float* dbias, const float* dy, const float* x, Standardise s,
                     std::int64_t n) noexcept {
  norm_parameters_run(Single(), dgain, dbias, dy, x, s, norm_parameters_run(Whole(), dgain, dbias, dy, x, s, 0, n), n);
}

void add_to_double(double* sums, const float* x, std::int64_t n) noexcept {
  const Doubles dd;
  std::int64_t i = 0;
  for (; i + lanes(dd) <= n; i += lanes(dd))
    hn::StoreU(hn::Add(hn::LoadU(dd, sums + i), hn::PromoteTo(dd, hn::LoadU(Halves(), x + i))), dd, sums + i);
  for (; i < n; ++i) sums[i] += static_cast<double>(x[i]);
}

float max(const float* x, std::int64_t n) noexcept {
  const Whole d;
  float result = x[0];
  std::int64_t i = 0;
  if (n >= lanes(d)) {
    auto best = hn::LoadU(d, x);
    for (i = lanes(d); i + lanes(d) <= n; i += lanes(d)) best = hn::Max(best, hn::LoadU(d, x + i));
    result = hn::GetLane(hn::MaxOfLanes(d, best));
  }
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

// Floats are added in the vector for at most kBlock elements, then in double.
void exponential_sums(double result[2], const float* x, float max, std::int64_t n) noexcept {
  constexpr std::int64_t kBlock = 1024;
  const Whole d;
  const auto most = hn::Set(d, max);
  result[0] = result[1] = 0;
  std::int64_t i = 0;
  while (i + lanes(d) <= n) {
    const std::int64_t end = i + kBlock < n ? i + kBlock : n;
    auto exponentials = hn::Zero(d), sum = hn::Zero(d);
    for (; i + lanes(d) <= end; i += lanes(d)) {
      const auto v = hn::LoadU(d, x + i);
      exponentials = hn::Add(exponentials, exp_nonpositive(d, hn::Sub(v, most)));
      sum = hn::Add(sum, v);
    }
    result[0] += exact_sum_of(exponentials), result[1] += exact_sum_of(sum);
  }
  for (const Single one; i < n; ++i) {
    result[0] += static_cast<double>(hn::GetLane(exp_nonpositive(one, hn::Set(one, x[i] - max))));
    result[1] += static_cast<double>(x[i]);
  }
}

template <class D>
std::int64_t softmax_gradient_run(D d, float* out, const float* x, float max, float scale, float less, std::int64_t i,
                                  std::int64_t n) {
  for (; i + lanes(d) <= n; i += lanes(d)) {
    const auto e = exp_nonpositive(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, max)));
    hn::StoreU(hn::MulSub(e, hn::Set(d, scale), hn::Set(d, less)), d, out + i);
  }
  return i;
}
void softmax_gradient(float* out, const float* x, float max, float scale, float less, std::int64_t n) noexcept {
  softmax_gradient_run(Single(), out, x, max, scale, less,
                       softmax_gradient_run(Whole(), out, x, max, scale, less, 0, n), n);
}

const RowLoops* table() {
  static constexpr RowLoops loops{sums,          norm, norm_backward_sums, norm_backward,   norm_parameters,
                                  add_to_double, max,  exponential_sums,   softmax_gradient};
  return &loops;
}

}  // namespace
}  // namespace quadrille::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille {
HWY_EXPORT(table);
const RowLoops& row_loops() { return *HWY_DYNAMIC_DISPATCH(table)(); }
}  // namespace quadrille
#endif
