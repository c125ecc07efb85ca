// SPDX-License-Identifier: Apache-2.0
// A set of runs under the rules of its benchmark: how many runs make a result, the convergence test with its scaling,
// and a list of every rule with whether it was kept. Used by `score`, by `run --runs` and by `package`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/score.h"
#include "benchmarks/rules/convergence.h"
#include "benchmarks/rules/ruleset.h"

namespace quadrille {

struct RulesScore {
  Score score;
  std::optional<RuleSet> set;  // that knows the benchmark of these runs
  std::optional<ConvergenceVerdict> convergence;
  const BenchmarkRules* rules(const std::string& benchmark) const { return set ? set->find(benchmark) : nullptr; }
};
RulesScore score_by_rules(const std::vector<RunOutcome>& runs);
// The same with the rules given: for tests.
RulesScore score_by_rules(const std::vector<RunOutcome>& runs, std::optional<RuleSet> set,
                          const std::optional<ReferenceConvergence>& reference);

struct RuleState {
  enum class State : unsigned char { kept, broken, unknown } state = State::unknown;
  std::string rule, text;
};
// Reads the logs again, each against the rule set. Never empty.
std::vector<RuleState> conformance(const std::vector<RunOutcome>& runs, const RulesScore& judged);
std::string conformance_text(const std::vector<RuleState>& states);

}  // namespace quadrille
