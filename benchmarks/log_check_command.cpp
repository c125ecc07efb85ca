// SPDX-License-Identifier: Apache-2.0
// `quadrille log-check`: one line per finding, then a sum.
#include <fmt/core.h>

#include "benchmarks/commands.h"
#include "benchmarks/rules/lint.h"

namespace quadrille {

int log_check_command(const LogCheckOptions& options) {
  const RuleSet set = read_ruleset(options.ruleset);
  std::size_t errors = 0;
  for (const std::string& file : options.files) {
    const LintReport report = lint_file(file, set);
    fmt::print("{}", lint_text(file, report, set));
    errors += report.errors();
  }
  return errors == 0 ? exit_code::kGood : exit_code::kNotValid;
}

}  // namespace quadrille
