// SPDX-License-Identifier: Apache-2.0
// See convergence.h. The procedure: training_policies, training_rules.adoc, "RCP"; the engine: mlcommons/logging,
// rcp_checker. Both were read, neither is copied.
#include "benchmarks/rules/convergence.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "benchmarks/harness/text.h"
#include "core/error.h"

namespace quadrille {

namespace {

using Points = std::vector<ReferencePoint>;

double on_line(const ReferencePoint& a, const ReferencePoint& b, std::int64_t batch) {
  const double part = static_cast<double>(batch - a.batch) / static_cast<double>(b.batch - a.batch);
  return a.mean + part * (b.mean - a.mean);
}

// One pass: a point is held against the last one kept and the next one in the list.
bool prune_once(Points& points) {
  bool dropped = false;
  for (std::size_t i = 1; i + 1 < points.size();) {
    if (points[i].mean > on_line(points[i - 1], points[i + 1], points[i].batch)) {
      points.erase(points.begin() + static_cast<std::ptrdiff_t>(i));
      dropped = true;
    } else {
      ++i;
    }
  }
  return dropped;
}

// P(-t < T < t) for whole degrees of freedom: the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4.
double central_probability(double t, int freedom) {
  const double angle = std::atan(t / std::sqrt(static_cast<double>(freedom)));
  const double sine = std::sin(angle), square = std::cos(angle) * std::cos(angle);
  const bool odd = freedom % 2 == 1;
  if (freedom == 1) return 2 * angle / std::numbers::pi;
  double term = odd ? std::cos(angle) : 1, sum = term;
  for (int k = odd ? 3 : 2; k <= freedom - 2; k += 2) {
    term *= square * static_cast<double>(k - 1) / static_cast<double>(k);
    sum += term;
  }
  return odd ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;
}

double olympic_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::ptrdiff_t drop = values.size() >= 3 ? 1 : 0;
  return std::accumulate(values.begin() + drop, values.end() - drop, 0.0) /
         static_cast<double>(static_cast<std::ptrdiff_t>(values.size()) - 2 * drop);
}

ReferencePoint read_point(const Json& json) {
  Reader reader(json, "points");
  ReferencePoint point;
  point.batch = reader.integer("batch_size");
  point.mean = reader.number("mean");
  require(point.batch > 0 && point.mean > 0, "{}: batch size and mean must be above 0", json.origin());
  if (json.find("deviation")) point.deviation = reader.number("deviation");
  if (json.find("runs")) point.runs = static_cast<int>(reader.integer("runs"));
  if (json.find("max_speedup")) point.max_speedup = reader.number("max_speedup");
  reader.done();
  return point;
}

std::string amount(double value, const std::string& unit) {
  return value < 1000 ? fmt::format("{:.3f} {}", value, unit)
                      : fmt::format("{} {}", text_grouped(std::llround(value)), unit);
}

}  // namespace

std::optional<ReferenceConvergence> reference_convergence(std::string_view benchmark, const Json& document) {
  for (const Json& json : document.at("benchmarks").items()) {
    if (json.at("benchmark").string() != benchmark) continue;
    ReferenceConvergence reference{std::string(benchmark), json.at("unit").string(), json.at("source").string(), {}};
    for (const Json& point : json.at("points").items()) reference.points.push_back(read_point(point));
    std::sort(reference.points.begin(), reference.points.end(),
              [](const ReferencePoint& a, const ReferencePoint& b) { return a.batch < b.batch; });
    require(!reference.points.empty(), "{}: no points", json.origin());
    return reference;
  }
  return {};
}

Points pruned(Points points, Pruning how) {
  const auto fastest = std::min_element(
      points.begin(), points.end(), [](const ReferencePoint& a, const ReferencePoint& b) { return a.mean < b.mean; });
  points.erase(points.begin(), fastest);
  while (prune_once(points) && how == Pruning::text) {}
  return points;
}

ReferenceAt reference_at(const Points& kept, std::int64_t batch, int runs) {
  const auto exact = [](const ReferencePoint& p, ReferenceAt::How how) {
    return ReferenceAt{how, p.mean, p.deviation, p.max_speedup, p.runs ? *p.runs - 2 : 0};
  };
  const auto above = std::find_if(kept.begin(), kept.end(), [&](const ReferencePoint& p) { return p.batch >= batch; });
  if (above == kept.end()) return exact(kept.back(), ReferenceAt::How::above_all);
  if (above->batch == batch) return exact(*above, ReferenceAt::How::exact);
  if (above == kept.begin()) return exact(*above, ReferenceAt::How::below_all);
  const ReferencePoint &a = *(above - 1), &b = *above;
  ReferenceAt at{ReferenceAt::How::interpolated, on_line(a, b, batch), {}, {}, 2 * runs};
  const double part = static_cast<double>(batch - a.batch) / static_cast<double>(b.batch - a.batch);
  if (a.deviation && b.deviation) at.deviation = *a.deviation + part * (*b.deviation - *a.deviation);
  return at;
}

double student_t(double p, int freedom) {
  double low = 0, high = 1;
  const double wanted = 2 * p - 1;
  while (central_probability(high, freedom) < wanted) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-13 * high; ++i) {
    const double middle = (low + high) / 2;
    (central_probability(middle, freedom) < wanted ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::optional<double> convergence_limit(const ReferenceAt& at, int runs) {
  if (at.max_speedup) return at.mean / *at.max_speedup;
  const int submitted = runs - 2, freedom = at.samples + submitted - 2;
  if (!at.deviation || at.samples < 1 || submitted < 1 || freedom < 1) return {};
  const double spread = *at.deviation * std::sqrt(1.0 / at.samples + 1.0 / submitted);
  return at.mean - student_t(0.95, freedom) * spread;
}

ConvergenceVerdict judge_convergence(const ReferenceConvergence& reference, std::int64_t batch,
                                     std::vector<double> counts, int runs) {
  using How = ReferenceAt::How;
  ConvergenceVerdict verdict;
  if (counts.empty()) {
    verdict.text = "no run says how far it had come";
    return verdict;
  }
  const std::vector<ReferencePoint> all = reference.points;
  const auto exact = std::find_if(all.begin(), all.end(), [&](const ReferencePoint& p) { return p.batch == batch; });
  const Points kept = pruned(all, Pruning::engine);
  const ReferenceAt at = reference_at(kept, batch, runs);
  const double mine = olympic_mean(std::move(counts));
  const std::string& unit = reference.unit;
  if (exact != all.end() && at.how != How::exact)
    verdict.notes.push_back(
        fmt::format("the reference point of batch {} itself was pruned: it converges slower than "
                    "its neighbours let expect",
                    batch));
  if (at.how != How::above_all) {
    const double text = reference_at(pruned(all, Pruning::text), batch, runs).mean;
    if (text != at.mean)
      verdict.notes.push_back(fmt::format(
          "reference at batch {}: {} by the engine's single pruning pass, {} by the rules' text, which prunes until "
          "nothing is left to prune; the engine counts",
          batch, amount(at.mean, unit), amount(text, unit)));
  }
  if (at.how == How::above_all) {
    verdict.text = fmt::format(
        "batch {} is larger than every reference point (largest: {}): the rules want a new "
        "reference point from whoever submits",
        batch, kept.back().batch);
    return verdict;
  }
  if (at.how == How::below_all) {
    verdict.known = true;
    verdict.accepted = mine >= at.mean;
    verdict.text =
        fmt::format("{} at a batch below every reference point: {}faster than the {} of batch {}", amount(mine, unit),
                    verdict.accepted ? "not " : "", amount(at.mean, unit), kept.front().batch);
    return verdict;
  }
  const std::optional<double> limit = convergence_limit(at, runs);
  if (!limit) {
    verdict.text = fmt::format("mean of the runs {}, of the reference {}: its spread is not known to us, so no limit",
                               amount(mine, unit), amount(at.mean, unit));
    return verdict;
  }
  verdict.known = true;
  verdict.accepted = mine >= *limit;
  if (verdict.accepted && mine < at.mean) verdict.scaling = at.mean / mine;
  verdict.text =
      fmt::format("mean of the runs {}, of the reference {}{}, least accepted {}", amount(mine, unit),
                  amount(at.mean, unit), at.how == How::interpolated ? " (interpolated)" : "", amount(*limit, unit));
  return verdict;
}

}  // namespace quadrille
