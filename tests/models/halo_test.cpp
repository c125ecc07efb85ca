// SPDX-License-Identifier: Apache-2.0
// Which rows a window reaches, and that borrowed rows come from whoever holds them and go home again.
#include "models/nn/halo.h"

#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "parallelism/world.h"

namespace quadrille {
namespace {

// 9 rows over 3 ranks, a 3x3 of stride 2: 5 rows come out, 2, 2 and 1. The middle rank borrows two rows from below and
// none from above.
TEST(Reached, IsWhatWindowsSee) {
  EXPECT_EQ(reached({0, 2}, 3, 2, 1, 9), (Slice{0, 4}));
  EXPECT_EQ(reached({2, 2}, 3, 2, 1, 9), (Slice{3, 5}));
  EXPECT_EQ(reached({4, 1}, 3, 2, 1, 9), (Slice{7, 2}));
  EXPECT_EQ(reached({0, 0}, 3, 2, 1, 9).count, 0);
  EXPECT_EQ(reached({1, 2}, 1, 2, 0, 9), (Slice{2, 3}));  // of stride 2 and no width: what lies between comes along
}

// Row y of image b holds 100 b + y everywhere.
void pass_rows(const std::vector<Slice>& held, const std::vector<Slice>& wanted) {
  WorldOptions options;
  options.ranks = static_cast<int>(held.size());
  run_threads(options, [&](std::unique_ptr<Communicator> world) {
    const auto r = static_cast<std::size_t>(world->rank());
    const auto device = make_host_device();
    const auto stream = device->make_stream();
    Arena arena(*device, 1 << 20);
    Ledger ledger;
    const Mesh mesh(world->split([](int) { return 0; }, "all"), {{"h", options.ranks}});
    const Plan plan(parse_json(R"({"axes": {"height": "h"}})", "table"), mesh);
    Context c{plan, reference_ops(), *stream, arena, ledger, DType::f64};
    const Halo halo(*world, held, wanted);
    const auto fill = [&](const Tensor& t, Slice rows, const auto& value) {
      const auto numbers = t.host<double>();
      for (std::int64_t i = 0; i < t.count(); ++i)
        numbers[static_cast<std::size_t>(i)] = value(i / 6 / rows.count, rows.first + i / 6 % rows.count);
    };
    const Tensor mine = arena.empty({2, held[r].count, 3, 2}, DType::f64, End::low);
    if (mine.count() > 0) fill(mine, held[r], [](std::int64_t b, std::int64_t y) { return 100.0 * b + y; });
    const Tensor seen = halo.borrow(c, mine);
    ASSERT_EQ(seen.shape(), (Shape{2, wanted[r].count, 3, 2}));
    const auto got = seen.host<double>();
    for (std::int64_t i = 0; i < seen.count(); ++i)
      EXPECT_EQ(got[static_cast<std::size_t>(i)],
                100.0 * (i / 6 / wanted[r].count) + wanted[r].first + i / 6 % wanted[r].count);
    // Every rank gives 1 back for each row it saw: a row gets as many as there were ranks that wanted it.
    if (seen.count() > 0) fill(seen, wanted[r], [](std::int64_t, std::int64_t) { return 1.0; });
    const Tensor home = halo.give_back(c, seen);
    ASSERT_EQ(home.shape(), mine.shape());
    const auto sums = home.host<double>();
    for (std::int64_t i = 0; i < home.count(); ++i) {
      const std::int64_t y = held[r].first + i / 6 % held[r].count;
      int wanters = 0;
      for (const Slice& w : wanted) wanters += y >= w.first && y < w.end();
      EXPECT_EQ(sums[static_cast<std::size_t>(i)], wanters) << "row " << y;
    }
  });
}

TEST(Halo, PassesRowsBetweenNeighbours) { pass_rows({{0, 3}, {3, 3}, {6, 3}}, {{0, 4}, {2, 5}, {5, 4}}); }
TEST(Halo, PassesRowsBeyondNeighbours) {
  pass_rows({{0, 1}, {1, 1}, {2, 1}, {3, 1}}, {{0, 4}, {0, 4}, {0, 4}, {2, 2}});
}
TEST(Halo, ServesRanksWithoutRows) { pass_rows({{0, 1}, {1, 1}, {2, 0}}, {{0, 2}, {0, 0}, {0, 2}}); }
TEST(Halo, LeavesOutWhatNobodyWants) { pass_rows({{0, 4}, {4, 4}}, {{0, 3}, {4, 3}}); }

TEST(Halo, KnowsWhenItIsNotNeeded) {
  run_threads({}, [](std::unique_ptr<Communicator> world) {
    EXPECT_FALSE(Halo(*world, {{0, 4}}, {{0, 4}}).needed());
    EXPECT_TRUE(Halo(*world, {{0, 4}}, {{0, 3}}).needed());
  });
}

}  // namespace
}  // namespace quadrille
