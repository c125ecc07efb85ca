// SPDX-License-Identifier: Apache-2.0
// What a person reads: units, columns, the live line; and the statistics behind it.
#include "benchmarks/harness/text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>

#include "benchmarks/harness/live.h"
#include "benchmarks/harness/statistics.h"
#include "core/error.h"

namespace quadrille {
namespace {

TEST(Text, Units) {
  EXPECT_EQ(text_bytes(512), "512 B");
  EXPECT_EQ(text_bytes(1536), "1.50 KiB");
  EXPECT_EQ(text_bytes(3.0 * 1024 * 1024 * 1024), "3.00 GiB");
  EXPECT_EQ(text_scaled(45231, "tokens/s"), "45.2 ktokens/s");
  EXPECT_EQ(text_scaled(6.13e9, "FLOP/s"), "6.13 GFLOP/s");
  EXPECT_EQ(text_scaled(999.7e9, "FLOP/s"), "1.00 TFLOP/s");
  EXPECT_EQ(text_scaled(7, ""), "7");
  EXPECT_EQ(text_scaled(std::numeric_limits<double>::quiet_NaN(), "x"), "n/a");
  EXPECT_EQ(text_clock(3723), "1:02:03");
  EXPECT_EQ(text_clock(151.4), "2:31");
  EXPECT_EQ(text_clock(12.34), "12.3 s");
  EXPECT_EQ(text_seconds(0.00123), "1.23 ms");
  EXPECT_EQ(text_seconds(0.84), "840 ms");
  EXPECT_EQ(text_percent(0.381), "38.1 %");
  EXPECT_EQ(text_grouped(466853), "466,853");
  EXPECT_EQ(text_grouped(-1000), "-1,000");
  EXPECT_EQ(text_cpus({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10,11");
  EXPECT_EQ(text_cpus({}), "not bound");
  EXPECT_EQ(text_utc(1738326896), "2025-01-31T12:34:56Z");
}

TEST(Text, TableAligns) {
  TextTable table({{"name", TextTable::Align::left}, {"value"}});
  table.row({"a", "1"});
  table.row({"longer", "23"});
  EXPECT_EQ(table.text(), "  name    value\n  a           1\n  longer     23\n");
  EXPECT_THROW(table.row({"one"}), Error);
}

TEST(Live, LineSaysWhatIsKnown) {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(live_text({7, 2000, 2.5, unknown, unknown, 0, unknown}), "step    7/2000  loss 2.5000");
  EXPECT_EQ(live_text({120, 2000, 2.1034, 45231, 61.3e9, 160e9, 151}),
            "step  120/2000  loss 2.1034  45.2 ktokens/s  61.3 GFLOP/s  MFU 38.3 %  left 2:31");
}

std::string shown(bool terminal) {
  std::FILE* file = std::tmpfile();
  {
    LiveLine line(file, terminal);
    EXPECT_TRUE(line.due(0));
    line.show({1, 10, 3, 1, 1, 0, 1}, 0);
    EXPECT_FALSE(line.due(0.05));
    EXPECT_EQ(line.due(0.2), terminal);
    EXPECT_TRUE(line.due(5));
    line.print("lasting");
  }
  std::string text(static_cast<std::size_t>(std::ftell(file)), ' ');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

TEST(Live, AnnouncementsLastOnlyWhereTheyAreAskedTo) {
  std::FILE* file = std::tmpfile();
  {
    LiveLine line(file, false);
    line.announce("short", false, 1);
    EXPECT_TRUE(line.due(1));
    line.announce("long", true, 1);
    EXPECT_FALSE(line.due(1.2));  // no progress line straight after it
  }
  EXPECT_EQ(std::ftell(file), 5);
  std::fclose(file);
}

TEST(Live, RewritesOnATerminalAndNowhereElse) {
  EXPECT_EQ(shown(false).find('\r'), std::string::npos);
  EXPECT_NE(shown(true).find("\r  step"), std::string::npos);
  EXPECT_NE(shown(true).find("\rlasting\n"), std::string::npos);
}

TEST(Statistics, Percentiles) {
  const std::vector<double> values = {1, 2, 3, 4, 5};
  EXPECT_DOUBLE_EQ(percentile(values, 0.5), 3);
  EXPECT_DOUBLE_EQ(percentile(values, 0.05), 1.2);
  EXPECT_DOUBLE_EQ(percentile(values, 0.95), 4.8);
  EXPECT_DOUBLE_EQ(percentile(values, 1), 5);
  EXPECT_THROW(percentile({}, 0.5), Error);
}

TEST(Statistics, TwoValuesSayNothing) {
  EXPECT_FALSE(spread_of({1, 2}));
  const auto spread = spread_of({3, 1, 2});
  ASSERT_TRUE(spread);
  EXPECT_EQ(spread->count, 3);
  EXPECT_DOUBLE_EQ(spread->median, 2);
  EXPECT_DOUBLE_EQ(spread->min, 1);
  EXPECT_DOUBLE_EQ(spread->max, 3);
}

TEST(Text, LongWordsAreShortened) {
  EXPECT_EQ(text_shortened("a 'b' \n c"), "a 'b' \n c");
  const std::string text = text_shortened("found \"" + std::string(5000, 'x') + "\", wanted y");
  EXPECT_LT(text.size(), 200U);
  EXPECT_NE(text.find("(5000 characters)\", wanted y"), std::string::npos);
  EXPECT_EQ(text_shortened(std::string(200, 'x')), std::string(200, 'x'));
}

}  // namespace
}  // namespace quadrille
