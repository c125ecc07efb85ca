// SPDX-License-Identifier: Apache-2.0
// See ruleset.h.
#include "benchmarks/rules/ruleset.h"

#include <algorithm>

#include "benchmarks/harness/locate.h"
#include "core/error.h"

namespace quadrille {

namespace {

using Keys = std::vector<KeyRule>;
constexpr int kDeepest = 8;  // sets that extend one another

const std::vector<std::string>& condition_kinds() {
  static const std::vector<std::string> kKinds = {
      "equals",  "one_of",    "above",       "at_least",           "below",   "at_most",
      "integer", "not_empty", "multiple_of", "power_of_two_times", "sum_with"};
  return kKinds;
}

Conditions conditions(const Json& json) {
  Conditions all;
  for (const auto& [kind, wanted] : json.members()) {
    const auto& known = condition_kinds();
    const std::string near = nearest(kind, known);
    require(std::find(known.begin(), known.end(), kind) != known.end(), "{}: unknown condition \"{}\"{}",
            wanted.origin(), kind, near.empty() ? "" : "; did you mean \"" + near + "\"?");
    if (kind == "one_of")
      wanted.items();
    else if (kind == "sum_with")
      wanted.at("key").string(), wanted.at("total").number();
    else if (kind != "equals" && kind != "integer" && kind != "not_empty")
      wanted.number();
    all.push_back({kind, wanted});
  }
  return all;
}

void read_metadata(const Json& json, KeyRule& rule) {
  for (const Json& alternative : json.items()) {
    KeyRule::Metadata fields;
    for (const auto& [name, value] : alternative.members()) fields.emplace_back(name, conditions(value));
    rule.metadata.push_back(std::move(fields));
  }
}

KeyRule key_rule(const Json& json) {
  Reader reader(json, "keys");
  KeyRule rule;
  rule.key = reader.string("key");
  const std::string count = reader.choice("count", {"one", "some", "optional"});
  rule.count = count == "one" ? KeyRule::Count::one : count == "some" ? KeyRule::Count::some : KeyRule::Count::optional;
  rule.alternative = reader.string("or", "");
  rule.closed_only = reader.boolean("closed_only", false);
  if (const Json* when = reader.value("when")) {
    require(when->size() == 1, "{}: wanted one key and its value", when->origin());
    rule.when_key = when->members().front().first, rule.when_value = when->members().front().second;
  }
  if (const Json* value = reader.value("value")) rule.value = conditions(*value);
  if (const Json* value = reader.value("one_value")) rule.one_value = conditions(*value);
  if (const Json* metadata = reader.value("metadata")) read_metadata(*metadata, rule);
  if (const Json* after = reader.value("after"))
    for (const Json& key : after->items()) rule.after.push_back(key.string());
  if (const Json* minutes = reader.value("minutes"))
    rule.minutes =
        KeyRule::Minutes{minutes->at("since").string(), minutes->at("closed").number(), minutes->at("open").number()};
  reader.done();
  return rule;
}

// A rule of the same key takes the place of the older one.
void add_rules(Keys& keys, const Json* list) {
  if (!list) return;
  for (const Json& json : list->items()) {
    KeyRule rule = key_rule(json);
    const auto old = std::find_if(keys.begin(), keys.end(), [&](const KeyRule& k) { return k.key == rule.key; });
    if (old == keys.end())
      keys.push_back(std::move(rule));
    else
      *old = std::move(rule);
  }
}

BenchmarkRules benchmark_rules(const std::string& name, const Json& json, const Keys& common) {
  Reader reader(json, name);
  BenchmarkRules rules;
  rules.name = name, rules.closed = rules.open = common;
  const std::int64_t runs = reader.integer("runs");
  rules.evaluate_every = reader.integer("evaluate_every_samples", 0);
  rules.counted = reader.choice("counted", {"epoch_num", "samples_count"});
  require(runs > 0 && runs <= 10000, "{}: {} runs, wanted 1 to 10000", reader.origin_of("runs"), runs);
  rules.runs = static_cast<int>(runs);
  add_rules(rules.closed, reader.value("keys"));
  const Json* open = reader.value("open");
  if (open)
    add_rules(rules.open, open);
  else
    rules.open = rules.closed;
  reader.done();
  return rules;
}

RuleSet read_set(const std::string& name_or_path, int depth) {
  require(depth < kDeepest, "rule set {}: more than {} sets extend one another; is it a circle?", name_or_path,
          kDeepest);
  const Json document = read_json(locate_document("rule set", kRuleSets, name_or_path));
  Reader reader(document, "");
  RuleSet set;
  set.name = reader.string("name");
  set.description = reader.string("description", "");
  reader.string("sources", "");
  if (const std::string base = reader.string("extends", ""); !base.empty()) set.keys = read_set(base, depth + 1).keys;
  add_rules(set.keys, reader.value("keys"));
  if (const Json* benchmarks = reader.value("benchmarks"))
    for (const auto& [name, json] : benchmarks->members())
      set.benchmarks.push_back(benchmark_rules(name, json, set.keys));
  reader.done();
  return set;
}

}  // namespace

const BenchmarkRules* RuleSet::find(std::string_view benchmark) const {
  for (const BenchmarkRules& rules : benchmarks)
    if (rules.name == benchmark) return &rules;
  return nullptr;
}

RuleSet read_ruleset(const std::string& name_or_path) {
  RuleSet set = read_set(name_or_path, 0);
  require(!set.benchmarks.empty(), "rule set {} knows no benchmark: it is what others extend; take one of those",
          set.name);
  return set;
}

std::vector<std::string> ruleset_names() {
  std::vector<std::string> names;
  for (const std::string& name : document_names(kRuleSets))
    if (!read_set(name, 0).benchmarks.empty()) names.push_back(name);
  return names;
}

std::string ruleset_of_benchmark(std::string_view benchmark) {
  for (const std::string& name : ruleset_names())
    if (read_set(name, 0).find(benchmark)) return name;
  return {};
}

std::vector<std::string> rule_names(const KeyRule& rule) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view what) { names.push_back(fmt::format("{}.{}", rule.key, what)); };
  if (rule.count != KeyRule::Count::optional) add("count");
  for (const Condition& condition : rule.value) add(condition.kind);
  for (const Condition& condition : rule.one_value) add(condition.kind);
  if (!rule.metadata.empty()) add("metadata");
  for (const std::string& key : rule.after) add("after_" + key);
  if (rule.minutes) add("minutes");
  return names;
}

}  // namespace quadrille
