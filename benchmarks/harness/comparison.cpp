// SPDX-License-Identifier: Apache-2.0
// See comparison.h.
#include "benchmarks/harness/comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "benchmarks/harness/peaks.h"
#include "benchmarks/harness/screen.h"
#include "benchmarks/harness/text.h"
#include "benchmarks/harness/verdict.h"
#include "core/error.h"

namespace quadrille {

namespace {

using Align = TextTable::Align;

// Leaf by leaf, so that the difference is named and not two whole sections.
void differences_of(const Json* a, const Json* b, const std::string& path, std::vector<Difference>& list) {
  if (a && b && *a == *b) return;
  if (a && b && a->is_object() && b->is_object()) {
    for (const auto& [key, value] : a->members()) differences_of(&value, b->find(key), path + "." + key, list);
    for (const auto& [key, value] : b->members())
      if (!a->find(key)) differences_of(nullptr, &value, path + "." + key, list);
    return;
  }
  list.push_back({path, a ? a->text() : "absent", b ? b->text() : "absent"});
}

void add(std::vector<Difference>& list, const char* name, const std::string& a, const std::string& b) {
  if (a != b) list.push_back({name, a, b});
}

std::string fact(const Record& record, std::string_view key) {
  const Json* value = record.environment.find(key);
  return !value ? "absent" : value->is_string() ? value->string() : value->text();
}

// 0 for equal bits, not-a-numbers included.
double relative(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double scale = std::max(std::abs(a), std::abs(b));
  const double difference = std::abs(a - b) / scale;
  return std::isnan(difference) ? INFINITY : difference;
}

void compare_conditions(const Record& a, const Record& b, Comparison& c) {
  for (const char* section : {"model", "data", "training"})
    differences_of(a.configuration.find(section), b.configuration.find(section), section, c.numbers);
  add(c.numbers, "seed", fmt::format("{}", a.seed), fmt::format("{}", b.seed));
  add(c.surroundings, "strategy", a.strategy, b.strategy);
  add(c.surroundings, "mesh", mesh_text(a.mesh), mesh_text(b.mesh));
  add(c.surroundings, "back end", a.backend, b.backend);
  add(c.surroundings, "world", a.world, b.world);
  add(c.surroundings, "cores", fmt::format("{}", a.peak.cores), fmt::format("{}", b.peak.cores));
  for (const char* key :
       {"host", "cpu_model", "system", "compiler", "compiler_flags", "build_type", "source_revision", "libraries"})
    add(c.surroundings, key, fact(a, key), fact(b, key));
}

void compare_steps(const Record& a, const Record& b, double tolerance, Comparison& c) {
  c.first_steps = static_cast<std::int64_t>(a.steps.size());
  c.second_steps = static_cast<std::int64_t>(b.steps.size());
  std::size_t i = 0, j = 0;
  while (i < a.steps.size() && j < b.steps.size()) {
    const StepLine &x = a.steps[i], &y = b.steps[j];
    if (x.step != y.step) {
      x.step < y.step ? ++i : ++j;
      continue;
    }
    ++c.common_steps, ++i, ++j;
    const double difference = relative(x.loss, y.loss);
    c.largest_norm_difference = std::max(c.largest_norm_difference, relative(x.gradient_norm, y.gradient_norm));
    if (difference == 0) ++c.equal_steps;
    if (difference > tolerance && !c.first_divergence) c.first_divergence = x.step;
    if (difference > c.largest_difference) c.largest_difference = difference, c.largest_at = x.step;
  }
}

void compare_evaluations(const Record& a, const Record& b, double tolerance, Comparison& c) {
  c.first_evaluations = static_cast<std::int64_t>(a.evaluations.size());
  c.second_evaluations = static_cast<std::int64_t>(b.evaluations.size());
  for (const EvaluationLine& x : a.evaluations)
    for (const EvaluationLine& y : b.evaluations) {
      if (x.step != y.step) continue;
      ++c.common_evaluations;
      if (relative(x.quality, y.quality) > tolerance && !c.first_evaluation_apart) c.first_evaluation_apart = x.step;
      break;
    }
}

bool equal(const std::optional<double>& a, const std::optional<double>& b) {
  constexpr double kRounding = 1e-9;
  return a.has_value() == b.has_value() && (!a || relative(*a, *b) <= kRounding);
}

void require_own_statistics(const Record& record) {
  const StepStatistics &said = record.step_statistics, found = step_statistics(record.steps);
  const bool agree = said.status == found.status && said.count == found.count &&
                     said.warm_up_steps == found.warm_up_steps && equal(said.median_seconds, found.median_seconds) &&
                     equal(said.p5_seconds, found.p5_seconds) && equal(said.p95_seconds, found.p95_seconds) &&
                     equal(said.min_seconds, found.min_seconds) && equal(said.max_seconds, found.max_seconds) &&
                     equal(said.mean_seconds, found.mean_seconds) &&
                     equal(said.labels_per_second, found.labels_per_second);
  const auto median = [](const StepStatistics& s) {
    return s.median_seconds ? text_seconds(*s.median_seconds) : s.status;
  };
  require(
      agree,
      "the record of {} (seed {}) contradicts itself: its step_statistics (median {} of {} steps) are not those of its "
      "steps (median {} of {}); one of the two was changed after the run",
      record.suite, record.seed, median(said), said.count, median(found), found.count);
}

std::string table_of(const std::vector<Difference>& list) {
  TextTable table({{"", Align::left}, {"first", Align::left}, {"second", Align::left}});
  const auto short_of = [](const std::string& text) { return text.size() > 60 ? text.substr(0, 57) + "..." : text; };
  for (const Difference& line : list) table.row({line.name, short_of(line.first), short_of(line.second)});
  return table.text();
}

std::string times_text(const Record& a, const Record& b, const Comparison& c) {
  const auto &x = a.step_statistics.median_seconds, &y = b.step_statistics.median_seconds;
  std::string text = fmt::format("Median step  {} and {}", x ? text_seconds(*x) : "too few steps",
                                 y ? text_seconds(*y) : "too few steps");
  if (!x || !y) return text + "\n";
  if (!(*x > 0) || !(*y > 0)) return text + "; not divided: a step takes time\n";
  if (!c.numbers.empty()) return text + fmt::format("; not divided: {} differs\n", c.numbers.front().name);
  for (const Difference& line : c.surroundings)
    if (line.name == "cpu_model" || line.name == "cores" || line.name == "host")
      return text + fmt::format("; not divided: {} differs\n", line.name);
  return text + fmt::format(": the second takes {:.3f} of the first\n", *y / *x);
}

}  // namespace

std::vector<std::string> doubts_of(const Record& record) {
  require_own_statistics(record);
  std::vector<std::string> doubts = record.verdict.reasons;
  if (!record.verdict.valid && doubts.empty()) doubts.emplace_back("its verdict is not valid");
  for (const std::string& reason : judge(record).reasons)
    if (std::find(doubts.begin(), doubts.end(), reason) == doubts.end()) doubts.push_back(reason);
  return doubts;
}

std::string doubts_text(const Record& record) {
  std::string text;
  for (const std::string& doubt : doubts_of(record))
    text += fmt::format("NOT VALID: {} (seed {}): {}\n", record.suite, record.seed, doubt);
  return text;
}

Comparison compare_records(const Record& first, const Record& second, double tolerance) {
  Comparison comparison;
  compare_conditions(first, second, comparison);
  compare_steps(first, second, tolerance, comparison);
  compare_evaluations(first, second, tolerance, comparison);
  const bool evaluations_same = comparison.first_evaluations == comparison.second_evaluations &&
                                comparison.common_evaluations == comparison.first_evaluations &&
                                !comparison.first_evaluation_apart;
  comparison.same =
      evaluations_same && comparison.numbers.empty() && comparison.first_steps == comparison.second_steps &&
      comparison.common_steps == comparison.first_steps && comparison.common_steps > 0 && !comparison.first_divergence;
  return comparison;
}

std::string comparison_text(const Record& first, const Record& second, const Comparison& c, double tolerance) {
  std::string text = fmt::format("{} (seed {}) and {} (seed {})\n\n", suite_title(first), first.seed,
                                 suite_title(second), second.seed);
  text += c.numbers.empty() ? "Model, data, training and seed are the same.\n"
                            : "Conditions that change the numbers\n" + table_of(c.numbers);
  if (!c.surroundings.empty())
    text += "Conditions that change times, and at most rounding\n" + table_of(c.surroundings);
  text += fmt::format("\nSteps        {} and {}, {} in common; {} losses equal bit for bit\n", c.first_steps,
                      c.second_steps, c.common_steps, c.equal_steps);
  text += c.first_divergence ? fmt::format("Divergence   first at step {} (relative difference above {:g})\n",
                                           *c.first_divergence, tolerance)
                             : fmt::format("Divergence   none beyond {:g}\n", tolerance);
  if (c.first_divergence && c.numbers.empty() && !c.surroundings.empty())
    text +=
        "             another layout, back end or machine rounds differently; --tolerance says what counts as equal\n";
  if (c.largest_difference > 0)
    text += fmt::format("Largest      {:.3g} of the loss at step {}; {:.3g} of the gradient norm\n",
                        c.largest_difference, c.largest_at, c.largest_norm_difference);
  text += fmt::format("Evaluations  {} and {}, {} in common; {}\n", c.first_evaluations, c.second_evaluations,
                      c.common_evaluations,
                      c.first_evaluation_apart
                          ? fmt::format("the first beyond {:g} after step {}", tolerance, *c.first_evaluation_apart)
                          : fmt::format("none beyond {:g}", tolerance));
  text += times_text(first, second, c);
  return text + fmt::format("\n{}\n", c.same ? "SAME" : "DIFFERENT");
}

}  // namespace quadrille
