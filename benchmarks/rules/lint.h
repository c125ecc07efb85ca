// SPDX-License-Identifier: Apache-2.0
// `quadrille log-check`: one log against one rule set. Independent of what writes our logs, so that the two judge each
// other; the rules are data (ruleset.h). What a log says is judged, not what was run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/rules/log_lines.h"
#include "benchmarks/rules/ruleset.h"

namespace quadrille {

struct LintReport {
  std::string benchmark, division;  // as the log says, "" when it does not
  std::vector<Finding> findings;    // in the order of lines
  std::size_t errors() const;
};

LintReport lint(const LogText& log, const RuleSet& set);
LintReport lint_file(const std::string& path, const RuleSet& set);  // throws Error: cannot be read

std::string lint_text(const std::string& path, const LintReport& report, const RuleSet& set);

}  // namespace quadrille
