// SPDX-License-Identifier: Apache-2.0
// The end of a step: norm of the gradients, step scalars, optimizers.
#include <array>
#include <cmath>
#include <numeric>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace quadrille {

namespace {

// A fixed number of pieces, each summed in order, then the pieces in order: one result for any number of threads.
template <class SumOf>
double sum_in_pieces(std::int64_t elements, SumOf&& sum_of) {
  std::array<double, 256> pieces{};
  const auto count = static_cast<std::int64_t>(pieces.size());
  parallel_parts(count, elements, 1, [&](Slice s) noexcept {
    for (std::int64_t i = s.first; i < s.end(); ++i)
      pieces[static_cast<std::size_t>(i)] = sum_of(part({0, elements}, count, i));
  });
  return std::accumulate(pieces.begin(), pieces.end(), 0.0);
}

}  // namespace

Cost CpuOps::sum_of_squares(Stream& stream, const Tensor& sum, const Tensor& x) const {
  check_sum_of_squares(stream, sum, x);
  doubles(sum)[0] += sum_in_pieces(x.count(), [loop = training_loops().sum_of_squares, from = floats(x)](Slice s) {
    return loop(from + s.first, s.count);
  });
  return bill_sum_of_squares(sum, x);
}

Cost CpuOps::step_scalars(Stream& stream, const Tensor& scalars, const Tensor& totals, const Tensor& settings,
                          double clip_norm) const {
  check_step_scalars(stream, scalars, totals, settings, clip_norm);
  const double* from = doubles(totals);
  double loss = from[0];
  const double count = from[1], squares = from[2];
  for (std::int64_t k = 3; k < totals.count(); k += 2)  // means of further losses
    if (from[k + 1] > 0) loss += from[k] * (count / from[k + 1]);
  const bool finite = std::isfinite(loss) && std::isfinite(squares) && std::isfinite(count) && count > 0;
  const double norm = std::sqrt(squares) / count;
  const double clipped = clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1;
  double* to = doubles(scalars);
  to[kLossSum] = loss;
  to[kCount] = count;
  to[kNormSquared] = squares;
  to[kGradientNorm] = norm;
  to[kFactor] = finite ? clipped / count : 0;
  to[kRate] = doubles(settings)[0];
  to[kFinite] = finite ? 1 : 0;
  to[kStep] = doubles(settings)[1];
  return bill_step_scalars(scalars, totals, settings);
}

Cost CpuOps::adamw(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& first_moment,
                   const Tensor& second_moment, const Tensor& scalars, const AdamW& how) const {
  check_adamw(stream, values, gradients, first_moment, second_moment, scalars, how);
  const double* step = doubles(scalars);
  float *value = floats(values), *first = floats(first_moment), *second = floats(second_moment);
  const float* gradient = floats(gradients);
  AdamWFactors f;
  f.gradient = static_cast<float>(step[kFactor]);
  f.beta1 = static_cast<float>(how.beta1), f.rest1 = static_cast<float>(1 - how.beta1);
  f.beta2 = static_cast<float>(how.beta2), f.rest2 = static_cast<float>(1 - how.beta2);
  f.step = static_cast<float>(step[kRate] / (1 - std::pow(how.beta1, step[kStep])));
  f.inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(how.beta2, step[kStep])));
  f.epsilon = static_cast<float>(how.epsilon);
  if (how.decay_in_gradient)
    f.decay = static_cast<float>(how.weight_decay);
  else
    f.keep = static_cast<float>(1 - step[kRate] * how.weight_decay);
  if (step[kFinite] != 0)
    parallel_parts(values.count(), values.count(), 16, [&, loop = training_loops().adamw](Slice s) noexcept {
      loop(value + s.first, gradient + s.first, first + s.first, second + s.first, f, s.count);
    });
  return bill_adamw(values, gradients, first_moment, second_moment, scalars);
}

Cost CpuOps::sgd_momentum(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                          const Tensor& scalars, const SgdMomentum& how) const {
  check_sgd_momentum(stream, values, gradients, velocity, scalars, how);
  const double* step = doubles(scalars);
  float *value = floats(values), *moving = floats(velocity);
  const float* gradient = floats(gradients);
  const SgdFactors f{static_cast<float>(step[kFactor]), static_cast<float>(how.weight_decay),
                     static_cast<float>(how.momentum), static_cast<float>(step[kRate]), how.nesterov};
  if (step[kFinite] != 0)
    parallel_parts(values.count(), values.count(), 16, [&, loop = training_loops().sgd](Slice s) noexcept {
      loop(value + s.first, gradient + s.first, moving ? moving + s.first : nullptr, f, s.count);
    });
  return bill_sgd_momentum(values, gradients, velocity, scalars);
}

// SGD with momentum, the rate multiplied into what enters the velocity or into what leaves it.
Cost CpuOps::lars(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                  const Tensor& norms, const Tensor& scalars, const Lars& how) const {
  check_lars(stream, values, gradients, velocity, norms, scalars, how);
  const double* step = doubles(scalars);
  double ratio = 1;
  if (norms) {
    const double w = std::sqrt(doubles(norms)[0]), g = step[kFactor] * std::sqrt(doubles(norms)[1]);
    if (w > 0 && g > 0) ratio = how.trust * w / (g + how.weight_decay * w + how.epsilon);
  }
  const double rate = step[kRate] * ratio, entering = how.scaled_momentum ? 1 : rate;
  const SgdFactors f{static_cast<float>(step[kFactor] * entering), static_cast<float>(how.weight_decay * entering),
                     static_cast<float>(how.momentum), static_cast<float>(how.scaled_momentum ? rate : 1),
                     how.nesterov};
  float *value = floats(values), *moving = floats(velocity);
  const float* gradient = floats(gradients);
  if (step[kFinite] != 0)
    parallel_parts(values.count(), values.count(), 16, [&, loop = training_loops().sgd](Slice s) noexcept {
      loop(value + s.first, gradient + s.first, moving + s.first, f, s.count);
    });
  return bill_lars(values, gradients, velocity, norms, scalars);
}

namespace {

LambFactors factors_of(const double* step, const Lamb& how) {
  LambFactors f;
  f.gradient = static_cast<float>(step[kFactor]);
  f.beta1 = static_cast<float>(how.beta1), f.rest1 = static_cast<float>(1 - how.beta1);
  f.beta2 = static_cast<float>(how.beta2), f.rest2 = static_cast<float>(1 - how.beta2);
  f.epsilon = static_cast<float>(how.epsilon), f.decay = static_cast<float>(how.weight_decay);
  if (how.bias_correction) {
    f.scale = static_cast<float>(1 / (1 - std::pow(how.beta1, step[kStep])));
    f.inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(how.beta2, step[kStep])));
  }
  return f;
}

}  // namespace

Cost CpuOps::lamb_moments(Stream& stream, const Tensor& squares, const Tensor& values, const Tensor& gradients,
                          const Tensor& first_moment, const Tensor& second_moment, const Tensor& scalars,
                          const Lamb& how) const {
  check_lamb_moments(stream, squares, values, gradients, first_moment, second_moment, scalars, how);
  const double* step = doubles(scalars);
  const LambFactors f = factors_of(step, how);
  const float *value = floats(values), *gradient = floats(gradients);
  float *first = floats(first_moment), *second = floats(second_moment);
  double sum = 0;
  if (step[kFinite] != 0)
    sum = sum_in_pieces(values.count(), [&, loop = training_loops().lamb_moments](Slice s) {
      return loop(value + s.first, gradient + s.first, first + s.first, second + s.first, f, s.count);
    });
  if (squares) doubles(squares)[0] += sum;
  return bill_lamb_moments(squares, values, gradients, first_moment, second_moment, scalars);
}

Cost CpuOps::lamb_step(Stream& stream, const Tensor& values, const Tensor& first_moment, const Tensor& second_moment,
                       const Tensor& norms, const Tensor& scalars, const Lamb& how) const {
  check_lamb_step(stream, values, first_moment, second_moment, norms, scalars, how);
  const double* step = doubles(scalars);
  const LambFactors f = factors_of(step, how);
  double ratio = 1;
  if (norms && doubles(norms)[0] > 0 && doubles(norms)[1] > 0)
    ratio = std::sqrt(doubles(norms)[0]) / std::sqrt(doubles(norms)[1]);
  const auto rate = static_cast<float>(step[kRate] * ratio);
  float* value = floats(values);
  const float *first = floats(first_moment), *second = floats(second_moment);
  if (step[kFinite] != 0)
    parallel_parts(values.count(), values.count(), 16, [&, loop = training_loops().lamb_step](Slice s) noexcept {
      loop(value + s.first, first + s.first, second + s.first, f, rate, s.count);
    });
  return bill_lamb_step(values, first_moment, second_moment, norms, scalars);
}

}  // namespace quadrille
