// SPDX-License-Identifier: Apache-2.0
// Which device a rank takes: in turn, as listed, shared only when asked, and how messages travel then.
#include "parallelism/rank_device.h"

#include <gtest/gtest.h>

#include <mutex>

#include "core/error.h"
#include "parallelism/device_worlds.h"
#include "parallelism/world.h"

namespace quadrille {
namespace {

std::vector<DeviceFacts> two_devices() {
  return {{"Chip", "aa", 1000, 900, "kind"}, {"Chip", "bb", 1000, 900, "kind"}};
}
std::unique_ptr<Device> open_one(int) { return make_host_device(); }

// A back end of two devices, which are the host in truth.
Backend back_end() {
  Backend backend = backend_named("reference");
  backend.name = "two", backend.open_device = open_one, backend.devices = two_devices;
  return backend;
}

// The ids that the ranks took, and the way of their messages.
std::vector<std::string> taken(int ranks, const DeviceChoice& choice) {
  std::vector<std::string> ids(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  WorldOptions options;
  options.ranks = ranks;
  run_threads(options, [&](std::unique_ptr<Communicator> host) {
    const RankDevice device(back_end(), *host, choice);
    const std::lock_guard lock(mutex);
    ids[static_cast<std::size_t>(host->rank())] = device.facts()->id + " " + device.way();
  });
  return ids;
}

std::string refusal(int ranks, const DeviceChoice& choice) {
  try {
    taken(ranks, choice);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(RankDevice, IsTakenInTurn) {
  DeviceChoice through_host;
  through_host.collectives = Collectives::host;
  const std::string way = " host memory (asked for)";
  EXPECT_EQ(taken(1, through_host), std::vector<std::string>{"aa "});
  EXPECT_EQ(taken(2, through_host), (std::vector<std::string>{"aa" + way, "bb" + way}));
  through_host.devices = {1, 0};
  EXPECT_EQ(taken(2, through_host), (std::vector<std::string>{"bb" + way, "aa" + way}));
}

TEST(RankDevice, IsSharedOnlyWhenAsked) {
  EXPECT_NE(refusal(3, {}).find("ranks 0, 2 of "), std::string::npos) << refusal(3, {});
  EXPECT_NE(refusal(3, {}).find("--share-devices"), std::string::npos);
  DeviceChoice shared;
  shared.share = true;
  EXPECT_EQ(taken(3, shared)[2], "aa host memory (ranks share a GPU)");
  shared.collectives = Collectives::nccl;
  EXPECT_NE(refusal(3, shared).find("--collectives nccl"), std::string::npos);
}

TEST(RankDevice, OfTheListMustBeThere) {
  EXPECT_NE(refusal(1, {{2}, false, Collectives::host, 60}).find("--devices 2:"), std::string::npos);
}

TEST(RankDevice, OfTheHostIsNotChosen) {
  run_threads({}, [](std::unique_ptr<Communicator> host) {
    const RankDevice device(backend_named("reference"), *host, {});
    EXPECT_EQ(device.name(), "reference");
    EXPECT_EQ(device.facts(), nullptr);
    const Communicator* same = host.get();
    EXPECT_EQ(device.world(std::move(host)).get(), same);
  });
}

TEST(RankDevice, ListsAreNumbersWithCommas) {
  EXPECT_EQ(device_list_from("0,3,1"), (std::vector<int>{0, 3, 1}));
  EXPECT_EQ(device_list_from(""), std::vector<int>());
  for (const char* wrong : {"0,", ",0", "x", "1;2", "-1", "0,0"}) EXPECT_THROW(device_list_from(wrong), Error) << wrong;
  EXPECT_THROW(collectives_from("ncl"), Error);
}

}  // namespace
}  // namespace quadrille
