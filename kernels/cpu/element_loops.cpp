// SPDX-License-Identifier: Apache-2.0
// Element-wise loops. Each runs over whole vectors and then over single elements with the same code, so that the tail
// gets the same bits as the body and nothing outside the run is touched.
#include "kernels/cpu/loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/element_loops.cpp"
#include <hwy/foreach_target.h>  // compiles this file once for each instruction set
#include <hwy/highway.h>
#include "kernels/cpu/exponential-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Whole = hn::ScalableTag<float>;
using Single = hn::CappedTag<float, 1>;

// The upper tail of the normal distribution: density φ(a) and 1 - Φ(a) for a >= 0. The ratio of the two (Mills) is
// t times a polynomial in t = 1/(1 + 0.27 a), fitted by interpolation at Chebyshev nodes over a in [0, 14], relative
// error 3e-8. Small results keep their relative accuracy, which erf would lose.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V upper_tail(D d, V a, V& density) {
  density = hn::Mul(hn::Set(d, 0.398942280401432678f), exp_nonpositive(d, hn::Mul(hn::Mul(a, a), hn::Set(d, -0.5f))));
  const V t = hn::Div(hn::Set(d, 1.0f), hn::MulAdd(hn::Set(d, 0.27f), a, hn::Set(d, 1.0f)));
  V p = hn::MulAdd(t, hn::Set(d, 0.0729604998899875f), hn::Set(d, -0.3189486952874414f));
  p = hn::MulAdd(t, p, hn::Set(d, 0.42974810071899905f));
  p = hn::MulAdd(t, p, hn::Set(d, -0.17850681764650592f));
  p = hn::MulAdd(t, p, hn::Set(d, 0.27391733536545143f));
  p = hn::MulAdd(t, p, hn::Set(d, 0.1789884553962626f));
  p = hn::MulAdd(t, p, hn::Set(d, 0.25562687138297563f));
  p = hn::MulAdd(t, p, hn::Set(d, 0.26950917098525595f));
  p = hn::MulAdd(t, p, hn::Set(d, 0.2700192442636677f));
  return hn::Mul(hn::Mul(density, t), p);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V distribution(D d, V x, V& density) {  // Φ(x)
  const V tail = upper_tail(d, hn::Abs(x), density);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const V e = exp_nonpositive(d, hn::Neg(hn::Abs(x)));
  const V numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, hn::Set(d, 1.0f));
  return hn::Div(numerator, hn::Add(hn::Set(d, 1.0f), e));
}

template <class D>
std::int64_t add_run(D d, float* out, const float* a, const float* b, std::int64_t i, std::int64_t n) {
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + step <= n; i += step) hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  return i;
}
void add(float* out, const float* a, const float* b, std::int64_t n) noexcept {
  add_run(Single(), out, a, b, add_run(Whole(), out, a, b, 0, n), n);
}

template <class D>
std::int64_t gelu_run(D d, float* out, const float* x, std::int64_t i, std::int64_t n) {
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + step <= n; i += step) {
    const auto v = hn::LoadU(d, x + i);
    auto density = hn::Zero(d);
    hn::StoreU(hn::Mul(v, distribution(d, v, density)), d, out + i);
  }
  return i;
}
void gelu(float* out, const float* x, std::int64_t n) noexcept {
  gelu_run(Single(), out, x, gelu_run(Whole(), out, x, 0, n), n);
}

template <class D>  // d/dx x Φ(x) = Φ(x) + x φ(x)
std::int64_t gelu_backward_run(D d, float* dx, const float* dy, const float* x, std::int64_t i, std::int64_t n) {
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + step <= n; i += step) {
    const auto v = hn::LoadU(d, x + i);
    auto density = hn::Zero(d);
    const auto below = distribution(d, v, density);
    hn::StoreU(hn::Mul(hn::LoadU(d, dy + i), hn::MulAdd(v, density, below)), d, dx + i);
  }
  return i;
}
void gelu_backward(float* dx, const float* dy, const float* x, std::int64_t n) noexcept {
  gelu_backward_run(Single(), dx, dy, x, gelu_backward_run(Whole(), dx, dy, x, 0, n), n);
}

template <class D>
std::int64_t gated_silu_run(D d, float* out, const float* gate, const float* up, std::int64_t i, std::int64_t n) {
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + step <= n; i += step) {
    const auto g = hn::LoadU(d, gate + i);
    hn::StoreU(hn::Mul(hn::Mul(g, sigmoid(d, g)), hn::LoadU(d, up + i)), d, out + i);
  }
  return i;
}
void gated_silu(float* out, const float* gate, const float* up, std::int64_t n) noexcept {
  gated_silu_run(Single(), out, gate, up, gated_silu_run(Whole(), out, gate, up, 0, n), n);
}

template <class D>  // silu'(g) = σ + g σ (1 - σ)
std::int64_t gated_silu_backward_run(D d, float* dgate, float* dup, const float* dy, const float* gate, const float* up,
                                     std::int64_t i, std::int64_t n) {
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + step <= n; i += step) {
    const auto g = hn::LoadU(d, gate + i), u = hn::LoadU(d, up + i), y = hn::LoadU(d, dy + i);
    const auto s = sigmoid(d, g), silu = hn::Mul(g, s);
    hn::StoreU(hn::Mul(hn::Mul(y, u), hn::MulAdd(silu, hn::Sub(hn::Set(d, 1.0f), s), s)), d, dgate + i);
    hn::StoreU(hn::Mul(y, silu), d, dup + i);
  }
  return i;
}
void gated_silu_backward(float* dgate, float* dup, const float* dy, const float* gate, const float* up,
                         std::int64_t n) noexcept {
  gated_silu_backward_run(Single(), dgate, dup, dy, gate, up,
                          gated_silu_backward_run(Whole(), dgate, dup, dy, gate, up, 0, n), n);
}

const ElementLoops* table() {
  static constexpr ElementLoops loops{add, gelu, gelu_backward, gated_silu, gated_silu_backward};
  return &loops;
}

}  // namespace
}  // namespace quadrille::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille {
HWY_EXPORT(table);
const ElementLoops& element_loops() { return *HWY_DYNAMIC_DISPATCH(table)(); }
}  // namespace quadrille
#endif
