// SPDX-License-Identifier: Apache-2.0
// The convergence test of the published rules: a result must not have got to its target much earlier than reference
// runs of the same batch size did. Points are data (results/convergence.json). Arithmetic as the official engine does
// it; where the rules' text says otherwise, that is computed as well and told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace quadrille {

struct ReferencePoint {
  std::int64_t batch = 0;
  double mean = 0;                  // olympic mean of the reference runs, in the benchmark's unit
  std::optional<double> deviation;  // population deviation of all of them
  std::optional<int> runs;
  std::optional<double> max_speedup;  // where only the outcome of the test is known
};

struct ReferenceConvergence {
  std::string benchmark, unit, source;
  std::vector<ReferencePoint> points;  // by batch size
};
// Of results/convergence.json; empty: none for this benchmark. Throws Error: not well formed.
std::optional<ReferenceConvergence> reference_convergence(std::string_view benchmark, const Json& document);

// Points with a batch below that of the fastest are dropped, then those slower than the straight line between their
// neighbours: by one forward pass that does not look back (the engine), or until none is left (the text).
enum class Pruning : unsigned char { engine, text };
std::vector<ReferencePoint> pruned(std::vector<ReferencePoint> points, Pruning how);

// What the reference needs at this batch size, from points that were pruned already.
struct ReferenceAt {
  enum class How : unsigned char { exact, interpolated, below_all, above_all } how = How::exact;
  double mean = 0;
  std::optional<double> deviation, max_speedup;
  int samples = 0;  // that the mean stands on; 0: not known
};
// `runs`: how many make a result. An exact point counts its runs less the two that the olympic mean drops, an
// interpolated one 2 x runs.
ReferenceAt reference_at(const std::vector<ReferencePoint>& kept, std::int64_t batch, int runs);

// The smallest mean that is still accepted: one-sided t-test of two means with the same deviation at 5 %, of samples
// reference and runs - 2 submitted values. Empty: not known.
std::optional<double> convergence_limit(const ReferenceAt&, int runs);

double student_t(double p, int freedom);  // the quantile: P(T < t) = p, 0.5 < p < 1

struct ConvergenceVerdict {
  bool known = false;  // false: nothing to compare with
  bool accepted = true;
  double scaling = 1;  // that the score is multiplied by
  std::string text;    // one sentence
  std::vector<std::string> notes;
};
// `counts`: how far each converged run had come.
ConvergenceVerdict judge_convergence(const ReferenceConvergence&, std::int64_t batch, std::vector<double> counts,
                                     int runs);

}  // namespace quadrille
