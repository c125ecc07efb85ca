// SPDX-License-Identifier: Apache-2.0
// Hostile event logs and rule sets for the log checker. Input: a rule set's number, a log, and (number 0) a rule set.
// Promises: a log never throws, whatever it holds; each finding names a line of it, in order.
#include <algorithm>
#include <optional>

#include "benchmarks/rules/lint.h"
#include "tests/fuzz/fuzz.h"

using namespace quadrille;

namespace {

const std::vector<RuleSet>& shipped() {
  static const std::vector<RuleSet> kSets = [] {
    std::vector<RuleSet> sets;
    for (const std::string& name : ruleset_names()) sets.push_back(read_ruleset(name));
    return sets;
  }();
  return kSets;
}

void check(const LogText& log, const RuleSet& set) {
  const LintReport report = lint(log, set);
  std::int64_t last = 0;
  for (const Finding& finding : report.findings) {
    promise(finding.line >= last && finding.line <= log.last_line, "findings name lines, in order");
    promise(!finding.rule.empty() && !finding.text.empty(), "findings say what and why");
    last = finding.line;
  }
  lint_text("log", report, set);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const unsigned choice = input.byte();
  const LogText log = read_log_text(input.piece());
  if (choice > 0) {
    check(log, shipped()[choice % shipped().size()]);
    return 0;
  }
  std::optional<RuleSet> set;
  if (answers([&] { set = read_ruleset(file_of("set.json", input.rest())); })) check(log, *set);
  return 0;
}
