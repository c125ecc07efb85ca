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

// Loshchilov and Hutter 2019: the decay does not pass through the moments; unless it is Adam's L2.
template <class D>
std::int64_t adamw_run(D d, float* values, const float* gradients, float* first, float* second, const AdamWFactors& f,
                       std::int64_t i, std::int64_t n) {
  const auto factor = hn::Set(d, f.gradient), beta1 = hn::Set(d, f.beta1), beta2 = hn::Set(d, f.beta2);
  const auto rest1 = hn::Set(d, f.rest1), rest2 = hn::Set(d, f.rest2);
  const auto step = hn::Set(d, f.step), root = hn::Set(d, f.inverse_root), epsilon = hn::Set(d, f.epsilon),
             keep = hn::Set(d, f.keep), decay = hn::Set(d, f.decay);
  for (; i + lanes(d) <= n; i += lanes(d)) {
    const auto value = hn::LoadU(d, values + i);
    const auto g = hn::MulAdd(decay, value, hn::Mul(hn::LoadU(d, gradients + i), factor));
    const auto m = hn::MulAdd(beta1, hn::LoadU(d, first + i), hn::Mul(rest1, g));
    const auto v = hn::MulAdd(beta2, hn::LoadU(d, second + i), hn::Mul(hn::Mul(rest2, g), g));
    const auto change = hn::Div(m, hn::MulAdd(hn::Sqrt(v), root, epsilon));
    hn::StoreU(hn::NegMulAdd(step, change, hn::Mul(keep, value)), d, values + i);
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

// You et al. 2020. One function of both halves, so that the update whose norm is taken is the one that is made.
template <class D, class V>
V lamb_update(D d, V value, V m, V v, const LambFactors& f) {
  const V root = hn::MulAdd(hn::Sqrt(v), hn::Set(d, f.inverse_root), hn::Set(d, f.epsilon));
  return hn::MulAdd(hn::Set(d, f.decay), value, hn::Div(hn::Mul(hn::Set(d, f.scale), m), root));
}

template <class D>
std::int64_t lamb_moments_run(D d, const float* values, const float* gradients, float* first, float* second,
                              const LambFactors& f, double& sum, std::int64_t i, std::int64_t n) {
  const auto factor = hn::Set(d, f.gradient), beta1 = hn::Set(d, f.beta1), beta2 = hn::Set(d, f.beta2);
  const auto rest1 = hn::Set(d, f.rest1), rest2 = hn::Set(d, f.rest2);
  HWY_ALIGN float updates[hn::MaxLanes(d)];
  double sums[4] = {0, 0, 0, 0};  // chains, for the latency of an addition
  for (; i + lanes(d) <= n; i += lanes(d)) {
    const auto g = hn::Mul(hn::LoadU(d, gradients + i), factor);
    const auto m = hn::MulAdd(beta1, hn::LoadU(d, first + i), hn::Mul(rest1, g));
    const auto v = hn::MulAdd(beta2, hn::LoadU(d, second + i), hn::Mul(hn::Mul(rest2, g), g));
    hn::StoreU(m, d, first + i);
    hn::StoreU(v, d, second + i);
    hn::Store(lamb_update(d, hn::LoadU(d, values + i), m, v, f), d, updates);
    for (std::int64_t k = 0; k < lanes(d); ++k)
      sums[k % 4] += static_cast<double>(updates[k]) * static_cast<double>(updates[k]);
  }
  sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return i;
}
double lamb_moments(const float* values, const float* gradients, float* first, float* second, const LambFactors& f,
                    std::int64_t n) noexcept {
  double sum = 0;
  const std::int64_t whole = lamb_moments_run(Whole(), values, gradients, first, second, f, sum, 0, n);
  lamb_moments_run(Single(), values, gradients, first, second, f, sum, whole, n);
  return sum;
}

template <class D>
std::int64_t lamb_step_run(D d, float* values, const float* first, const float* second, const LambFactors& f,
                           float rate, std::int64_t i, std::int64_t n) {
  for (; i + lanes(d) <= n; i += lanes(d)) {
    const auto value = hn::LoadU(d, values + i);
    const auto update = lamb_update(d, value, hn::LoadU(d, first + i), hn::LoadU(d, second + i), f);
    hn::StoreU(hn::NegMulAdd(hn::Set(d, rate), update, value), d, values + i);
  }
  return i;
}
void lamb_step(float* values, const float* first, const float* second, const LambFactors& f, float rate,
               std::int64_t n) noexcept {
  lamb_step_run(Single(), values, first, second, f, rate, lamb_step_run(Whole(), values, first, second, f, rate, 0, n),
                n);
}

const TrainingLoops* table() {
  static constexpr TrainingLoops loops{sum_of_squares, adamw, sgd, lamb_moments, lamb_step};
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
