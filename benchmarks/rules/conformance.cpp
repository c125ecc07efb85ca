// SPDX-License-Identifier: Apache-2.0
// See conformance.h. The rules: training_policies, training_rules.adoc; docs/rules.md tells them in our words.
#include "benchmarks/rules/conformance.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>

#include "benchmarks/harness/locate.h"
#include "benchmarks/harness/text.h"
#include "benchmarks/rules/lint.h"
#include "core/error.h"

namespace quadrille {

namespace {

using Is = RuleState::State;
constexpr const char* kHouse = "house";  // our own rules want runs, but no result of ours is refused for having fewer

class Conformance {
 public:
  Conformance(const std::vector<RunOutcome>& runs, const RulesScore& judged) : runs_(runs), judged_(judged) {
    benchmark_ = runs.empty() ? "" : runs.front().benchmark;
    rules_ = judged.rules(benchmark_);
    for (const RunOutcome& run : runs) {
      std::ifstream file(run.file, std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      logs_.push_back(read_log_text(text));
    }
  }

  std::vector<RuleState> go() {
    if (!rules_)
      add("rule set", Is::unknown, fmt::format("no rule set knows {}", benchmark_.empty() ? "it" : benchmark_));
    logs();
    runs();
    seeds();
    one_configuration();
    target();
    convergence();
    division();
    cache();
    start();
    evaluations();
    add("timing", Is::kept,
        "the clock runs from before the first byte of data is read to the evaluation that reaches the target");
    add("data", Is::unknown,
        "a log does not say which data was read or in which order; the record's checksums and quadrille data verify "
        "do");
    add("review", Is::broken, "not verified by MLCommons: no number of this program is");
    return std::move(states_);
  }

 private:
  void add(std::string rule, Is state, std::string text) {
    states_.push_back({state, std::move(rule), std::move(text)});
  }
  void add(std::string rule, bool kept, std::string text) {
    add(std::move(rule), kept ? Is::kept : Is::broken, std::move(text));
  }
  // The values of a key, over all logs.
  std::vector<const Json*> values(std::string_view key) const {
    std::vector<const Json*> found;
    for (const LogText& log : logs_)
      for (const LogLine& line : log.lines)
        if (line.key == key) found.push_back(&line.value);
    return found;
  }

  void logs() {
    if (!rules_) return;
    std::size_t bad = 0, findings = 0;
    for (const LogText& log : logs_) {
      const std::size_t errors = lint(log, *judged_.set).errors();
      bad += errors > 0, findings += errors;
    }
    add("logs", bad == 0,
        bad == 0 ? fmt::format("all {} pass rule set {}", logs_.size(), judged_.set->name)
                 : fmt::format("{} of {} do not pass rule set {} ({} findings; quadrille log-check names them)", bad,
                               logs_.size(), judged_.set->name, findings));
  }
  void runs() {
    if (rules_)
      add("runs", judged_.score.runs == rules_->runs, fmt::format("{}, {} wanted", judged_.score.runs, rules_->runs));
  }
  void seeds() {
    std::set<std::int64_t> all;
    std::size_t count = 0;
    bool each = true;
    for (const RunOutcome& run : runs_) {
      each = each && !run.seeds.empty();
      count += run.seeds.size();
      all.insert(run.seeds.begin(), run.seeds.end());
    }
    add("seeds", each && all.size() == count,
        each ? all.size() == count ? "logged, each once" : "some occur twice" : "not every run logged one");
  }
  void one_configuration() {
    const RunOutcome& first = runs_.front();
    const bool alike = std::all_of(runs_.begin(), runs_.end(), [&](const RunOutcome& run) {
      return run.batch_size == first.batch_size && run.configuration_digest == first.configuration_digest &&
             run.benchmark == first.benchmark;
    });
    add("one configuration", alike, alike ? "the same benchmark, batch size and configuration" : "the runs differ");
  }
  void target() {
    const int failed = judged_.score.not_converged, allowed = judged_.score.olympic ? 1 : 0;
    const bool believed =
        std::all_of(runs_.begin(), runs_.end(), [](const RunOutcome& run) { return run.faults.empty(); });
    add("target", failed <= allowed && believed,
        fmt::format("{} of {} runs did not reach it, {} allowed{}", failed, runs_.size(), allowed,
                    believed ? "" : "; some that say so are not believed"));
  }
  void convergence() {
    if (!judged_.convergence)
      return add("convergence", Is::unknown, "there are no reference points for this benchmark");
    const ConvergenceVerdict& verdict = *judged_.convergence;
    add("convergence", !verdict.known ? Is::unknown : verdict.accepted ? Is::kept : Is::broken, verdict.text);
  }
  void division() {
    const auto all = values("submission_division");
    const bool closed =
        !all.empty() && std::all_of(all.begin(), all.end(), [](const Json* v) { return *v == Json("closed"); });
    add("closed division", closed, closed ? "said by every log" : "open: not held to the reference's hyperparameters");
  }
  void cache() {
    const auto all = values("cache_clear");
    const bool cleared = all.size() >= logs_.size() &&
                         std::all_of(all.begin(), all.end(), [](const Json* v) { return *v == Json(true); });
    add("caches cleared", cleared, cleared ? "before every run" : "not before every run, or the logs do not say so");
  }
  void start() {
    if (benchmark_ != "gpt3" && benchmark_ != "bert")
      return add("start", Is::kept, "no start checkpoint is prescribed");
    const auto all = values("init_checkpoint_step");
    const bool given = all.size() >= logs_.size() && std::all_of(all.begin(), all.end(), [](const Json* v) {
                         return v->is_number() && v->number() > 0;
                       });
    add("start", given, given ? "from a checkpoint, as prescribed" : "not from the prescribed checkpoint");
  }
  // At least as often as the reference, in samples rounded up to a batch.
  void evaluations() {
    if (!rules_ || rules_->evaluate_every == 0) return;
    const std::int64_t batch = std::max<std::int64_t>(1, runs_.front().batch_size);
    const auto every = static_cast<double>((rules_->evaluate_every + batch - 1) / batch * batch);
    double longest = 0;
    for (const LogText& log : logs_) {
      double last = 0;
      for (const LogLine& line : log.lines) {
        const Json* samples = line.metadata.find("samples_count");
        if (line.key != "eval_accuracy" || !samples || !samples->is_number()) continue;
        longest = std::max(longest, samples->number() - last);
        last = samples->number();
      }
    }
    add("evaluations", longest > 0 && longest <= every,
        longest > 0 ? fmt::format("at most {} samples apart, {} wanted", text_grouped(std::llround(longest)),
                                  text_grouped(std::llround(every)))
                    : "none whose place is known");
  }

  const std::vector<RunOutcome>& runs_;
  const RulesScore& judged_;
  std::string benchmark_;
  const BenchmarkRules* rules_ = nullptr;
  std::vector<LogText> logs_;
  std::vector<RuleState> states_;
};

std::vector<double> counts_of(const std::vector<RunOutcome>& runs, const BenchmarkRules& rules) {
  std::vector<double> counts;
  for (const RunOutcome& run : runs) {
    const auto& count = rules.counted == "epoch_num" ? run.epoch_num : run.samples_count;
    if (run.converged && count) counts.push_back(*count);
  }
  return counts;
}

}  // namespace

RulesScore score_by_rules(const std::vector<RunOutcome>& runs) {
  const std::string benchmark = runs.empty() ? "" : runs.front().benchmark;
  const std::string set = ruleset_of_benchmark(benchmark);
  return score_by_rules(runs, set.empty() ? std::nullopt : std::optional(read_ruleset(set)),
                        reference_convergence(benchmark, read_json(locate_file("results/convergence.json"))));
}

RulesScore score_by_rules(const std::vector<RunOutcome>& runs, std::optional<RuleSet> set,
                          const std::optional<ReferenceConvergence>& reference) {
  RulesScore judged{score_of(runs), std::move(set), {}};
  if (runs.empty()) return judged;
  const BenchmarkRules* rules = judged.rules(runs.front().benchmark);
  if (!rules || judged.set->name == kHouse) return judged;
  Score& score = judged.score;
  const bool closed =
      std::all_of(runs.begin(), runs.end(), [](const RunOutcome& run) { return run.division == "closed"; });
  if (!closed) {
    score.notes.push_back(fmt::format("open division: not a result of {} as published", rules->name));
    return judged;
  }
  if (score.runs != rules->runs)
    score.reasons.push_back(fmt::format("{} run{}: a result of {} is made of exactly {}", score.runs,
                                        score.runs == 1 ? "" : "s", rules->name, rules->runs));
  if (reference) {
    judged.convergence = judge_convergence(*reference, runs.front().batch_size, counts_of(runs, *rules), rules->runs);
    const ConvergenceVerdict& verdict = *judged.convergence;
    for (const std::string& note : verdict.notes) score.notes.push_back(note);
    if (!verdict.accepted) score.reasons.push_back("converged faster than the reference allows: " + verdict.text);
    if (verdict.scaling != 1) {
      score.scaling = verdict.scaling;
      score.notes.push_back(
          fmt::format("the score is {:.6g} times the measured time, as the rules want of runs that "
                      "converge faster than the reference: {}",
                      verdict.scaling, verdict.text));
    }
  }
  score.valid = score.reasons.empty();
  score.seconds = score.valid ? score.seconds * score.scaling : std::numeric_limits<double>::quiet_NaN();
  return judged;
}

std::vector<RuleState> conformance(const std::vector<RunOutcome>& runs, const RulesScore& judged) {
  if (runs.empty()) return {{Is::broken, "runs", "there are none"}};
  return Conformance(runs, judged).go();
}

std::string conformance_text(const std::vector<RuleState>& states) {
  using Align = TextTable::Align;
  TextTable table({{"", Align::left}, {"", Align::left}, {"", Align::left}});
  for (const RuleState& state : states)
    table.row({state.state == Is::kept     ? "kept"
               : state.state == Is::broken ? "not kept"
                                           : "unknown",
               state.rule, state.text});
  return "Conformance, rule by rule\n" + table.text() + "This result is not verified by MLCommons.\n";
}

}  // namespace quadrille
