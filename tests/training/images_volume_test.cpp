// SPDX-License-Identifier: Apache-2.0
// What the layouts of images send, by closed formulas against the counting run: rows that windows borrow, statistics,
// the one redistribution of a bottleneck, and where a height is made whole.
#include <gtest/gtest.h>

#include "tests/training/counted.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

using toy::over;
using toy::ring;

using Changes = std::vector<std::pair<std::string, Json>>;

Forecast counted(const Changes& model, const char* table, int ranks, int rank = 0) {
  Workload w = toy::images(model);
  w.strategy = parse_json(table, "table");
  return toy::counted(w, ranks, rank);
}

// Three 3x3 of stride 1 over 9 rows of 8 pixels, 8 images: a rank sends its last row forward, and the gradient of the
// row it borrowed backward, but for that of the data.
TEST(ImageVolumes, AWindowBorrowsOneRowOfItsNeighbour) {
  const Changes model = {{"blocks", parse_json("[1]", "t")},
                         {"block", "basic"},
                         {"stem", "small"},
                         {"height", 9},
                         {"width", 8},
                         {"base", 4}};
  for (const int rank : {0, 1}) {
    const Forecast f = counted(model, R"({"mesh": [["h", 2]], "axes": {"height": "h"}})", 2, rank);
    const double row = 8 * 8;
    EXPECT_EQ(over(f, "h", "send").elements, row * (3 + 2 * 2 * 4));
    EXPECT_EQ(over(f, "h", "send").calls, 5);
    const double norms = 3 * (3 + 2) * 4, mean = 8 * 4;
    const double weights = 9.0 * 4 * (3 + 4 + 4), gains = 3 * 2 * 4, totals = 3;
    EXPECT_DOUBLE_EQ(over(f, "h").elements, ring(2, norms + mean + weights + gains + totals));
    EXPECT_EQ(over(f, "h").calls, 3 * 2 + 1 + 2 + 1);  // the head owes nothing
  }
}

// A 7x7 of stride 2 over 17 rows on two ranks: outputs 0 to 4 see rows up to 12, outputs 5 to 8 rows from 7 on.
TEST(ImageVolumes, AStridedWindowBorrowsUnequalNumbersOfRows) {
  const Changes model = {{"blocks", parse_json("[1]", "t")}, {"block", "basic"}};
  const char* table = R"({"mesh": [["h", 2]], "axes": {"height": "h"}})";
  const double image_row = 8 * 12 * 3, pooled_row = 8 * 6 * 4, row = 8 * 3 * 4;
  // Pool of 3x3, stride 2, over 9 rows (5 and 4): outputs 0 to 2 see rows up to 5, outputs 3 and 4 rows from 5 on.
  const double of_blocks = 2 * 2 * row;
  EXPECT_EQ(over(counted(model, table, 2, 0), "h", "send").elements, 2 * image_row + 1 * pooled_row * 1 + of_blocks);
  EXPECT_EQ(over(counted(model, table, 2, 1), "h", "send").elements, 3 * image_row + 1 * pooled_row * 1 + of_blocks);
}

// Over eight ranks the pool would leave some without rows: what it reads is gathered, once.
TEST(ImageVolumes, AThinHeightIsMadeWholeOnce) {
  const Forecast thin = counted({}, R"({"mesh": [["h", 8]], "axes": {"height": "h"}})", 8),
                 wide = counted({}, R"({"mesh": [["h", 2]], "axes": {"height": "h"}})", 2);
  EXPECT_EQ(over(thin, "h", "all_gather").calls, 1);
  EXPECT_EQ(over(thin, "h", "reduce_scatter").calls, 1);
  EXPECT_EQ(over(wide, "h", "all_gather").calls, 0);
}

// One more bottleneck on a mesh that cuts both kinds of channels: on x a sum forward and one backward, and its 3x3
// laid out anew; on y the same without that.
TEST(ImageVolumes, ABottleneckIsLaidOutAnewOnce) {
  const char* table = R"({"mesh": [["y", 2], ["x", 2]], "axes": {"embed": "y", "mlp": "x", "vocab": "x"}})";
  const Forecast one = counted({{"blocks", parse_json("[1]", "t")}}, table, 4),
                 two = counted({{"blocks", parse_json("[2]", "t")}}, table, 4);
  const auto more = [&](const char* group, const char* kind) {
    return over(two, group, kind).calls - over(one, group, kind).calls;
  };
  EXPECT_EQ(more("x", "reduce_scatter"), 1);
  EXPECT_EQ(more("x", "all_gather"), 1);
  EXPECT_EQ(more("x", "all_reduce"), 2);
  EXPECT_EQ(more("y", "all_reduce"), 2);
  EXPECT_EQ(more("y", "reduce_scatter") + more("y", "all_gather"), 0);
  const double made = 8.0 * 5 * 3 * 4;  // images, height, width, inner channels
  EXPECT_DOUBLE_EQ(over(two, "x", "reduce_scatter").elements - over(one, "x", "reduce_scatter").elements, made / 2);
  ASSERT_EQ(one.notes.size(), 1u);
  EXPECT_NE(one.notes[0].find("reduce-scatter"), std::string::npos);
  EXPECT_TRUE(counted({{"block", "basic"}}, table, 4).notes.empty());
  EXPECT_TRUE(counted({}, R"({"mesh": [["y", 2]], "axes": {"embed": "y"}})", 2).notes.empty());
}

}  // namespace
}  // namespace quadrille
