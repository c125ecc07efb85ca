// SPDX-License-Identifier: Apache-2.0
// The end of a step in the reference: the norm, the step scalars, the optimizers.
#include <algorithm>
#include <cmath>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/ops.h"

namespace quadrille {

Cost ReferenceOps::sum_of_squares(Stream& stream, const Tensor& sum, const Tensor& x) const {
  check_sum_of_squares(stream, sum, x);
  double squares = 0;
  with_type_of(x, [&]<class T>(T) {
    const T* x_at = numbers<T>(x);
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const double v = x_at[i];
      squares += v * v;
    }
  });
  numbers<double>(sum)[0] += squares;
  return bill_sum_of_squares(sum, x);
}

Cost ReferenceOps::step_scalars(Stream& stream, const Tensor& scalars, const Tensor& totals, const Tensor& settings,
                                double clip_norm) const {
  check_step_scalars(stream, scalars, totals, settings, clip_norm);
  const double* from = numbers<double>(totals);
  double loss = from[0];
  const double count = from[1], squares = from[2];
  for (std::int64_t k = 3; k < totals.count(); k += 2)  // means of further losses
    if (from[k + 1] > 0) loss += from[k] * (count / from[k + 1]);
  const bool finite = std::isfinite(loss) && std::isfinite(squares) && std::isfinite(count) && count > 0;
  const double norm = std::sqrt(squares) / count;
  const double clipped = clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1;
  double* to = numbers<double>(scalars);
  to[kLossSum] = loss;
  to[kCount] = count;
  to[kNormSquared] = squares;
  to[kGradientNorm] = norm;
  to[kFactor] = finite ? clipped / count : 0;
  to[kRate] = numbers<double>(settings)[0];
  to[kFinite] = finite ? 1 : 0;
  to[kStep] = numbers<double>(settings)[1];
  return bill_step_scalars(scalars, totals, settings);
}

// Loshchilov and Hutter 2019: the decay acts on the values, not through the moments; unless it is Adam's L2.
Cost ReferenceOps::adamw(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& first_moment,
                         const Tensor& second_moment, const Tensor& scalars, const AdamW& how) const {
  check_adamw(stream, values, gradients, first_moment, second_moment, scalars, how);
  const double* step = numbers<double>(scalars);
  const double of_first = 1 - std::pow(how.beta1, step[kStep]), of_second = 1 - std::pow(how.beta2, step[kStep]);
  with_type_of(values, [&]<class T>(T) {
    T* values_at = numbers<T>(values);
    T* first_moment_at = numbers<T>(first_moment);
    T* second_moment_at = numbers<T>(second_moment);
    const T* gradients_at = numbers<T>(gradients);
    for (std::int64_t i = 0; i < values.count() && step[kFinite] != 0; ++i) {
      T &value = values_at[i], &m = first_moment_at[i], &v = second_moment_at[i];
      const double g = step[kFactor] * gradients_at[i] + (how.decay_in_gradient ? how.weight_decay * value : 0);
      const double new_m = how.beta1 * m + (1 - how.beta1) * g, new_v = how.beta2 * v + (1 - how.beta2) * g * g;
      const double change = (new_m / of_first) / (std::sqrt(new_v / of_second) + how.epsilon) +
                            (how.decay_in_gradient ? 0 : how.weight_decay * value);
      m = static_cast<T>(new_m);
      v = static_cast<T>(new_v);
      value = static_cast<T>(value - step[kRate] * change);
    }
  });
  return bill_adamw(values, gradients, first_moment, second_moment, scalars);
}

Cost ReferenceOps::sgd_momentum(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                                const Tensor& scalars, const SgdMomentum& how) const {
  check_sgd_momentum(stream, values, gradients, velocity, scalars, how);
  const double* step = numbers<double>(scalars);
  with_type_of(values, [&]<class T>(T) {
    T* values_at = numbers<T>(values);
    const T* gradients_at = numbers<T>(gradients);
    T* velocities = numbers<T>(velocity);
    for (std::int64_t i = 0; i < values.count() && step[kFinite] != 0; ++i) {
      T& value = values_at[i];
      const double g = step[kFactor] * gradients_at[i] + how.weight_decay * value;
      const double moved = velocities ? how.momentum * velocities[i] + g : g;
      const double change = how.nesterov ? g + how.momentum * moved : moved;
      if (velocities) velocities[i] = static_cast<T>(moved);
      value = static_cast<T>(value - step[kRate] * change);
    }
  });
  return bill_sgd_momentum(values, gradients, velocity, scalars);
}

// You, Gitman, Ginsburg 2017, arXiv 1708.03888, algorithm 1; the convention of the MLPerf reference
// (docs/optimizers.md).
Cost ReferenceOps::lars(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                        const Tensor& norms, const Tensor& scalars, const Lars& how) const {
  check_lars(stream, values, gradients, velocity, norms, scalars, how);
  const double* step = numbers<double>(scalars);
  double ratio = 1;
  if (norms) {
    const double of_values = std::sqrt(numbers<double>(norms)[0]),
                 of_gradients = step[kFactor] * std::sqrt(numbers<double>(norms)[1]);
    if (of_values > 0 && of_gradients > 0)
      ratio = how.trust * of_values / (of_gradients + how.weight_decay * of_values + how.epsilon);
  }
  const double rate = ratio * step[kRate], entering = how.scaled_momentum ? 1 : rate,
               leaving = how.scaled_momentum ? rate : 1;
  with_type_of(values, [&]<class T>(T) {
    T* values_at = numbers<T>(values);
    const T* gradients_at = numbers<T>(gradients);
    T* velocities = numbers<T>(velocity);
    for (std::int64_t i = 0; i < values.count() && step[kFinite] != 0; ++i) {
      T& value = values_at[i];
      const double d = entering * (step[kFactor] * gradients_at[i] + how.weight_decay * value);
      const double moved = how.momentum * velocities[i] + d;
      velocities[i] = static_cast<T>(moved);
      value = static_cast<T>(value - leaving * (how.nesterov ? d + how.momentum * moved : moved));
    }
  });
  return bill_lars(values, gradients, velocity, norms, scalars);
}

namespace {

// You et al. 2020, arXiv 1904.00962, algorithm 2.
double lamb_update(double value, double m, double v, double step, const Lamb& how) {
  if (how.bias_correction) {
    m /= 1 - std::pow(how.beta1, step);
    v /= 1 - std::pow(how.beta2, step);
  }
  return m / (std::sqrt(v) + how.epsilon) + how.weight_decay * value;
}

}  // namespace

Cost ReferenceOps::lamb_moments(Stream& stream, const Tensor& squares, const Tensor& values, const Tensor& gradients,
                                const Tensor& first_moment, const Tensor& second_moment, const Tensor& scalars,
                                const Lamb& how) const {
  check_lamb_moments(stream, squares, values, gradients, first_moment, second_moment, scalars, how);
  const double* step = numbers<double>(scalars);
  double sum = 0;
  with_type_of(values, [&]<class T>(T) {
    const T *values_at = numbers<T>(values), *gradients_at = numbers<T>(gradients);
    T *m = numbers<T>(first_moment), *v = numbers<T>(second_moment);
    for (std::int64_t i = 0; i < values.count() && step[kFinite] != 0; ++i) {
      const double g = step[kFactor] * gradients_at[i];
      m[i] = static_cast<T>(how.beta1 * m[i] + (1 - how.beta1) * g);
      v[i] = static_cast<T>(how.beta2 * v[i] + (1 - how.beta2) * g * g);
      const double update = lamb_update(values_at[i], m[i], v[i], step[kStep], how);
      sum += update * update;
    }
  });
  if (squares) numbers<double>(squares)[0] += sum;
  return bill_lamb_moments(squares, values, gradients, first_moment, second_moment, scalars);
}

Cost ReferenceOps::lamb_step(Stream& stream, const Tensor& values, const Tensor& first_moment,
                             const Tensor& second_moment, const Tensor& norms, const Tensor& scalars,
                             const Lamb& how) const {
  check_lamb_step(stream, values, first_moment, second_moment, norms, scalars, how);
  const double* step = numbers<double>(scalars);
  double ratio = 1;
  if (norms) {
    const double of_values = std::sqrt(numbers<double>(norms)[0]), of_update = std::sqrt(numbers<double>(norms)[1]);
    if (of_values > 0 && of_update > 0) ratio = of_values / of_update;
  }
  with_type_of(values, [&]<class T>(T) {
    T* values_at = numbers<T>(values);
    const T *m = numbers<T>(first_moment), *v = numbers<T>(second_moment);
    for (std::int64_t i = 0; i < values.count() && step[kFinite] != 0; ++i)
      values_at[i] =
          static_cast<T>(values_at[i] - step[kRate] * ratio * lamb_update(values_at[i], m[i], v[i], step[kStep], how));
  });
  return bill_lamb_step(values, first_moment, second_moment, norms, scalars);
}

}  // namespace quadrille
