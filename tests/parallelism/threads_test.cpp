// SPDX-License-Identifier: Apache-2.0
// The world of rank threads: the conformance of its numbers, and how it ends when something is wrong.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "core/error.h"
#include "parallelism/mesh.h"
#include "parallelism/message.h"
#include "parallelism/world.h"
#include "tests/parallelism/conformance.h"
#include "tests/parallelism/ranks.h"

namespace quadrille {
namespace {

using std::chrono::steady_clock;
using testing::message_of;
using testing::options;
using testing::World;

// A rank's own device, stream and one tensor.
struct Desk : testing::Desk {
  explicit Desk(std::int64_t count = 64, DType dtype = DType::f32) : tensor(device->empty({count}, dtype)) {
    stream->zero(tensor);
  }
  Tensor tensor;
};

void expect_has(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" in: " << text;
}

class ThreadRanks : public ::testing::TestWithParam<int> {};

TEST_P(ThreadRanks, Conform) {
  std::atomic<std::uint64_t> digest = 0;
  run_threads(options(GetParam()),
              [&](World world) { digest = testing::check_conformance(*world, testing::edge_sizes()); });
  EXPECT_NE(digest, 0u);
}

INSTANTIATE_TEST_SUITE_P(OneToEight, ThreadRanks, ::testing::Range(1, 9));

TEST(Threads, ConformsAtLargeSizesAndAgain) {
  std::uint64_t digests[2] = {};
  for (auto& digest : digests)
    run_threads(options(3), [&](World world) {
      const auto d = testing::check_conformance(*world, {65537});
      if (world->rank() == 0) digest = d;
    });
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(Threads, SumsTensorsOfMillions) {
  constexpr std::int64_t kCount = 3000001;
  run_threads(options(3), [](World world) {
    Desk desk(kCount);
    for (std::int64_t i = 0; i < kCount; ++i)
      desk.tensor.as<float>()[i] = static_cast<float>(i % 1000 * (world->rank() + 1));
    world->all_reduce(desk.tensor, Reduce::sum, *desk.stream).wait(*desk.stream);
    for (std::int64_t i = 0; i < kCount; ++i)
      require(desk.tensor.as<float>()[i] == static_cast<float>(i % 1000 * 6), "element {} is wrong", i);
  });
}

// The same numbers reduced whole, and in pieces of odd length: not a bit may differ.
TEST(Threads, SumsDoNotDependOnTheCut) {
  constexpr std::int64_t kCount = 10007;
  run_threads(options(5), [&](World world) {
    Desk whole(kCount), cut(kCount);
    for (std::int64_t i = 0; i < kCount; ++i)
      whole.tensor.as<float>()[i] = cut.tensor.as<float>()[i] =
          std::sin(static_cast<float>(i * 7 + world->rank() * 13)) * 1e3f;
    world->all_reduce(whole.tensor, Reduce::sum, *whole.stream).wait(*whole.stream);
    std::int64_t first = 0;
    for (std::int64_t length = 1; first < kCount; first += length, length = std::min(length * 2 + 1, kCount - first))
      world->all_reduce(cut.tensor.rows(first, length), Reduce::sum, *cut.stream).wait(*cut.stream);
    require(std::equal(whole.tensor.as<float>(), whole.tensor.as<float>() + kCount, cut.tensor.as<float>()),
            "the cut changed the sum");
  });
}

TEST(RankOrder, IsTheOrderOfTheRanksAndNoOther) {
  const float parts[3] = {1e8f, -1e8f, 1.0f};  // (1e8 - 1e8) + 1 = 1, but 1e8 + (-1e8 + 1) = 0
  const void* in_order[] = {&parts[0], &parts[1], &parts[2]};
  const void* otherwise[] = {&parts[1], &parts[2], &parts[0]};
  float sum = 0;
  combine_in_rank_order(Reduce::sum, DType::f32, in_order, 1, &sum);
  EXPECT_EQ(sum, 1.0f);
  combine_in_rank_order(Reduce::sum, DType::f32, otherwise, 1, &sum);
  EXPECT_EQ(sum, 0.0f);
}

TEST(RankOrder, MaximumKeepsWhatIsNotANumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double a[] = {nan, 1, -2}, b[] = {5, nan, -3};
  const void* parts[] = {a, b};
  double out[3];
  combine_in_rank_order(Reduce::max, DType::f64, parts, 3, out);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_EQ(out[2], -2);
}

TEST(RankOrder, PartsStartAtCacheLinesAndCoverAll) {
  for (const std::int64_t count : {0, 1, 15, 16, 17, 1000})
    for (int parts = 1; parts <= 8; ++parts) {
      std::int64_t next = 0;
      for (int i = 0; i < parts; ++i) {
        const Range range = cache_aligned_part(count, DType::f32, parts, i);
        EXPECT_EQ(range.first, next);
        EXPECT_TRUE(range.first % 16 == 0 || range.count == 0);
        next += range.count;
      }
      EXPECT_EQ(next, count);
    }
}

TEST(Threads, OneRankThrowsAndAllEndWithItsMessage) {
  const auto begin = steady_clock::now();
  std::atomic<int> poisoned = 0;
  const std::string text = message_of(options(8), [&](World world) {
    Desk desk;
    world->barrier();
    if (world->rank() == 3) fail("the third wheel came off");
    try {
      const auto half = world->split([](int rank) { return rank / 4; }, "half");
      for (;;) half->all_reduce(desk.tensor, Reduce::sum, *desk.stream).wait(*desk.stream);
    } catch (const Poisoned& error) {
      ++poisoned;
      EXPECT_NE(std::string(error.what()).find("the third wheel came off"), std::string::npos);
      throw;
    }
  });
  EXPECT_EQ(text, "rank 3 on " + host_name() + ": the third wheel came off");
  EXPECT_EQ(poisoned, 7);
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(30));  // far below the timeout of 60
}

TEST(Threads, AThrowOfAnythingIsAnError) {
  expect_has(message_of(options(2),
                        [](World world) {
                          if (world->rank() == 1) throw 7;  // NOLINT
                          world->barrier();
                        }),
             {"rank 1 on ", "unknown type"});
}

TEST(Threads, APoisonOfTheBodyIsTheMessage) {
  expect_has(message_of(options(3),
                        [](World world) {
                          if (world->rank() == 2)
                            world->poison("enough of this");
                          else
                            world->barrier();
                        }),
             {"rank 2 on ", "enough of this"});
}

// Peers read the buffers of a rank that throws right after: its memory must not go before they are done. Seen by the
// address and thread sanitizers.
TEST(Threads, BuffersOfAFailingRankStayUntilTheOthersAreDone) {
  for (int round = 0; round < 20; ++round)
    message_of(options(4), [&](World world) {
      auto desk = std::make_unique<Desk>(200000);
      world->all_reduce(desk->tensor, Reduce::sum, *desk->stream).wait(*desk->stream);
      if (world->rank() == round % 4) fail("over");
      for (;;) world->all_reduce(desk->tensor, Reduce::sum, *desk->stream).wait(*desk->stream);
    });
}

TEST(Threads, ALateRankIsNamed) {
  std::atomic<bool> release = false;
  const std::string text = message_of(options(4, 0.5), [&](World world) {
    const auto upper = world->split([](int rank) { return rank == 0 ? 0 : 1; }, "upper");
    Desk desk(1234, DType::f64);
    if (world->rank() == 2) {
      while (!release) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    if (world->rank() == 0) return;
    try {
      upper->all_reduce(desk.tensor, Reduce::max, *desk.stream).wait(*desk.stream);
    } catch (...) {
      release = true;
      throw;
    }
  });
  expect_has(text, {" on ", "all_reduce(max) of 1234 f64, number 1", "group upper", "0.5 s", "rank 1 had not arrived",
                    "--timeout"});
}

TEST(ThreadsDeathTest, ARankThatNeverEndsEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_threads(options(3, 0.3),
                          [](World world) {
                            if (world->rank() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
                            world->barrier();
                          }),
              ::testing::ExitedWithCode(kExitStuckRank),
              "error: rank [02] on .*rank 1 had not arrived(.|\n)*rank 1 did not end within 1 s");
}

TEST(Threads, ARankThatLeftIsNamed) {
  for (const int receives : {0, 1}) {
    const auto begin = steady_clock::now();
    const std::string text = message_of(options(3), [&](World world) {
      Desk desk;
      if (world->rank() == 1) return;
      if (receives)
        world->receive(desk.tensor, 1, *desk.stream).wait(*desk.stream);
      else
        world->all_reduce(desk.tensor, Reduce::sum, *desk.stream).wait(*desk.stream);
    });
    expect_has(text, {receives ? "receive of 64 f32" : "all_reduce of 64 f32", "group world", "rank 1 has left"});
    EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(30));
  }
}

TEST(Threads, AMessageSentBeforeLeavingStillArrives) {
  run_threads(options(2), [](World world) {
    Desk desk;
    if (world->rank() == 1) {
      world->send(desk.tensor, 0, *desk.stream).wait(*desk.stream);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    world->receive(desk.tensor, 1, *desk.stream).wait(*desk.stream);
  });
}

TEST(Threads, DisagreementsAreNamed) {
  const auto differ = [](auto odd, auto even) {
    return message_of(options(4), [&](World world) {
      Desk desk(40);
      if (world->rank() == 2)
        odd(*world, desk);
      else
        even(*world, desk);
    });
  };
  const auto sum = [](Communicator& world, Desk& desk) {
    world.all_reduce(desk.tensor, Reduce::sum, *desk.stream).wait(*desk.stream);
  };
  expect_has(differ([](Communicator& world, Desk&) { world.barrier(); }, sum),
             {"group world", "number 1", "ranks 0, 1, 3 called all_reduce of 40 f32", "rank 2 called barrier"});
  expect_has(differ([](Communicator& world,
                       Desk& d) { world.all_reduce(d.tensor.rows(0, 39), Reduce::sum, *d.stream).wait(*d.stream); },
                    sum),
             {"rank 2 called all_reduce of 39 f32", "of 40 f32"});
  expect_has(differ(
                 [](Communicator& world, Desk&) {
                   Desk wide(40, DType::f64);
                   world.all_reduce(wide.tensor, Reduce::sum, *wide.stream).wait(*wide.stream);
                 },
                 sum),
             {"rank 2 called all_reduce of 40 f64"});
  expect_has(
      differ([](Communicator& world, Desk& d) { world.all_reduce(d.tensor, Reduce::max, *d.stream).wait(*d.stream); },
             sum),
      {"rank 2 called all_reduce(max) of 40 f32"});
  expect_has(differ([](Communicator& world, Desk& d) { world.broadcast(d.tensor, 1, *d.stream).wait(*d.stream); },
                    [](Communicator& world, Desk& d) { world.broadcast(d.tensor, 0, *d.stream).wait(*d.stream); }),
             {"broadcast of 40 f32 from rank 1", "broadcast of 40 f32 from rank 0"});
}

TEST(Threads, SenderAndReceiverMustAgree) {
  for (const bool early : {false, true}) {
    const std::string text = message_of(options(2), [&](World world) {
      Desk desk(8);
      Ticket ticket;
      if (world->rank() == 1 && early) ticket = world->receive(desk.tensor, 0, *desk.stream);
      world->barrier();
      if (world->rank() == 0) world->send(desk.tensor.rows(0, 7), 1, *desk.stream).wait(*desk.stream);
      world->barrier();
      if (world->rank() == 1 && !early) ticket = world->receive(desk.tensor, 0, *desk.stream);
      std::move(ticket).wait(*desk.stream);
    });
    expect_has(text, {"rank 1 called receive of 8 f32", "rank 0 called send of 7 f32", "number 1"});
  }
}

TEST(Threads, DroppedTicketsWaitForNobody) {
  run_threads(options(2), [](World world) {
    Desk desk;
    { Ticket dropped = world->receive(desk.tensor, 1 - world->rank(), *desk.stream); }
    world->send(desk.tensor, 1 - world->rank(), *desk.stream).wait(*desk.stream);
    desk.tensor.as<float>()[0] = 5;
    world->send(desk.tensor, 1 - world->rank(), *desk.stream).wait(*desk.stream);
    Desk other;
    world->receive(other.tensor, 1 - world->rank(), *desk.stream).wait(*desk.stream);
    require(other.tensor.as<float>()[0] == 5, "the second receive must get the second message");
  });
}

TEST(Threads, WrongArgumentsAreRefused) {
  const auto refused = [](const RankBody& body) { return message_of(options(2), body); };
  expect_has(refused([](World w) {
               Desk d(8, DType::i32);
               w->all_reduce(d.tensor, Reduce::sum, *d.stream).wait(*d.stream);
             }),
             {"i32"});
  expect_has(refused([](World w) {
               Desk d(8);
               w->all_gather(d.tensor, d.tensor, *d.stream).wait(*d.stream);
             }),
             {"8 f32 is not 2 ranks times 8 f32"});
  expect_has(refused([](World w) {
               Desk d(8);
               w->all_to_all(d.tensor, d.tensor, *d.stream).wait(*d.stream);
             }),
             {"must not share"});
  expect_has(refused([](World w) {
               Desk d(8);
               w->all_gather(d.tensor, d.tensor.rows(4 * (1 - w->rank()), 4), *d.stream).wait(*d.stream);
             }),
             {"is not rank"});
  expect_has(refused([](World w) {
               Desk d(7), e(7);
               w->all_to_all(d.tensor, e.tensor, *d.stream).wait(*d.stream);
             }),
             {"divide by the ranks"});
  expect_has(refused([](World w) {
               Desk d(8);
               w->send(d.tensor, 2, *d.stream).wait(*d.stream);
             }),
             {"names rank 2", "0 to 1"});
  expect_has(refused([](World w) {
               Desk d(8);
               w->broadcast({}, 0, *d.stream).wait(*d.stream);
             }),
             {"no tensor"});
  EXPECT_THROW(run_threads(options(0), [](World) {}), Error);
}

TEST(Threads, UnequalSplitsAreNamed) {
  expect_has(message_of(options(2),
                        [](World world) {
                          const auto group = world->split([](int) { return 0; }, world->rank() ? "one" : "other");
                          group->barrier();
                        }),
             {"disagree about a split", "group one", "group other"});
}

TEST(Threads, TwoWorldsAtOnce) {
  std::thread other([] { run_threads(options(2), [](World world) { testing::check_conformance(*world, {9}); }); });
  run_threads(options(3), [](World world) { testing::check_conformance(*world, {9}); });
  other.join();
}

}  // namespace
}  // namespace quadrille
