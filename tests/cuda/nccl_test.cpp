// SPDX-License-Identifier: Apache-2.0
// Worlds for tensors on a device, on fake GPUs: over NCCL's stand-in and through host memory. The same conformance as
// the host's worlds, the same bits, and how each ends when something is wrong.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "core/cuda/device.h"
#include "core/error.h"
#include "parallelism/courier.h"
#include "parallelism/device_worlds.h"
#include "parallelism/mesh.h"
#include "parallelism/world.h"
#include "tests/cuda/standin/standin.h"
#include "tests/parallelism/conformance.h"

namespace quadrille {
namespace {

using World = std::unique_ptr<Communicator>;
using DeviceWorld = World (*)(World host, Device&);
const std::vector<std::int64_t> kSizes = {0, 1, 257, 5003};

World staged(World host, Device& device) { return over_host_memory(std::move(host), device); }
World nccl(World host, Device& device) { return over_nccl(std::move(host), device, 10); }

// One fake GPU a rank.
void on_gpus(int ranks, const std::function<void(World host, Device&)>& body, double timeout = 10) {
  WorldOptions options;
  options.ranks = ranks;
  options.timeout_seconds = timeout;
  run_threads(options, [&](World host) {
    const auto device = open_cuda_device(host->rank());
    body(std::move(host), *device);
  });
}

std::string message_of(int ranks, double timeout, const std::function<void(World host, Device&)>& body) {
  try {
    on_gpus(ranks, body, timeout);
  } catch (const Error& error) {
    EXPECT_EQ(dynamic_cast<const Poisoned*>(&error), nullptr);
    return error.what();
  }
  ADD_FAILURE() << "no error came";
  return {};
}

void expect_has(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" in: " << text;
}

std::uint64_t digest_of(int ranks, const std::function<std::uint64_t(World host, Device&)>& body) {
  std::atomic<std::uint64_t> digest = 0;
  on_gpus(ranks, [&](World host, Device& device) {
    const bool first = host->rank() == 0;
    const std::uint64_t mine = body(std::move(host), device);
    if (first) digest = mine;
  });
  return digest;
}

// Four ways at the most, so that four fake GPUs do.
class DeviceWorlds : public ::testing::TestWithParam<std::tuple<int, standin::Order>> {
 protected:
  void SetUp() override { standin::run_streams(std::get<1>(GetParam())); }
  void TearDown() override {
    standin::run_streams(standin::Order::late);
    EXPECT_EQ(standin::forgive(), std::vector<std::string>());
  }
  int ranks() const { return std::get<0>(GetParam()); }
  std::uint64_t on_host() const {
    return digest_of(ranks(), [](World host, Device&) { return testing::check_conformance(*host, kSizes); });
  }
};

TEST_P(DeviceWorlds, HaveTheBitsOfTheHost) {
  const std::uint64_t wanted = on_host();
  for (const DeviceWorld make : {staged, nccl})
    EXPECT_EQ(digest_of(ranks(),
                        [&](World host, Device& device) {
                          return testing::check_conformance(*make(std::move(host), device), kSizes, &device);
                        }),
              wanted);
}

TEST_P(DeviceWorlds, StagedMessagesAreCarried) {
  EXPECT_EQ(digest_of(ranks(),
                      [](World host, Device& device) {
                        Courier courier;
                        const World world = carried_by(courier, staged(std::move(host), device));
                        return courier.attend([&] { return testing::check_conformance(*world, kSizes, &device); });
                      }),
            on_host());
}

INSTANTIATE_TEST_SUITE_P(OneToFour, DeviceWorlds,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::Values(standin::Order::late, standin::Order::early)));

struct Desk {
  Desk(Device& device, std::int64_t count)
      : stream(device.make_stream()),
        tensor(device.empty({count}, DType::f32)),
        numbers(host->empty(tensor.shape(), DType::f32)) {
    fill(1);
  }
  void fill(float value) {
    for (float& number : numbers.host<float>()) number = value;
    stream->copy(tensor, numbers);
    stream->synchronize();
  }
  float first() {
    stream->copy(numbers, tensor);
    stream->synchronize();
    return numbers.host<float>()[0];
  }
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Device> host = make_host_device();
  Tensor tensor, numbers;
};

// Nothing runs before the host waits, so a call that waited for its message would show here as one that never returns.
TEST(Nccl, TravelsInBulkBesideCrossings) {
  on_gpus(4, [](World host, Device& device) {
    Ledger ledger;
    const Mesh mesh(nccl(std::move(host), device), {{"data", 2}, {"x", 2}}, nullptr, true);
    mesh.report_to(&ledger);
    ASSERT_NE(&mesh.beside(bit(0)), &mesh.along(bit(0)));
    Desk bulk(device, 1000), small(device, 10);
    for (int round = 0; round < 5; ++round) {
      bulk.fill(1), small.fill(1);
      Ticket carried = mesh.beside(bit(0)).all_reduce(bulk.tensor, Reduce::sum, *bulk.stream);
      for (int i = 0; i < 3; ++i)
        mesh.along(bit(1)).all_reduce(small.tensor, Reduce::sum, *small.stream).wait(*small.stream);
      std::move(carried).wait(*bulk.stream);
      EXPECT_EQ(bulk.first(), 2);
      EXPECT_EQ(small.first(), 8);
    }
    const Traffic& traffic = ledger.messages().at({"x", "all_reduce"});
    EXPECT_EQ(traffic.calls, 15);
    EXPECT_EQ(traffic.elements, 15 * 10);
  });
}

// Seconds are those of the streams, booked when the rank comes by later.
TEST(Nccl, BooksSecondsLater) {
  on_gpus(2, [](World host, Device& device) {
    Ledger ledger;
    const World world = nccl(std::move(host), device);
    world->report_to(&ledger);
    Desk desk(device, 1000);
    double seconds = 0;
    for (int i = 0; i < 200 && seconds == 0; ++i) {
      world->all_reduce(desk.tensor, Reduce::max, *desk.stream).wait(*desk.stream);
      EXPECT_EQ(desk.first(), 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      seconds = ledger.messages().at({"world", "all_reduce(max)"}).seconds;
    }
    EXPECT_GT(seconds, 0);
  });
}

TEST(Nccl, NamesWhatIsLate) {
  const std::string text = message_of(2, 0.3, [](World host, Device& device) {
    const bool comes = host->rank() == 0;
    const World world = over_nccl(std::move(host), device, 0.3);
    Desk desk(device, 1234);
    if (comes) {
      world->all_reduce(desk.tensor, Reduce::sum, *desk.stream).wait(*desk.stream);
      desk.stream->synchronize();  // returns because the communicator is given up
    }
    while (!world->failed()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    world->all_reduce(desk.tensor, Reduce::sum, *desk.stream).wait(*desk.stream);
  });
  expect_has(text, {"rank 0 on ", "all_reduce of 1234 f32, number 1 in group world over NCCL was not through 0.3 s"});
  standin::forgive();
}

// A rank that fails in the middle takes the others along, whatever their devices wait for.
TEST(Nccl, AFailureEndsWhatIsUnderWay) {
  const std::string text = message_of(3, 30, [](World host, Device& device) {
    const bool fails = host->rank() == 2;
    const World world = nccl(std::move(host), device);
    Desk desk(device, 100);
    if (fails) fail("the last wheel came off");
    world->all_reduce(desk.tensor, Reduce::sum, *desk.stream).wait(*desk.stream);
    desk.stream->synchronize();
    world->all_reduce(desk.tensor, Reduce::sum, *desk.stream).wait(*desk.stream);
  });
  expect_has(text, {"rank 2 on ", "the last wheel came off"});
  standin::forgive();
}

TEST(Nccl, RanksThatDisagreeAreToldSo) {
  const std::string text = message_of(2, 30, [](World host, Device& device) {
    const std::int64_t count = 10 + host->rank();
    const World world = nccl(std::move(host), device);
    Desk desk(device, count);
    for (;;) {
      world->all_reduce(desk.tensor, Reduce::sum, *desk.stream).wait(*desk.stream);
      desk.stream->synchronize();
    }
  });
  expect_has(text, {"communicator of group world reports", "all_reduce of 10 f32", "all_reduce of 11 f32"});
  standin::forgive();
}

// With one rank the world itself calls nothing of NCCL: the trial does.
TEST(Nccl, ATrialSumsThroughItAlsoWithOneRank) {
  for (const int ranks : {1, 3})
    on_gpus(ranks, [](World host, Device& device) {
      const std::int64_t before = standin::nccl_calls();
      EXPECT_GT(try_nccl(std::move(host), device, 5003, 10), 0);
      EXPECT_GT(standin::nccl_calls(), before);
    });
  EXPECT_EQ(standin::forgive(), std::vector<std::string>());
}

TEST(Nccl, RefusesASharedDevice) {
  WorldOptions options;
  options.ranks = 2;
  try {
    run_threads(options, [](World host) {
      const auto device = open_cuda_device(0);
      nccl(std::move(host), *device);
    });
    ADD_FAILURE() << "no error came";
  } catch (const Error& error) {
    expect_has(error.what(), {"NCCL communicator of 2 ranks for group world", "Duplicate GPU"});
  }
  standin::forgive();
}

TEST(Nccl, RefusesNumbersOfTheHost) {
  const std::string text = message_of(2, 30, [](World host, Device& device) {
    const World world = nccl(std::move(host), device);
    const auto elsewhere = make_host_device();
    const auto stream = device.make_stream();
    world->all_reduce(elsewhere->empty({4}, DType::f32), Reduce::sum, *stream).wait(*stream);
  });
  expect_has(text, {"all_reduce of 4 f32, number 1 in group world was given numbers on device host"});
  standin::forgive();
}

}  // namespace
}  // namespace quadrille
