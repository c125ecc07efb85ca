// SPDX-License-Identifier: Apache-2.0
// The emitter and the log checker judge each other: golden logs are what the emitter writes and have no findings; one
// planted fault per rule of each set is found under that rule's name.
#include "benchmarks/rules/lint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "tests/benchmarks/golden.h"
#include "tests/benchmarks/samples.h"

namespace quadrille {
namespace {

bool found(const LintReport& report, const std::string& rule) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [&](const Finding& f) { return f.rule == rule && !f.warning; });
}

std::string first_of(const LintReport& report) {
  return report.findings.empty() ? "" : report.findings.front().rule + ": " + report.findings.front().text;
}

// The numbers of source lines move with every edit of the emitter.
std::string without_places(const std::string& text) {
  std::vector<Json> lines = lines_of_log(text);
  for (Json& line : lines) line.find("metadata")->set("lineno", 0);
  return text_of_lines(lines);
}

TEST(Golden, AreWhatTheEmitterWrites) {
  for (const GoldenLog& log : golden_logs()) {
    const std::string path = std::string(SOURCE_FOLDER) + "/tests/golden/golden_" + log.name + ".txt";
    std::ifstream file(path);
    const std::string kept{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const std::string now = golden_text(log.name);
    const std::string fresh = testing::TempDir() + "golden_" + log.name + ".txt";
    const bool same = without_places(kept) == without_places(now);
    if (!same) std::ofstream(fresh) << now;
    EXPECT_TRUE(same) << "the emitter writes another log now: compare " << fresh << " with " << path;
  }
}

TEST(Golden, PassTheirRuleSets) {
  for (const GoldenLog& log : golden_logs()) {
    const LintReport report = lint(read_log_text(golden_text(log.name)), read_ruleset(log.ruleset));
    EXPECT_EQ(report.benchmark, log.name);
    EXPECT_EQ(report.findings.size(), 0U) << log.name << ": " << first_of(report);
    EXPECT_EQ(ruleset_of_benchmark(log.name), log.ruleset);
  }
}

// A value that breaks one condition and, where possible, no other.
Json bad_value(const Condition& c) {
  if (c.kind == "above" || c.kind == "below") return c.wanted;
  if (c.kind == "at_least") return c.wanted.number() - 1;
  if (c.kind == "at_most") return c.wanted.number() + 1;
  if (c.kind == "integer") return 1.5;
  if (c.kind == "not_empty") return "";
  if (c.kind == "multiple_of") return 1.5 * c.wanted.number();
  if (c.kind == "power_of_two_times") return 3 * c.wanted.number();
  if (c.kind == "sum_with") return c.wanted.at("total").number() + 1;
  return "wrong";  // equals, one_of
}

class Planter {
 public:
  explicit Planter(const std::string& text) : good_(lines_of_log(text)) {}

  LintReport with(const KeyRule& rule, const std::string& name, const RuleSet& set) const {
    std::vector<Json> lines = good_;
    const std::string aspect = name.substr(rule.key.size() + 1);
    const auto is = [](const std::string& key) {
      return [key](const Json& line) { return line.at("key").string() == key; };
    };
    if (aspect == "count") {
      std::erase_if(lines, is(rule.key));
      std::erase_if(lines, is(rule.alternative));
      return lint(read_log_text(text_of_lines(lines)), set);
    }
    if (std::none_of(lines.begin(), lines.end(), is(rule.key))) {
      Json line = lines.back();
      line.set("key", rule.key), line.set("value", Json()), line.set("metadata", Json::object());
      lines.push_back(line);
    }
    if (aspect.starts_with("after_")) {
      const auto line = std::find_if(lines.begin(), lines.end(), is(rule.key));
      const Json moved = *line;
      lines.erase(line);
      lines.insert(std::find_if(lines.begin(), lines.end(), is(aspect.substr(6))), moved);
    }
    for (Json& line : lines) {
      if (!is(rule.key)(line)) continue;
      if (aspect == "metadata") line.set("metadata", Json::object());
      if (aspect == "minutes") line.set("time_ms", line.at("time_ms").number() + rule.minutes->closed * 60000);
      for (const Conditions* conditions : {&rule.value, &rule.one_value})
        for (const Condition& c : *conditions)
          if (c.kind == aspect) line.set("value", bad_value(c));
    }
    return lint(read_log_text(text_of_lines(lines)), set);
  }

 private:
  std::vector<Json> good_;
};

TEST(LogCheck, EachRuleOfEachSetFindsItsFault) {
  const std::vector<GoldenLog> variants = {
      {"resnet_sgd", "4.0.0"}, {"gpt_synthetic", "house"}, {"gpt_synthetic_sgd", "house"}};
  std::vector<GoldenLog> logs = golden_logs();
  logs.insert(logs.end(), variants.begin(), variants.end());
  std::size_t planted = 0;
  for (const GoldenLog& log : logs) {
    const std::string text = golden_text(log.name);
    const RuleSet set = read_ruleset(log.ruleset);
    const LintReport good = lint(read_log_text(text), set);
    ASSERT_EQ(good.findings.size(), 0U) << log.name << ": " << first_of(good);
    const Planter planter(text);
    for (const KeyRule& rule : set.find(good.benchmark)->closed) {
      const std::string other = log.name.ends_with("_sgd") ? "sgd" : log.name == "resnet" ? "lars" : "adamw";
      if (!rule.when_key.empty() && !(rule.when_value == Json(other))) continue;
      for (const std::string& name : rule_names(rule)) {
        EXPECT_TRUE(found(planter.with(rule, name, set), name)) << log.name << ": " << name << " is not found";
        ++planted;
      }
    }
  }
  EXPECT_GT(planted, 300U);  // else the tables were not read
}

TEST(LogCheck, TwoLinesOfOneKey) {
  const RuleSet set = read_ruleset("6.1.0");
  std::vector<Json> lines = lines_of_log(golden_text("llama31_8b"));
  const auto batch = std::find_if(lines.begin(), lines.end(),
                                  [](const Json& line) { return line.at("key").string() == "global_batch_size"; });
  Json twice = *batch;
  lines.push_back(twice);
  LintReport report = lint(read_log_text(text_of_lines(lines)), set);
  EXPECT_EQ(report.errors(), 0U);
  ASSERT_EQ(report.findings.size(), 1U);  // the same value twice: a warning
  EXPECT_EQ(report.findings[0].line, static_cast<std::int64_t>(lines.size()));
  twice.set("value", 1);
  lines.back() = twice;
  EXPECT_TRUE(found(lint(read_log_text(text_of_lines(lines)), set), "global_batch_size.count"));
}

TEST(LogCheck, OpenDivisionAsPublished) {
  const RuleSet set = read_ruleset("6.1.0");
  std::vector<Json> lines = lines_of_log(golden_text("llama31_8b"));
  for (Json& line : lines)
    if (line.at("key").string() == "submission_division") line.set("value", "open");
  EXPECT_TRUE(found(lint(read_log_text(text_of_lines(lines)), set), "eval_accuracy.below"));  // docs/rules.md says why
}

TEST(LogCheck, BenchmarkTheSetDoesNotKnow) {
  std::vector<Json> lines = lines_of_log(golden_text("resnet"));
  const LintReport report = lint(read_log_text(text_of_lines(lines)), read_ruleset("5.0.0"));
  EXPECT_TRUE(found(report, "submission_benchmark.known"));
}

struct Odd {
  const char* text;
  const char* rule;  // "": none of these is found, the line is read
};

TEST(LogCheck, OddLinesAreToldAndTheOthersRead) {
  const std::string good = R"(:::MLLOG {"time_ms": 1, "key": "seed", "value": 3, "metadata": {}})";
  const std::vector<Odd> cases = {
      {R"(:::MLLOG {"time_ms": 1, "key": "k", "value": {0}, "metadata": {}})", "line.json"},
      {R"(:::MLLOG {"time_ms": 1, "key": "k", "metadata": {}})", "line.value"},
      {R"(:::MLLOG {"time_ms": 1, "key": "k", "value": 1})", "line.metadata"},
      {R"(:::MLLOG {"time_ms": 1, "value": 1, "metadata": {}})", "line.key"},
      {R"(:::MLLOG {"key": "k", "value": 1, "metadata": {}})", "line.time_ms"},
      {R"(:::MLLOG {"time_ms": "soon", "key": "k", "value": 1, "metadata": {}})", "line.time_ms"},
      {R"(:::MLLOG [1])", "line.object"},
      {R"(:::MLLOG {"time_ms": 1, "key": "k", "value": 1, "metadata": {}} and more)", "line.json"},
      {R"(:::MLLOG )", "line.json"},
      {R"(:::MLLOG {"time_ms": "17e3", "key": "k", "value": NaN, "metadata": {"a": -Infinity}})", ""},
      {"4: rank 4 :::MLLOG {\"time_ms\": 1, \"key\": \"\xe9\", \"value\": null, \"metadata\": {}}\r", ""},
      {"nothing of ours", nullptr}};
  for (const Odd& odd : cases) {
    const LogText log = read_log_text(std::string(odd.text) + "\n" + good + "\r\n");
    const bool is_line = odd.rule && *odd.rule == '\0';
    ASSERT_EQ(log.lines.size(), is_line ? 2U : 1U) << odd.text;
    EXPECT_EQ(log.lines.back().number, 2);
    ASSERT_EQ(log.findings.size(), odd.rule && !is_line ? 1U : 0U) << odd.text;
    if (!log.findings.empty()) {
      EXPECT_EQ(log.findings[0].rule, odd.rule) << odd.text;
      EXPECT_EQ(log.findings[0].line, 1);
    }
  }
  const LogText glued = read_log_text("0: " + good + good + "\n");
  EXPECT_EQ(glued.lines.size(), 2U);
  ASSERT_EQ(glued.findings.size(), 1U);
  EXPECT_EQ(glued.findings[0].rule, "line.glued");
}

TEST(LogCheck, EmptyFileAndNoEvaluation) {
  const RuleSet set = read_ruleset("house");
  const LintReport empty = lint(read_log_text(""), set);
  EXPECT_TRUE(found(empty, "run_stop.count"));
  EXPECT_EQ(empty.findings.front().line, 0);
  std::vector<Json> lines = lines_of_log(golden_text("gpt_synthetic"));
  std::erase_if(lines, [](const Json& line) { return line.at("key").string().starts_with("eval_a"); });
  EXPECT_TRUE(found(lint(read_log_text(text_of_lines(lines)), set), "eval_accuracy.count"));
}

TEST(LogCheck, OneLinePerFindingAndASum) {
  const RuleSet set = read_ruleset("house");
  const LogText log = read_log_text("\n:::MLLOG {\n");
  const std::string text = lint_text("f", lint(log, set), set);
  EXPECT_NE(text.find("f:2: not JSON"), std::string::npos) << text;
  EXPECT_NE(text.find("f:2: run_start: the log has no such line [run_start.count]\n"), std::string::npos) << text;
  EXPECT_THROW(lint_file(scratch("absent.txt"), set), Error);
}

TEST(RuleSets, UnknownOnesAreNamedWithTheNearest) {
  const auto refusal = [](const std::string& name) {
    try {
      read_ruleset(name);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal("6.1.1").find("did you mean '6.1.0'?"), std::string::npos) << refusal("6.1.1");
  EXPECT_NE(refusal("common").find("knows no benchmark"), std::string::npos);
  const std::string path = scratch("mine.json");
  std::ofstream(path) << R"({"name": "mine", "benchmarks": {"b": {"runs": 1, "counted": "epoch_num",
      "keys": [{"key": "a", "count": "one", "value": {"at_last": 3}}]}}})";
  EXPECT_NE(refusal(path).find("did you mean \"at_least\"?"), std::string::npos) << refusal(path);
  EXPECT_EQ(ruleset_names(), (std::vector<std::string>{"0.7.0", "4.0.0", "4.1.0", "5.0.0", "6.1.0", "house"}));
}

}  // namespace
}  // namespace quadrille
