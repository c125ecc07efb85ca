// SPDX-License-Identifier: Apache-2.0
// Ranks that were started with different settings are told apart before they train.
#include "benchmarks/harness/same_settings.h"

#include <gtest/gtest.h>

#include <mutex>

#include "core/error.h"
#include "parallelism/world.h"

namespace quadrille {
namespace {

Json settings(const char* seed, const char* rest = "") {
  return parse_json(std::string(R"({"run": {"seed": )") + seed + R"(}, "training": {"steps": 8)" + rest + "}}", "test");
}

TEST(SameSettings, TheFirstDifferenceIsNamed) {
  EXPECT_EQ(settings_difference({settings("1"), settings("1"), settings("1")}).rank, -1);
  const SettingsDifference other = settings_difference({settings("1"), settings("1"), settings("7"), settings("8")});
  EXPECT_EQ(other.rank, 2);
  EXPECT_EQ(other.message.find("rank 2 was started with other settings than rank 0: run.seed is 7, on rank 0 it is 1"),
            0u)
      << other.message;
  const SettingsDifference more = settings_difference({settings("1"), settings("1", R"(, "clip": 2)")});
  EXPECT_EQ(more.message.find(
                "rank 1 was started with other settings than rank 0: training.clip is 2, on rank 0 it is not set"),
            0u)
      << more.message;
  const SettingsDifference less = settings_difference({settings("1", R"(, "clip": 2)"), settings("1")});
  EXPECT_EQ(less.message.find(
                "rank 1 was started with other settings than rank 0: training.clip is not set, on rank 0 it is 2"),
            0u)
      << less.message;
}

TEST(SameSettings, OneRankTellsInItsWorld) {
  for (const int odd : {0, 1, 2}) {
    WorldOptions options;
    options.ranks = 3;
    std::string message;
    try {
      run_threads(options, [&](std::unique_ptr<Communicator> world) {
        require_same_settings(*world, settings("5"));
        require_same_settings(*world, settings(world->rank() == odd ? "7" : "1"));
      });
    } catch (const Error& error) {
      message = error.what();
    }
    const std::string wanted =
        odd == 0   ? "rank 1 was started with other settings than rank 0: run.seed is 1, on rank 0 it is 7"
        : odd == 1 ? "rank 1 was started with other settings than rank 0: run.seed is 7, on rank 0 it is 1"
                   : "rank 2 was started with other settings than rank 0: run.seed is 7, on rank 0 it is 1";
    EXPECT_NE(message.find(wanted), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace quadrille
