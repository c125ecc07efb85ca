// SPDX-License-Identifier: Apache-2.0
// When several ranks fail at once, one message tells, with the number of the rank whose words it carries.
#include "benchmarks/harness/agree.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "parallelism/forwarding_communicator.h"
#include "parallelism/world.h"

namespace quadrille {
namespace {

// Comes back late from every exchange, so that all others have gone on by then.
class Late : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  std::vector<Json> exchange(const Json& mine) override {
    auto all = right_->exchange(mine);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return all;
  }
  std::unique_ptr<Communicator> split(const std::function<int(int)>& colour_of, std::string name) override {
    return right_->split(colour_of, std::move(name));
  }
};

std::string message_of_world(const std::set<int>& failing, const std::set<int>& working, int late) {
  WorldOptions options;
  options.ranks = 4;
  try {
    run_threads(options, [&](std::unique_ptr<Communicator> world) {
      const int rank = world->rank();
      if (rank == late) world = std::make_unique<Late>(std::move(world));
      agree(*world, working.contains(rank),
            [&] { require(!failing.contains(rank), "the wheel of rank {} came off", rank); });
    });
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Agree, TheLowestFailingRankTellsUnderItsOwnNumber) {
  for (const int late : {0, 1, 2, 3}) {
    EXPECT_EQ(message_of_world({0, 1, 2, 3}, {0, 1, 2, 3}, late),
              fmt::format("rank 0 on {}: the wheel of rank 0 came off", host_name()));
    EXPECT_EQ(message_of_world({1, 3}, {0, 1, 2, 3}, late),
              fmt::format("rank 1 on {}: the wheel of rank 1 came off", host_name()));
    EXPECT_EQ(message_of_world({2}, {2}, late), fmt::format("rank 2 on {}: the wheel of rank 2 came off", host_name()));
  }
}

TEST(Agree, WhoHasNoWorkCannotFail) {
  EXPECT_EQ(message_of_world({1, 2, 3}, {0}, 0), "");
  EXPECT_EQ(message_of_world({}, {0, 1, 2, 3}, 1), "");
}

}  // namespace
}  // namespace quadrille
