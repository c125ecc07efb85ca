// SPDX-License-Identifier: Apache-2.0
// See run_log.h.
#include "benchmarks/harness/run_log.h"

#include <algorithm>

namespace quadrille {

namespace {

std::int64_t rounded_up(std::int64_t samples, std::int64_t unit) { return samples / unit + (samples % unit != 0); }

}  // namespace

// Whole epochs seen, at least 1: an evaluation at the end of the fourth comes a part of a batch after it.
Json RunLog::counters(const Place& place) const {
  const std::int64_t set = std::max<std::int64_t>(1, units_.train_samples);
  const std::int64_t epoch = table_.epochs == "tokens"    ? place.samples * units_.tokens
                             : table_.epochs == "samples" ? place.samples
                                                          : std::max<std::int64_t>(1, (place.samples + set / 2) / set);
  Json json = Json::object();
  json.set("samples_count", place.samples);
  json.set("step_num", place.step);
  json.set("epoch_num", epoch);
  return json;
}

void RunLog::run_start(double at) {
  log_.stop("init_stop", Json::object(), at);
  log_.start("run_start", Json::object(), at);
}

void RunLog::data(double at) {
  log_.point("train_samples", units_.train_samples, Json::object(), at);
  log_.point("eval_samples", units_.eval_samples, Json::object(), at);
}

void RunLog::block_start(const Place& place) {
  const std::int64_t set = std::max<std::int64_t>(1, units_.train_samples);
  const std::int64_t unit = table_.epochs == "tokens" ? units_.tokens : 1;
  const bool epochs = table_.epochs == "epochs";
  Json where = Json::object();
  where.set("first_epoch_num", epochs ? place.samples / set + 1 : place.samples * unit);
  where.set("epoch_count",
            std::max<std::int64_t>(1, epochs ? rounded_up(units_.block_samples, set) : units_.block_samples * unit));
  where.set("samples_count", place.samples);
  where.set("step_num", place.step);
  log_.start("block_start", where, place.at);
}

void RunLog::block_stop(const Place& place) {
  Json where = Json::object();
  where.set("first_epoch_num", counters(place).at("epoch_num"));
  where.set("samples_count", place.samples);
  where.set("step_num", place.step);
  log_.stop("block_stop", where, place.at);
}

void RunLog::eval_start(const Place& place) { log_.start("eval_start", counters(place), place.at); }

void RunLog::eval_stop(double quality, const Place& place) {
  log_.point("eval_accuracy", quality, counters(place), place.at);
  log_.stop("eval_stop", counters(place), place.at);
}

void RunLog::statistics(const Json& value, const Place& place) {
  Json where = Json::object();
  where.set("step_num", place.step);
  where.set("samples_count", place.samples);
  log_.point("tracked_stats", value, where, place.at);
}

void RunLog::run_stop(std::string_view status, std::string_view reason, const Place& place) {
  Json where = Json::object();
  where.set("status", status);
  where.set("stop_reason", reason);
  where.set("samples_count", place.samples);
  log_.stop("run_stop", where, place.at);
}

}  // namespace quadrille
