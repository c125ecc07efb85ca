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

// A fixed number of pieces, each summed in order, then the pieces in order: one result for any number of threads.
Cost CpuOps::sum_of_squares(Stream& stream, const Tensor& sum, const Tensor& x) const {
  check_sum_of_squares(stream, sum, x);
  std::array<double, 256> pieces{};
  const auto count = static_cast<std::int64_t>(pieces.size());
  parallel_parts(count, x.count(), 1, [&, loop = training_loops().sum_of_squares, from = floats(x)](Slice s) noexcept {
    for (std::int64_t i = s.first; i < s.end(); ++i) {
      const Slice piece = part({0, x.count()}, count, i);
      pieces[static_cast<std::size_t>(i)] = loop(from + piece.first, piece.count);
    }
  });
  doubles(sum)[0] += std::accumulate(pieces.begin(), pieces.end(), 0.0);
  return bill_sum_of_squares(sum, x);
}

Cost CpuOps::step_scalars(Stream& stream, const Tensor& scalars, const Tensor& totals, const Tensor& settings,
                          double clip_norm) const {
  check_step_scalars(stream, scalars, totals, settings, clip_norm);
  const double loss = doubles(totals)[0], count = doubles(totals)[1], squares = doubles(totals)[2];
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

}  // namespace quadrille
