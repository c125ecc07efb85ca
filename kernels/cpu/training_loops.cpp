// SPDX-License-Identifier: Apache-2.0
// Loops over flat parameters and gradients: norm and optimizers. At memory speed, so kept plain.
#include "kernels/cpu/loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/training_loops.cpp"
#include <hwy/foreach_target.h>  // compiles this file once for each instruction set
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace quadrille::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Whole = hn::ScalableTag<float>;
using Single = hn::CappedTag<float, 1>;
using Doubles = hn::ScalableTag<double>;

template <class D>
std::int64_t lanes(D d) {
  return static_cast<std::int64_t>(hn::Lanes(d));
}

double sum_of_squares(const float* x, std::int64_t n) noexcept {
  const Doubles d;
  const hn::Rebind<float, Doubles> halves;
  auto even = hn::Zero(d), odd = hn::Zero(d);  // two chains, for the latency of an addition
  std::int64_t i = 0;
  for (; i + 2 * lanes(d) <= n; i += 2 * lanes(d)) {
    const auto a = hn::PromoteTo(d, hn::LoadU(halves, x + i)),
               b = hn::PromoteTo(d, hn::LoadU(halves, x + i + lanes(d)));
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

// Loshchilov and Hutter 2019: the decay does not pass through the moments.
template <class D>
std::int64_t adamw_run(D d, float* values, const float* gradients, float* first, float* second, const AdamWFactors& f,
                       std::int64_t i, std::int64_t n) {
  const auto factor = hn::Set(d, f.gradient), beta1 = hn::Set(d, f.beta1), beta2 = hn::Set(d, f.beta2);
  const auto rest1 = hn::Set(d, f.rest1), rest2 = hn::Set(d, f.rest2);
  const auto step = hn::Set(d, f.step), root = hn::Set(d, f.inverse_root), epsilon = hn::Set(d, f.epsilon),
             keep = hn::Set(d, f.keep);
  for (; i + lanes(d) <= n; i += lanes(d)) {
    const auto g = hn::Mul(hn::LoadU(d, gradients + i), factor);
    const auto m = hn::MulAdd(beta1, hn::LoadU(d, first + i), hn::Mul(rest1, g));
    const auto v = hn::MulAdd(beta2, hn::LoadU(d, second + i), hn::Mul(hn::Mul(rest2, g), g));
    const auto change = hn::Div(m, hn::MulAdd(hn::Sqrt(v), root, epsilon));
    hn::StoreU(hn::NegMulAdd(step, change, hn::Mul(keep, hn::LoadU(d, values + i))), d, values + i);
    hn::StoreU(m, d, first + i);
    hn::StoreU(v, d, second + i);
  }
  return i;
}
void adamw(float* values, const float* gradients, float* first, float* second, const AdamWFactors& f,
           std::int64_t n) noexcept {
  adamw_run(Single(), values, gradients, first, second, f,
            adamw_run(Whole(), values, gradients, first, second, f, 0, n), n);
}

template <class D>
std::int64_t sgd_run(D d, float* values, const float* gradients, float* velocity, const SgdFactors& f, std::int64_t i,
                     std::int64_t n) {
  const auto momentum = hn::Set(d, f.momentum);
  for (; i + lanes(d) <= n; i += lanes(d)) {
    const auto value = hn::LoadU(d, values + i);
    auto g = hn::MulAdd(hn::Set(d, f.decay), value, hn::Mul(hn::LoadU(d, gradients + i), hn::Set(d, f.gradient)));
    if (velocity) {
      const auto v = hn::MulAdd(momentum, hn::LoadU(d, velocity + i), g);
      hn::StoreU(v, d, velocity + i);
      g = f.nesterov ? hn::MulAdd(momentum, v, g) : v;
    }
    hn::StoreU(hn::NegMulAdd(hn::Set(d, f.rate), g, value), d, values + i);
  }
  return i;
}
void sgd(float* values, const float* gradients, float* velocity, const SgdFactors& f, std::int64_t n) noexcept {
  sgd_run(Single(), values, gradients, velocity, f, sgd_run(Whole(), values, gradients, velocity, f, 0, n), n);
}

const TrainingLoops* table() {
  static constexpr TrainingLoops loops{sum_of_squares, adamw, sgd};
  return &loops;
}

}  // namespace
}  // namespace quadrille::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille {
HWY_EXPORT(table);
const TrainingLoops& training_loops() { return *HWY_DYNAMIC_DISPATCH(table)(); }
}  // namespace quadrille
#endif
