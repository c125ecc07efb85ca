// SPDX-License-Identifier: Apache-2.0
// See statistics.h.
#include "benchmarks/harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace quadrille {

double percentile(const std::vector<double>& sorted, double fraction) {
  require(!sorted.empty(), "a percentile of no values");
  require(fraction >= 0 && fraction <= 1, "percentile {}: wanted a fraction between 0 and 1", fraction);
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::optional<Spread> spread_of(std::vector<double> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (count < kFewestValues) return {};
  std::sort(values.begin(), values.end());
  Spread spread;
  spread.count = count;
  spread.median = percentile(values, 0.5);
  spread.p5 = percentile(values, 0.05);
  spread.p95 = percentile(values, 0.95);
  spread.min = values.front();
  spread.max = values.back();
  spread.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(count);
  return spread;
}

}  // namespace quadrille
