// SPDX-License-Identifier: Apache-2.0
// What is said about a handful of measured times. Fewer than three say nothing: callers print "too few steps".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quadrille {

struct Spread {
  std::int64_t count = 0;
  double median = 0, p5 = 0, p95 = 0, min = 0, max = 0, mean = 0;
};
inline constexpr std::int64_t kFewestValues = 3;

// `sorted` ascending, not empty; `fraction` in [0, 1]. Linear between the two nearest ranks (Hyndman and Fan's type 7,
// the default of NumPy and R).
double percentile(const std::vector<double>& sorted, double fraction);
std::optional<Spread> spread_of(std::vector<double> values);  // nothing when there are fewer than kFewestValues

}  // namespace quadrille
