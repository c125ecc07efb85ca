// SPDX-License-Identifier: Apache-2.0
// See timed_run.h. The clock starts before any rank reads data and stops when rank 0 knows that the target is reached.
#include "benchmarks/harness/timed_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "benchmarks/harness/text.h"
#include "benchmarks/harness/watched.h"
#include "core/error.h"

namespace quadrille {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr double kSecondsBetweenDecisions = 1;
constexpr std::size_t kRecentSteps = 20;  // that the live line averages over

std::string evaluating_text(std::int64_t step, std::int64_t window, std::int64_t windows) {
  return fmt::format("  evaluating {} samples after step {}: {:3.0f} %", text_grouped(windows), step,
                     100.0 * static_cast<double>(window) / static_cast<double>(std::max<std::int64_t>(1, windows)));
}

}  // namespace

RunTrace TimedRun::go() {
  try {
    start();
    train();
    stop();
  } catch (...) {
    log_failure();
    throw;
  }
  return std::move(trace_);
}

// Whoever reads the log of a run that failed must not take it for one that is still going on.
void TimedRun::log_failure() {
  if (!p_.log || !log_open_) return;
  try {
    p_.log->run_stop("aborted", "failed", place(trace_.steps.empty() ? 0 : trace_.steps.back().step));
  } catch (const Error&) {  // the log itself may be what failed: the first error is the one to tell
  }
}

void TimedRun::start() {
  p_.world.barrier();
  trace_.start_seconds = p_.clock.seconds();
  trace_.ledger_start = p_.ledger.now();
  begin_ = Tally::of(p_.ledger);
  if (p_.power) p_.power->start();
  if (p_.log) {
    p_.log->run_start(trace_.start_seconds);
    log_open_ = true;
  }
  if (p_.scans_data) {
    p_.experiment.data.train->scan();
    if (p_.experiment.data.evaluate) p_.experiment.data.evaluate->scan();
  }
  p_.world.barrier();
  if (p_.log) p_.log->data();
  scan_seconds_ = since_start();
  if (p_.began) *p_.began = true;
  log_block(true, 0);
}

bool TimedRun::evaluation_due(std::int64_t done) const {
  const RunConfig& run = p_.experiment.run;
  if (run.evaluate_every > 0 && done % run.evaluate_every == 0) return true;
  return done == steps() && (run.target || run.evaluate_every > 0);
}

void TimedRun::train() {
  if (p_.experiment.run.evaluate_first) evaluate(0);
  for (std::int64_t step = 0; step < steps() && trace_.stop_reason.empty(); ++step) {
    if (const auto report = p_.trainer.step(*p_.experiment.data.train, step)) note(*report);
    const std::int64_t done = step + 1;
    if (!trace_.stop_reason.empty()) break;
    check_replicas(done);
    if (evaluation_due(done)) {
      if (const auto report = p_.trainer.flush()) note(*report);
      if (trace_.stop_reason.empty()) evaluate(done);
      if (trace_.stop_reason.empty()) follow_rank_0(done);
    } else if (done == next_decision_) {
      follow_rank_0(done);
    }
  }
  if (const auto report = p_.trainer.flush()) note(*report);
  if (trace_.stop_reason.empty()) trace_.stop_reason = stop::kSteps;
}

void TimedRun::check_replicas(std::int64_t done) {
  if (p_.check_replicas == 0 || done % p_.check_replicas != 0) return;
  const double begin = p_.clock.seconds();
  const Tally before = Tally::of(p_.ledger);
  p_.trainer.replica_hash();  // throws Error
  ++trace_.replica_comparisons;
  replicas_ += Tally::of(p_.ledger) - before;
  replica_seconds_ += p_.clock.seconds() - begin;
}

void TimedRun::note(const StepReport& report) {
  const double begin = p_.clock.seconds();
  StepLine line;
  line.step = report.step;
  line.seconds = report.seconds;
  line.loss = report.loss;
  line.gradient_norm = report.gradient_norm;
  line.rate = report.rate;
  line.labels = report.labels;
  line.finite = report.finite;
  line.warm_up = report.step <= p_.experiment.run.warm_up_steps;
  trace_.steps.push_back(line);
  if (!report.finite && trace_.stop_reason.empty()) trace_.stop_reason = stop::kDiverged;
  if (p_.live && p_.live->due(begin)) p_.live->show(live_status(report), begin);
  logging_seconds_ += p_.clock.seconds() - begin;
}

LiveStatus TimedRun::live_status(const StepReport& report) const {
  double seconds = 0;
  std::size_t count = 0;
  for (auto line = trace_.steps.rbegin(); line != trace_.steps.rend() && count < kRecentSteps && !line->warm_up;
       ++line, ++count)
    seconds += line->seconds;
  LiveStatus status{report.step, steps(),
                    report.loss, kUnknown,
                    kUnknown,    p_.peak.measured_fma_flops_per_second,
                    kUnknown,    p_.experiment.row_work.unit};
  if (count == 0 || seconds <= 0) return status;
  const double per_step = seconds / static_cast<double>(count);
  status.work_per_second = row_work(1) / per_step;
  status.flops_per_second = p_.trainer.model_flops_full() / per_step;
  status.seconds_left = per_step * static_cast<double>(steps() - report.step);
  if (p_.experiment.run.evaluate_every > 0 && !trace_.evaluations.empty()) {
    const std::int64_t evaluations_left = (steps() - report.step) / p_.experiment.run.evaluate_every;
    status.seconds_left += trace_.evaluations.back().seconds * static_cast<double>(evaluations_left);
  }
  if (p_.experiment.run.max_minutes > 0)
    status.seconds_left =
        std::max(0.0, std::min(status.seconds_left, p_.experiment.run.max_minutes * 60 - since_start()));
  return status;
}

void TimedRun::evaluate(std::int64_t done) {
  const Dataset& set = *p_.experiment.data.evaluate;
  if (p_.log) p_.log->eval_start(place(done));
  // A long evaluation must not look like a run that hangs; where lines last, only long ones are announced.
  constexpr double kLong = 5;
  const bool may_be_long = trace_.evaluations.empty() || trace_.evaluations.back().seconds > kLong;
  const Tally before = Tally::of(p_.ledger);
  const double begin = p_.clock.seconds();
  if (p_.live) p_.live->announce(evaluating_text(done, 0, set.size()), may_be_long, begin);
  // Samples are read in order, and every rank has its share of each part of the set.
  const WatchedDataset watched(set, [&](std::int64_t window) {
    if (!p_.live) return;
    if (const double now = p_.clock.seconds(); p_.live->due(now))
      p_.live->rewrite(evaluating_text(done, window, set.size()), now);
  });
  const EvaluationReport report = p_.trainer.evaluate(watched);
  const double end = p_.clock.seconds();
  evaluation_ += Tally::of(p_.ledger) - before;
  evaluation_seconds_ += end - begin;

  const auto& target = p_.experiment.run.target;
  const std::string metric = metric_of(target, set.unit());
  const double quality = metric == kAccuracy ? report.correct / report.labels : report.quality;
  EvaluationLine line{done,
                      samples(done),
                      quality,
                      report.loss_sum,
                      report.labels,
                      report.units,
                      end - begin,
                      report.correct,
                      end - trace_.start_seconds,
                      false};
  line.reached = target && target->reached_by(quality);
  trace_.evaluations.push_back(line);
  if (line.reached) {
    trace_.stop_reason = stop::kTarget;
    trace_.seconds_to_target = line.seconds_since_run_start;
  }
  if (p_.log) {
    p_.log->eval_stop(quality, place(done, end));
    log_statistics(done);
    log_block(false, done);
    if (!line.reached && done < steps()) log_block(true, done);
  }
  if (p_.live)
    p_.live->print(fmt::format("  after step {}: {}{}, evaluated in {}", done, quality_text(metric, quality),
                               target ? fmt::format(" (target {})", text_number(target->value)) : "",
                               text_seconds(end - begin)));
  if (!line.reached) logging_seconds_ += p_.clock.seconds() - end;  // the clock of the run has stopped otherwise
}

// Only the clock of rank 0 counts, so that no two ranks can disagree; it also says after which step it will be asked
// again.
void TimedRun::follow_rank_0(std::int64_t done) {
  const double limit = p_.experiment.run.max_minutes * 60, begin = p_.clock.seconds();
  Json mine = Json::object();
  if (p_.world.rank() == 0) {
    const double per_step = std::max(1e-6, since_start() / static_cast<double>(done));
    const double skipped = std::clamp(kSecondsBetweenDecisions / per_step, 1.0, 1e6);
    mine.set("stop", limit > 0 && since_start() >= limit);
    mine.set("next", done + static_cast<std::int64_t>(skipped));
    log_statistics(done);
  }
  const Json decision = p_.world.exchange(mine).front();
  if (decision.at("stop").boolean() && trace_.stop_reason.empty() && done < steps()) trace_.stop_reason = stop::kTime;
  next_decision_ = decision.at("next").integer();
  logging_seconds_ += p_.clock.seconds() - begin;
}

void TimedRun::log_block(bool begin, std::int64_t done) {
  if (!p_.log || begin == block_open_) return;
  block_open_ = begin;
  begin ? p_.log->block_start(place(done)) : p_.log->block_stop(place(done));
}

void TimedRun::log_statistics(std::int64_t done) {
  if (!p_.log || trace_.steps.empty()) return;
  const StepLine& last = trace_.steps.back();
  Json value = Json::object();
  value.set("loss", last.loss);
  value.set("gradient_norm", last.gradient_norm);
  value.set("learning_rate", last.rate);
  value.set("step_seconds", last.seconds);
  if (last.seconds > 0)
    value.set(fmt::format("{}s_per_second", p_.experiment.row_work.unit), row_work(1) / last.seconds);
  p_.log->statistics(value, {samples(done), last.step});
}

void TimedRun::stop() {
  const double end = p_.clock.seconds();
  if (p_.power) trace_.power = p_.power->stop();
  const double stopped = trace_.seconds_to_target ? trace_.start_seconds + *trace_.seconds_to_target : end;
  trace_.timed_seconds = stopped - trace_.start_seconds;
  const bool good =
      trace_.stop_reason == stop::kTarget || (!p_.experiment.run.target && trace_.stop_reason == stop::kSteps);
  if (p_.live) p_.live->clear();
  if (p_.log) {
    log_block(false, trace_.steps.empty() ? 0 : trace_.steps.back().step);
    log_open_ = false;
    p_.log->run_stop(good ? "success" : "aborted", trace_.stop_reason,
                     place(trace_.steps.empty() ? 0 : trace_.steps.back().step, stopped));
  }
  trace_.evaluation = evaluation_;
  trace_.training = Tally::of(p_.ledger) - begin_ - evaluation_ - replicas_;
  auto& phases = trace_.training.phases;
  phases["evaluation"] = evaluation_seconds_;
  phases["logging"] = logging_seconds_;
  phases["data scan"] = scan_seconds_;
  if (p_.check_replicas > 0) phases["replica check"] = replica_seconds_;
  double named = 0;
  for (const auto& [name, seconds] : phases) named += seconds;
  phases["other"] = trace_.timed_seconds - named;
}

}  // namespace quadrille
