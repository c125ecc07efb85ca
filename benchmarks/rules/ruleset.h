// SPDX-License-Identifier: Apache-2.0
// A rule set, read from benchmarks/rulesets/NAME.json: for each key of a log how often it may stand there, with what
// value and metadata, and after which others. docs/rules.md explains the grammar. Used by the log checker and by
// `score`, which takes the number of runs and what convergence is counted in from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"

namespace quadrille {

inline constexpr std::string_view kRuleSets = "benchmarks/rulesets";

// {"at_least": 0.25, "below": 1}: each entry is one rule, and all must hold.
struct Condition {
  std::string kind;
  Json wanted;
};
using Conditions = std::vector<Condition>;

struct KeyRule {
  enum class Count : unsigned char { one, some, optional };
  struct Minutes {  // the line comes less than so many minutes after the first line of `since`
    std::string since;
    double closed = 0, open = 0;
  };
  using Metadata = std::vector<std::pair<std::string, Conditions>>;  // these fields, all of them

  std::string key;
  Count count = Count::one;
  std::string alternative;         // a line of this other key is as good as one of this
  std::string when_key;            // holds only where this key ...
  Json when_value;                 // ... has this value; empty key: always
  bool closed_only = false;        // open submissions need not
  Conditions value, one_value;     // of every line; of at least one
  std::vector<Metadata> metadata;  // one of these
  std::vector<std::string> after;  // lines of these keys come first
  std::optional<Minutes> minutes;
};

struct BenchmarkRules {
  std::string name;
  int runs = 1;                       // how many make a result
  std::int64_t evaluate_every = 0;    // samples between evaluations; 0: the rule is of another form
  std::string counted;                // the metadata field of eval_accuracy that says how far training has come
  std::vector<KeyRule> closed, open;  // those of the set included
};

struct RuleSet {
  std::string name, description;
  std::vector<KeyRule> keys;  // of every benchmark; alone where the log names none that is known
  std::vector<BenchmarkRules> benchmarks;
  const BenchmarkRules* find(std::string_view benchmark) const;  // null: none of this name
};

RuleSet read_ruleset(const std::string& name_or_path);  // throws Error: unknown (nearest named), or not well formed
std::vector<std::string> ruleset_names();               // of those with benchmarks, sorted
// The set that knows this benchmark, or "".
std::string ruleset_of_benchmark(std::string_view benchmark);

// All rules that a key rule stands for, by the names that findings bear: "seed.count", "seed.integer", ...
std::vector<std::string> rule_names(const KeyRule&);

}  // namespace quadrille
