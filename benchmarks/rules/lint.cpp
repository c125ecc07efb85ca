// SPDX-License-Identifier: Apache-2.0
// See lint.h.
#include "benchmarks/rules/lint.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "benchmarks/harness/text.h"
#include "core/error.h"

namespace quadrille {

namespace {

using LinesOfKey = std::vector<const LogLine*>;

std::string shown(const Json& value) {
  constexpr std::size_t kWidest = 60;
  const std::string text = value.text();
  return text.size() > kWidest ? text.substr(0, kWidest) + "..." : text;
}

bool numeric(const Json& value) {
  return value.is_number() ||
         (value.is_string() && (value.string() == "nan" || value.string() == "inf" || value.string() == "-inf"));
}

bool same(const Json& a, const Json& b) { return a.is_number() && b.is_number() ? a.number() == b.number() : a == b; }

bool whole(double value) { return std::abs(value - std::round(value)) < 1e-6; }

std::string wanted_text(const Condition& c) {
  if (c.kind == "equals") return shown(c.wanted);
  if (c.kind == "one_of") {
    std::string all = "one of";
    for (const Json& one : c.wanted.items()) all += fmt::format(" {}", one.text());
    return all;
  }
  if (c.kind == "integer") return "an integer";
  if (c.kind == "not_empty") return "something that is not empty";
  if (c.kind == "multiple_of") return "a multiple of " + c.wanted.text();
  if (c.kind == "power_of_two_times") return c.wanted.text() + " times a power of two";
  if (c.kind == "sum_with")
    return fmt::format("{} together with {}", c.wanted.at("total").text(), c.wanted.at("key").string());
  std::string words = c.kind;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words + " " + c.wanted.text();
}

class Linter {
 public:
  Linter(const LogText& log, const RuleSet& set) : log_(log), set_(set) { report_.findings = log.findings; }

  LintReport go() {
    report_.division = text_of("submission_division");
    const std::vector<KeyRule>& rules = rules_to_hold();
    for (const KeyRule& rule : rules) {
      if (!rule.when_key.empty() && !has(rule.when_key, rule.when_value)) continue;
      if (rule.closed_only && report_.division == "open") continue;
      hold(rule);
    }
    std::stable_sort(report_.findings.begin(), report_.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.line < b.line; });
    return std::move(report_);
  }

 private:
  LinesOfKey lines_of(std::string_view key) const {
    LinesOfKey lines;
    for (const LogLine& line : log_.lines)
      if (line.key == key) lines.push_back(&line);
    return lines;
  }
  std::string text_of(std::string_view key) const {
    for (const LogLine& line : log_.lines)
      if (line.key == key && line.value.is_string()) return line.value.string();
    return {};
  }
  bool has(std::string_view key, const Json& value) const {
    for (const LogLine& line : log_.lines)
      if (line.key == key && same(line.value, value)) return true;
    return false;
  }
  void add(std::int64_t line, const std::string& key, std::string_view rule, std::string text, bool warning = false) {
    report_.findings.push_back({line, warning, key, fmt::format("{}.{}", key, rule), std::move(text)});
  }

  const std::vector<KeyRule>& rules_to_hold() {
    constexpr const char* kKey = "submission_benchmark";
    report_.benchmark = text_of(kKey);
    const BenchmarkRules* rules = set_.find(report_.benchmark);
    if (rules) return report_.division == "open" ? rules->open : rules->closed;
    const LinesOfKey lines = lines_of(kKey);
    if (lines.empty()) return set_.keys;  // its absence is found there
    std::vector<std::string> known;
    std::string all;
    for (const BenchmarkRules& one : set_.benchmarks)
      known.push_back(one.name), all += (all.empty() ? "" : ", ") + one.name;
    const std::string near = nearest(report_.benchmark, known);
    add(lines.front()->number, kKey, "known",
        fmt::format("{} is no benchmark of rule set {}{}; known: {}. Only what all logs need is checked",
                    shown(lines.front()->value), set_.name, near.empty() ? "" : ", did you mean " + near + "?", all));
    return set_.keys;
  }

  void hold(const KeyRule& rule) {
    const LinesOfKey lines = lines_of(rule.key);
    hold_count(rule, lines);
    for (const LogLine* line : lines) {
      hold_value(rule, *line);
      hold_metadata(rule, *line);
      hold_minutes(rule, *line);
    }
    hold_order(rule, lines);
    hold_one_value(rule, lines);
  }

  void hold_count(const KeyRule& rule, const LinesOfKey& lines) {
    if (rule.count == KeyRule::Count::optional) return;
    if (lines.empty()) {
      if (!rule.alternative.empty() && !lines_of(rule.alternative).empty()) return;
      const std::string also = rule.alternative.empty() ? "" : ", nor any " + rule.alternative;
      return add(log_.last_line, rule.key, "count", fmt::format("the log has no such line{}", also));
    }
    if (rule.count == KeyRule::Count::some) return;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const bool alike = same(lines[i]->value, lines.front()->value);
      add(lines[i]->number, rule.key, "count",
          fmt::format("stands in line {} already{}; wanted exactly one", lines.front()->number,
                      alike ? " with the same value" : ", with another value"),
          alike);
    }
  }

  bool holds(const Condition& c, const Json& value, std::int64_t line) const {
    if (c.kind == "equals") return same(value, c.wanted);
    if (c.kind == "one_of")
      return std::any_of(c.wanted.items().begin(), c.wanted.items().end(),
                         [&](const Json& one) { return same(value, one); });
    if (c.kind == "not_empty") return !(value.is_null() || (value.is_string() && value.string().empty()));
    if (c.kind == "integer") return value.is_integer();
    if (!numeric(value)) return false;
    const double number = value.number();
    if (c.kind == "sum_with") return sums(c, number, line);
    const double bound = c.wanted.number();
    if (c.kind == "above") return number > bound;
    if (c.kind == "at_least") return number >= bound;
    if (c.kind == "below") return number < bound;
    if (c.kind == "at_most") return number <= bound;
    const double ratio = number / bound;
    if (!std::isfinite(ratio)) return false;
    return c.kind == "multiple_of" ? whole(ratio) : ratio > 0 && whole(std::log2(ratio));
  }

  bool sums(const Condition& c, double number, std::int64_t line) const {
    for (const LogLine* other : lines_of(c.wanted.at("key").string()))
      if (other->number <= line && numeric(other->value))
        return number + other->value.number() == c.wanted.at("total").number();
    return true;  // that the other is missing or comes later is told by its own rule
  }

  void hold_value(const KeyRule& rule, const LogLine& line) {
    for (const Condition& c : rule.value)
      if (!holds(c, line.value, line.number))
        add(line.number, rule.key, c.kind, fmt::format("{} found, wanted {}", shown(line.value), wanted_text(c)));
  }

  void hold_one_value(const KeyRule& rule, const LinesOfKey& lines) {
    if (rule.one_value.empty() || lines.empty()) return;
    const auto good = [&](const LogLine* line) {
      return std::all_of(rule.one_value.begin(), rule.one_value.end(),
                         [&](const Condition& c) { return holds(c, line->value, line->number); });
    };
    if (std::any_of(lines.begin(), lines.end(), good)) return;
    const LogLine& last = *lines.back();  // the others are no better
    for (const Condition& c : rule.one_value)
      if (!holds(c, last.value, last.number))
        add(last.number, rule.key, c.kind,
            fmt::format("none of {} values will do: the last is {}, wanted {}", lines.size(), shown(last.value),
                        wanted_text(c)));
  }

  void hold_metadata(const KeyRule& rule, const LogLine& line) {
    if (rule.metadata.empty()) return;
    std::string wanted;
    for (const KeyRule::Metadata& fields : rule.metadata) {
      bool good = true;
      std::string all;
      for (const auto& [name, conditions] : fields) {
        all += (all.empty() ? "" : " and ") + name;
        for (const Condition& c : conditions) all += fmt::format(" {}", wanted_text(c));
        const Json* value = line.metadata.find(name);
        good = good && value && std::all_of(conditions.begin(), conditions.end(), [&](const Condition& c) {
                 return holds(c, *value, line.number);
               });
      }
      if (good) return;
      wanted += (wanted.empty() ? "" : ", or ") + all;
    }
    add(line.number, rule.key, "metadata", fmt::format("metadata {}, wanted {}", shown(line.metadata), wanted));
  }

  void hold_order(const KeyRule& rule, const LinesOfKey& lines) {
    for (const std::string& key : rule.after) {
      const LinesOfKey others = lines_of(key);
      if (lines.empty() || others.empty() || lines.front()->number > others.front()->number) continue;
      add(lines.front()->number, rule.key, "after_" + key,
          fmt::format("stands before the first {} (line {}); wanted after it", key, others.front()->number));
    }
  }

  void hold_minutes(const KeyRule& rule, const LogLine& line) {
    if (!rule.minutes) return;
    const LinesOfKey since = lines_of(rule.minutes->since);
    if (since.empty()) return;
    const double minutes = (line.time_ms - since.front()->time_ms) / 60000;
    const double limit = report_.division == "open" ? rule.minutes->open : rule.minutes->closed;
    if (!(minutes < limit))
      add(line.number, rule.key, "minutes",
          fmt::format("{:.1f} minutes after {}, wanted less than {:g}", minutes, rule.minutes->since, limit));
  }

  const LogText& log_;
  const RuleSet& set_;
  LintReport report_;
};

}  // namespace

std::size_t LintReport::errors() const {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [](const Finding& f) { return !f.warning; }));
}

LintReport lint(const LogText& log, const RuleSet& set) { return Linter(log, set).go(); }

LintReport lint_file(const std::string& path, const RuleSet& set) {
  require(!std::filesystem::is_directory(path), "{} is a folder, wanted the log of a run (result_0.txt)", path);
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "cannot read {}", path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return lint(read_log_text(text), set);
}

std::string lint_text(const std::string& path, const LintReport& report, const RuleSet& set) {
  std::string text;
  for (const Finding& f : report.findings)
    text += text_shortened(fmt::format("{}:{}: {}{}{} [{}]", path, f.line, f.warning ? "warning: " : "",
                                       f.key.empty() ? "" : f.key + ": ", f.text, f.rule)) +
            "\n";
  const std::size_t errors = report.errors(), warnings = report.findings.size() - errors;
  text += fmt::format("{}: {} finding{}, {} warning{} by rule set {} ({}{})\n", path, errors, errors == 1 ? "" : "s",
                      warnings, warnings == 1 ? "" : "s", set.name,
                      report.benchmark.empty() ? "no benchmark named" : report.benchmark,
                      report.division.empty() ? "" : ", " + report.division + " division");
  return text;
}

}  // namespace quadrille
