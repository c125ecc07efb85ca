// SPDX-License-Identifier: Apache-2.0
// The event log's line format, its refusal to touch an older run, and the trace format.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "benchmarks/harness/mllog.h"
#include "benchmarks/harness/tally.h"
#include "benchmarks/harness/trace.h"
#include "core/error.h"
#include "tests/benchmarks/samples.h"

namespace quadrille {
namespace {

TEST(Mllog, LineFormat) {
  Json metadata = Json::object();
  metadata.set("epoch_num", 3);
  EXPECT_EQ(mllog_line(1700000001000, "POINT_IN_TIME", "eval_accuracy", 1.5, metadata),
            ":::MLLOG "
            "{\"namespace\":\"\",\"time_ms\":1700000001000,\"event_type\":\"POINT_IN_TIME\",\"key\":\"eval_accuracy\","
            "\"value\":1.5,"
            "\"metadata\":{\"epoch_num\":3}}");
}

TEST(Mllog, EachLineIsOnDiskAtOnceWithFileAndLine) {
  const std::string path = scratch("mllog_test.txt");
  std::filesystem::remove(path);
  const RunClock clock;
  MlLog log(path, clock);
  log.point("seed", 5);
  log.stop("run_stop", Json::object(), 2.0);
  std::ifstream file(path);  // the log is still open
  std::string first, second;
  ASSERT_TRUE(std::getline(file, first));
  ASSERT_TRUE(std::getline(file, second));
  const Json line = parse_json(first.substr(9), "line");
  EXPECT_EQ(line.at("key").string(), "seed");
  EXPECT_EQ(line.at("metadata").at("file").string(), "log_test.cpp");
  EXPECT_GT(line.at("metadata").at("lineno").integer(), 0);
  const Json stop = parse_json(second.substr(9), "line");
  EXPECT_EQ(stop.at("event_type").string(), "INTERVAL_END");
  EXPECT_TRUE(stop.at("value").is_null());
  EXPECT_NEAR(static_cast<double>(stop.at("time_ms").integer()), (clock.birth_unix() + 2) * 1000, 1);
  EXPECT_THROW(MlLog(path, clock), Error);  // never appended to an older run
  EXPECT_THROW(MlLog(scratch("none/result_0.txt"), clock), Error);
}

TEST(Tally, DifferenceAndRoundTrip) {
  Ledger ledger;
  ledger.work({10, 1, 2, 3, 4});
  ledger.message("all_reduce", "data", {2, 100, 400, 0.5, 0.25});
  ledger.phase("forward", 1);
  const Tally before = Tally::of(ledger);
  ledger.work({5, 0, 0, 0, 1});
  ledger.message("all_reduce", "data", {1, 50, 200, 0.25, 0.125});
  ledger.message("all_gather", "x", {1, 10, 40, 0.1});
  const Tally gain = tally_from(tally_json(Tally::of(ledger) - before));
  EXPECT_EQ(gain.work.useful, 5);
  EXPECT_EQ(gain.work.skipped, 1);
  EXPECT_EQ(gain.messages.size(), 2U);
  EXPECT_EQ(gain.messages.at({"data", "all_reduce"}).bytes, 200);
  EXPECT_EQ(gain.messages.at({"data", "all_reduce"}).exposed, 0.125);
  EXPECT_TRUE(gain.phases.empty());
}

TEST(Trace, IsStrictJsonInMicroseconds) {
  Ledger ledger(true);
  ledger.entry({Entry::Kind::message, "all_reduce", "data", {}, 2.5, 2.75});
  const Json events = parse_json(fmt::format("[{}]", trace_events(ledger, 2.0, 3, "here")), "trace");
  const Json& event = events.at(events.size() - 1);
  EXPECT_EQ(event.at("pid").integer(), 3);
  EXPECT_DOUBLE_EQ(event.at("ts").number(), 500000);
  EXPECT_DOUBLE_EQ(event.at("dur").number(), 250000);
  EXPECT_EQ(event.at("args").at("group").string(), "data");
}

TEST(Trace, ShowsCarriedMessagesOnATrackOfTheirOwn) {
  Ledger ledger(true), beside(true, 1);
  ledger.entry({Entry::Kind::message, "all_reduce", "data", {}, 1, 2});
  beside.entry({Entry::Kind::message, "all_reduce", "data", {}, 1, 2});
  ledger.take_over(beside);
  const Json events = parse_json(fmt::format("[{}]", trace_events(ledger, 0, 3, "here")), "trace");
  const std::int64_t own = events.at(events.size() - 2).at("tid").integer(),
                     carried = events.at(events.size() - 1).at("tid").integer();
  EXPECT_NE(own, carried);
  std::string name;
  for (const Json& event : events.items())
    if (event.at("name").string() == "thread_name" && event.at("tid").integer() == carried)
      name = event.at("args").at("name").string();
  EXPECT_EQ(name, "message, carried");
}

}  // namespace
}  // namespace quadrille
