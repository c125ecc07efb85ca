// SPDX-License-Identifier: Apache-2.0
// Who gets which cores, and what container limits say.
#include "benchmarks/harness/cores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "tests/benchmarks/samples.h"

namespace quadrille {
namespace {

PlacementRequest request(int ranks, int rank, int threads = 0) {
  PlacementRequest r;
  r.ranks = ranks, r.place = rank, r.threads = threads, r.usable = 4, r.cpus = {0, 1, 2, 3};
  return r;
}

TEST(Placement, SharesTheCores) {
  EXPECT_EQ(place_rank(request(1, 0)).cpus, (std::vector<int>{0, 1, 2, 3}));
  const Placement second = place_rank(request(2, 1));
  EXPECT_EQ(second.threads, 2);
  EXPECT_EQ(second.cpus, (std::vector<int>{2, 3}));
  EXPECT_TRUE(second.note.empty());
  EXPECT_EQ(place_rank(request(3, 2)).threads, 1);
}

TEST(Placement, MoreRanksThanCoresAreRefusedUnlessAskedFor) {
  try {
    place_rank(request(8, 5));
    ADD_FAILURE() << "8 ranks on 4 cores were accepted";
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part : {"8 ranks of 1 thread ", "8 cores", "4 may be used", "--oversubscribe"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  PlacementRequest asked = request(8, 5);
  asked.oversubscribe = true;
  const Placement placement = place_rank(asked);
  EXPECT_EQ(placement.threads, 1);
  EXPECT_EQ(placement.cpus, std::vector<int>{1});
  EXPECT_NE(placement.note.find("8 threads share 4 cores"), std::string::npos);
}

TEST(Placement, MoreThreadsThanCoresAreRefusedUnlessAskedFor) {
  EXPECT_THROW(place_rank(request(2, 0, 3)), Error);
  PlacementRequest asked = request(2, 0, 3);
  asked.oversubscribe = true;
  EXPECT_EQ(place_rank(asked).threads, 3);
}

TEST(Placement, LauncherBoundRanksKeepTheirOwn) {
  PlacementRequest r = request(1, 0);
  r.cpus = {6, 7}, r.usable = 2;
  const Placement placement = place_rank(r);
  EXPECT_EQ(placement.threads, 2);
  EXPECT_EQ(placement.cpus, (std::vector<int>{6, 7}));
}

class Quota : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(root_);
    put("/proc/self/cgroup", "0::/user/job\n");
  }
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_ = scratch("quota");
};

TEST_F(Quota, Version2TakesTheTightestGroup) {
  EXPECT_TRUE(std::isinf(cpu_quota(root_)));
  put("/sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(cpu_quota(root_)));
  put("/sys/fs/cgroup/user/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(cpu_quota(root_), 1.5);
}

TEST_F(Quota, Version1) {
  put("/proc/self/cgroup", "4:cpu,cpuacct:/docker/x\n3:memory:/y\n");
  put("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "300000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cpu_quota(root_), 3);
}

}  // namespace
}  // namespace quadrille
