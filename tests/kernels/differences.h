// SPDX-License-Identifier: Apache-2.0
// Central differences: what a gradient must be. Used by the tests that judge the reference's backward ops.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/kernels/bench.h"

namespace quadrille {

// `x` is changed in place, entry by entry; `loss` reads it.
inline void expect_gradient(const char* what, const Tensor& x, const Numbers& gradient,
                            const std::function<double()>& loss) {
  constexpr double kStep = 1e-5;  // error of a central difference: about step² and rounding / step, 1e-10 each
  const std::span<double> values = x.host<double>();
  ASSERT_EQ(values.size(), gradient.size()) << what;
  double largest = 0;
  for (const double g : gradient) largest = std::max(largest, std::abs(g));
  ASSERT_GT(largest, 0) << what;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double there = values[i];
    values[i] = there + kStep;
    const double up = loss();
    values[i] = there - kStep;
    const double down = loss();
    values[i] = there;
    EXPECT_NEAR(gradient[i], (up - down) / (2 * kStep), 1e-7 * std::max(1.0, largest)) << what << " " << i;
  }
}

inline double weighed(Bench& b, const Tensor& y, const Tensor& w) {
  const Numbers ys = b.read(y), ws = b.read(w);
  double sum = 0;
  for (std::size_t i = 0; i < ys.size(); ++i) sum += ys[i] * ws[i];
  return sum;
}

}  // namespace quadrille
