// SPDX-License-Identifier: Apache-2.0
// Ranks that a launcher gave cores of their own, on a host that does not grant so many. The host is imagined: each rank
// tells the others a forged inventory.
#include "benchmarks/harness/launch.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "core/error.h"
#include "parallelism/forwarding_communicator.h"
#include "parallelism/world.h"

namespace quadrille {
namespace {

class Forger : public ForwardingCommunicator {
 public:
  Forger(std::unique_ptr<Communicator> right, Json quota)
      : ForwardingCommunicator(std::move(right)), quota_(std::move(quota)) {}
  std::vector<Json> exchange(const Json& mine) override {
    Json forged = mine;
    if (mine.find("quota")) {
      Json cpus = Json::array();
      cpus.push(rank());
      forged.set("cpus", cpus);
      forged.set("usable", 1);
      forged.set("quota", quota_);
    }
    return right_->exchange(forged);
  }
  std::unique_ptr<Communicator> split(const std::function<int(int)>& colour_of, std::string name) override {
    return right_->split(colour_of, std::move(name));
  }

 private:
  Json quota_;
};

std::string refusal(const Json& quota, bool oversubscribe) {
  WorldOptions options;
  options.ranks = 2;
  try {
    run_threads(options, [&](std::unique_ptr<Communicator> world) {
      Forger forger(std::move(world), quota);
      launch_rank(forger, {1, oversubscribe, "reference"});
    });
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Launch, AHostsLimitHoldsForAllItsRanksTogether) {
  EXPECT_EQ(refusal(Json(), false), "");
  EXPECT_EQ(refusal(2.5, false), "");
  const std::string text = refusal(1.9, false);
  EXPECT_NE(text.find("have 2 threads together, 1 cores may be used"), std::string::npos) << text;
  EXPECT_EQ(refusal(1.9, true), "");
}

}  // namespace
}  // namespace quadrille
