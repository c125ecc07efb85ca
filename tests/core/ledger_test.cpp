// SPDX-License-Identifier: Apache-2.0
// Totals of a ledger are sums; its entries are kept only when asked for.
#include <gtest/gtest.h>

#include "core/ledger.h"

namespace quadrille {
namespace {

TEST(Ledger, AddsUpWorkMessagesAndPhases) {
  Ledger ledger;
  ledger.work({.useful = 1, .recomputed = 2, .repeated = 3, .padded = 4, .skipped = 5});
  ledger.work({.useful = 1});
  EXPECT_EQ(ledger.work().executed(), 11);
  EXPECT_EQ(ledger.work().skipped, 5);
  ledger.message("all_reduce", "data", {.calls = 1, .elements = 10, .bytes = 40, .seconds = 0.5});
  ledger.message("all_reduce", "data", {.calls = 2, .elements = 1, .bytes = 4, .seconds = 0.25});
  ledger.message("all_reduce", "x", {.calls = 1, .elements = 0, .bytes = 0, .seconds = 0});
  ASSERT_EQ(ledger.messages().size(), 2u);
  const Traffic& data = ledger.messages().at({"data", "all_reduce"});
  EXPECT_EQ(data.calls, 3);
  EXPECT_EQ(data.elements, 11);
  EXPECT_EQ(data.bytes, 44);
  EXPECT_EQ(data.seconds, 0.75);
  ledger.phase("forward", 1);
  ledger.phase("forward", 2);
  EXPECT_EQ(ledger.phases().at("forward"), 3);
  ledger.clear();
  EXPECT_EQ(ledger.work().executed(), 0);
  EXPECT_TRUE(ledger.messages().empty() && ledger.phases().empty());
}

TEST(Ledger, AThreadBesideExposesNothing) {
  Ledger own, beside(false, 1);
  own.message("all_reduce", "data", {.calls = 1, .bytes = 8, .seconds = 2, .exposed = 2});
  beside.message("all_reduce", "data", {.calls = 1, .bytes = 8, .seconds = 3, .exposed = 3});
  own.take_over(beside);
  const Traffic& data = own.messages().at({"data", "all_reduce"});
  EXPECT_EQ(data.calls, 2);
  EXPECT_EQ(data.seconds, 5);
  EXPECT_EQ(data.exposed, 2);
  EXPECT_TRUE(beside.messages().empty());
}

TEST(Ledger, TakesOverEntriesOntoItsOwnClock) {
  Ledger own(true);
  while (own.now() < 1e-3) {}
  Ledger beside(true, 1);
  beside.entry({Entry::Kind::message, "all_reduce", "data", {}, 0, 0.5});
  own.entry({Entry::Kind::message, "send", "data", {}, 0, 7});
  own.take_over(beside);
  own.take_over(beside);
  own.op("linear", {});
  ASSERT_EQ(own.entries().size(), 3u);
  const Entry& carried = own.entries()[1];
  EXPECT_EQ(own.entries()[0].track, 0);
  EXPECT_EQ(carried.track, 1);
  EXPECT_GE(carried.begin, 1e-3);
  EXPECT_DOUBLE_EQ(carried.end - carried.begin, 0.5);
  EXPECT_EQ(own.entries()[2].begin, 7);  // where this thread's last one ended, not the other's
}

TEST(Ledger, KeepsEntriesOnlyWhenAsked) {
  Ledger totals, full(true);
  Entry entry;
  entry.name = "linear";
  for (Ledger* ledger : {&totals, &full}) ledger->entry(entry);
  EXPECT_EQ(totals.entries().size(), 0u);
  EXPECT_EQ(full.entries().size(), 1u);
  const double before = full.now();
  full.clear();
  EXPECT_GE(full.now(), before);  // the clock goes on
}

}  // namespace
}  // namespace quadrille
