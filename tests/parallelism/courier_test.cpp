// SPDX-License-Identifier: Apache-2.0
// Carried messages: the same bits, in order, and never a hang. Nothing here depends on how fast anything is: where a
// message must be under way, a rank holds it up.
#include "parallelism/courier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "core/random.h"
#include "parallelism/forwarding_communicator.h"
#include "parallelism/mesh.h"
#include "tests/parallelism/conformance.h"
#include "tests/parallelism/ranks.h"

namespace quadrille {
namespace {

using std::chrono::steady_clock;
using testing::Desk;
using testing::message_of;
using testing::options;
using testing::World;

// Does something first, on the thread that carries, in every all-reduce of this group (not of its splits).
class Prefaced : public ForwardingCommunicator {
 public:
  Prefaced(World right, std::function<void()> preface)
      : ForwardingCommunicator(std::move(right)), preface_(std::move(preface)) {}
  Ticket all_reduce(const Tensor& inout, Reduce how, Stream& s) override {
    preface_();
    return right_->all_reduce(inout, how, s);
  }
  World split(const std::function<int(int)>& colour_of, std::string name) override {
    return right_->split(colour_of, std::move(name));
  }

 private:
  std::function<void()> preface_;
};

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

class Carried : public ::testing::TestWithParam<int> {};

TEST_P(Carried, ConformsBitByBit) {
  for (const Sends sends : {Sends::at_once, Sends::carried}) {
    std::atomic<std::uint64_t> carried = 0, inline_ = 0;
    run_threads(options(GetParam()), [&](World world) {
      inline_ = testing::check_conformance(*world, testing::edge_sizes());
      Courier courier;
      const auto group = carried_by(courier, std::move(world), sends);
      carried = testing::check_conformance(*group, testing::edge_sizes());
    });
    EXPECT_EQ(carried, inline_);
  }
}

INSTANTIATE_TEST_SUITE_P(OneToFive, Carried, ::testing::Range(1, 6));

// Rank 0 goes on although its message cannot be complete: rank 1 takes part only when told to.
TEST(Courier, ReturnsAtOnce) {
  run_threads(options(2, 20), [](World world) {
    Desk desk;
    Courier courier;
    const auto group = carried_by(courier, world->split([](int) { return 0; }, "pair"));
    const Tensor bulk = desk.filled(1000, 1), word = desk.filled(1);
    if (world->rank() == 0) {
      Ticket sum = group->all_reduce(bulk, Reduce::sum, *desk.stream);
      world->send(word, 1, *desk.stream).wait(*desk.stream);
      std::move(sum).wait(*desk.stream);
    } else {
      world->receive(word, 0, *desk.stream).wait(*desk.stream);
      group->all_reduce(bulk, Reduce::sum, *desk.stream).wait(*desk.stream);
    }
    require(bulk.as<float>()[999] == 2, "the sum is wrong");
  });
}

// Each message works on what the one before it made, in two groups, and only the last is waited for.
TEST(Courier, KeepsTheOrderOfPosting) {
  run_threads(options(4), [](World world) {
    Desk desk;
    Courier courier;
    const Mesh mesh(std::move(world), {{"a", 2}, {"b", 2}}, &courier);
    Communicator &whole = mesh.beside(mesh.all()), &pair = mesh.beside(bit(1));
    const Tensor full = desk.filled(4000, 1), mine = full.rows(mesh.world().rank() * 1000, 1000);
    for (int round = 0; round < 20; ++round) {
      std::fill_n(full.as<float>(), 4000, 1.0f);
      Ticket dropped = whole.reduce_scatter(mine, full, Reduce::sum, *desk.stream);
      dropped = pair.all_reduce(mine, Reduce::sum, *desk.stream);
      whole.all_gather(full, mine, *desk.stream).wait(*desk.stream);
      for (const float x : full.host<float>()) require(x == 8, "{} where 8 was wanted", x);
    }
  });
}

TEST(Courier, ADroppedTicketWaitsForNobodyAndTravels) {
  run_threads(options(2, 20), [](World world) {
    Desk desk;
    Courier courier;
    const auto group = carried_by(courier, world->split([](int) { return 0; }, "pair"));
    const Tensor kept = desk.filled(10, 1), word = desk.filled(1);
    if (world->rank() == 1) world->receive(word, 0, *desk.stream).wait(*desk.stream);
    { Ticket dropped = group->all_reduce(desk.filled(1000, 1), Reduce::sum, *desk.stream); }  // nor is its tensor kept
    { Ticket dropped = group->all_reduce(kept, Reduce::sum, *desk.stream); }
    if (world->rank() == 0) world->send(word, 1, *desk.stream).wait(*desk.stream);
    courier.drain();
    require(kept.as<float>()[9] == 2, "the sum is wrong");
    require(kept.sole_owner(), "the courier still holds a tensor");
  });
}

// Behind a message that cannot be complete yet letters are posted all the same; they arrive in the order of posting,
// and the waiting thread lets go of them.
TEST(Courier, CarriedSendsReturnAtOnceAndKeepTheirOrder) {
  run_threads(options(2, 20), [](World world) {
    Desk desk;
    Courier courier;
    const auto pair = carried_by(courier, world->split([](int) { return 0; }, "pair"));
    const auto post = carried_by(courier, world->split([](int) { return 0; }, "post"), Sends::carried);
    const Tensor bulk = desk.filled(1000, 1), word = desk.filled(1), first = desk.filled(10, 1),
                 second = desk.filled(10, 2);
    if (world->rank() == 0) {
      Ticket sum = pair->all_reduce(bulk, Reduce::sum, *desk.stream);
      Ticket one = post->send(first, 1, *desk.stream), two = post->send(second, 1, *desk.stream);
      world->send(word, 1, *desk.stream).wait(*desk.stream);
      courier.drain();
      require(!first.sole_owner(), "the courier let go of a letter by itself");
      std::move(one).wait(*desk.stream), std::move(two).wait(*desk.stream);
      require(first.sole_owner() && second.sole_owner(), "a letter is still held");
      return;
    }
    world->receive(word, 0, *desk.stream).wait(*desk.stream);
    Ticket sum = pair->all_reduce(bulk, Reduce::sum, *desk.stream);
    for (const float wanted : {1.0f, 2.0f}) {
      post->receive(first, 0, *desk.stream).wait(*desk.stream);
      require(first.as<float>()[9] == wanted, "letter {} was wanted, {} came", wanted, first.as<float>()[9]);
    }
    std::move(sum).wait(*desk.stream);
  });
}

// What is carried comes in another order at each stage, letters between and behind sums: programs drawn at random, the
// same on all ranks, each rank taking its part of them. None may hang, and every number must be right.
TEST(Courier, LettersAndSumsInAnyOrderNeverHang) {
  constexpr int kRanks = 4, kEvents = 40;
  for (std::uint64_t program = 0; program < 25; ++program) {
    run_threads(options(kRanks, 20), [&](World world) {
      Desk desk;
      Courier courier;
      const int rank = world->rank();
      const Mesh mesh(std::move(world), {{"stage", 2}, {"data", 2}}, &courier);
      const auto post = carried_by(courier, mesh.world().split([](int) { return 0; }, "post"), Sends::carried);
      std::vector<Ticket> tickets;
      std::vector<Tensor> sums;
      auto draw = [&, n = std::uint64_t{0}](std::uint64_t below) mutable {
        return static_cast<int>(mix(mix(program) + ++n) % below);
      };
      courier.attend([&] {
        for (int event = 0; event < kEvents; ++event) {
          const int kind = draw(4), a = draw(kRanks), b = (a + 1 + draw(kRanks - 1)) % kRanks, settled = draw(3);
          if (kind < 2 && a / 2 == rank / 2) {  // a sum within one stage
            sums.push_back(desk.filled(50, static_cast<float>(event)));
            tickets.push_back(mesh.beside(bit(1)).all_reduce(sums.back(), Reduce::sum, *desk.stream));
          } else if (kind == 2 && a == rank) {
            tickets.push_back(post->send(desk.filled(50, static_cast<float>(event)), b, *desk.stream));
          } else if (kind == 2 && b == rank) {
            const Tensor place = desk.filled(50);
            post->receive(place, a, *desk.stream).wait(*desk.stream);
            require(place.as<float>()[49] == static_cast<float>(event), "the letter of event {} is wrong", event);
          } else if (kind == 3 && settled == 0) {
            for (Ticket& ticket : tickets) std::move(ticket).wait(*desk.stream);
            tickets.clear();
            mesh.along(mesh.all()).all_reduce(desk.filled(3), Reduce::sum, *desk.stream).wait(*desk.stream);
          }
        }
        for (Ticket& ticket : tickets) std::move(ticket).wait(*desk.stream);
        for (const Tensor& sum : sums)
          require(static_cast<int>(sum.as<float>()[0]) % 2 == 0, "a sum over two ranks is wrong");
      });
    });
  }
}

// An arena must see the same history every time: the waiting thread lets go, not the courier's.
TEST(Courier, TheWaitingThreadLetsGoOfTheTensors) {
  run_threads(options(2), [](World world) {
    Desk desk;
    Courier courier;
    const auto group = carried_by(courier, std::move(world));
    const Tensor tensor = desk.filled(10);
    Ticket ticket = group->all_reduce(tensor, Reduce::sum, *desk.stream);
    courier.drain();
    require(!tensor.sole_owner(), "the courier let go of a tensor by itself");
    std::move(ticket).wait(*desk.stream);
    require(tensor.sole_owner(), "the tensor is still held");
  });
}

TEST(Courier, ATicketMayOutliveIt) {
  run_threads(options(2), [](World world) {
    Desk desk;
    Ticket late;
    {
      Courier courier;
      late = carried_by(courier, std::move(world))->all_reduce(desk.filled(10), Reduce::sum, *desk.stream);
    }
    std::move(late).wait(*desk.stream);
  });
}

TEST(Courier, BarrierAndExchangeComeAfterWhatWasPosted) {
  run_threads(options(1), [](World world) {
    Desk desk;
    Courier courier;
    std::atomic<int> begun = 0;
    const auto group = carried_by(courier, std::make_unique<Prefaced>(std::move(world), [&] {
                                    std::this_thread::sleep_for(std::chrono::milliseconds(20));
                                    ++begun;
                                  }));
    Ticket ticket = group->all_reduce(desk.filled(1), Reduce::sum, *desk.stream);
    group->barrier();
    require(begun == 1, "the barrier came first");
    ticket = group->all_reduce(desk.filled(1), Reduce::sum, *desk.stream);
    (void)group->exchange(Json(7));
    require(begun == 2, "the exchange came first");
  });
}

TEST(Courier, WhatGoesWrongIsThrownByTheWait) {
  const std::string text = message_of(options(3), [](World world) {
    Desk desk;
    Courier courier;
    const auto group = carried_by(courier, std::move(world));
    const Tensor whole = desk.device->empty({8}, DType::i32);
    if (group->rank() == 1) {
      Ticket wrong = group->all_reduce(whole, Reduce::sum, *desk.stream);
      const auto next = [&] { group->all_gather(desk.filled(3), desk.filled(1), *desk.stream).wait(*desk.stream); };
      EXPECT_THROW(next(), Error);
      EXPECT_THROW((void)group->all_gather(desk.filled(3), desk.filled(1), *desk.stream), Error) << "posted";
      std::move(wrong).wait(*desk.stream);
    }
    group->all_gather(desk.filled(3), desk.filled(1), *desk.stream).wait(*desk.stream);
  });
  EXPECT_EQ(text, "rank 1 on " + host_name() + ": all_reduce in group world was given i32: f32, f64 or bf16 is wanted");
}

// Nobody waits for the message that fails; all ranks hear of it all the same.
TEST(Courier, AFailureOfADroppedMessageEndsAll) {
  const auto begin = steady_clock::now();
  const std::string text = message_of(options(3), [](World world) {
    Desk desk;
    Courier courier;
    const auto group = carried_by(courier, world->split([](int) { return 0; }, "bulk"));
    if (world->rank() == 1)
      Ticket dropped = group->all_reduce(desk.device->empty({8}, DType::i32), Reduce::sum, *desk.stream);
    if (world->rank() == 2) world->receive(desk.filled(1), 0, *desk.stream).wait(*desk.stream);
    world->barrier();
  });
  EXPECT_NE(text.find("rank 1 on"), std::string::npos) << text;
  EXPECT_NE(text.find("in group bulk was given i32"), std::string::npos) << text;
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(Courier, ADeadlineNamesWhoDidNotCome) {
  const std::string text = message_of(options(2, 0.3), [](World world) {
    Desk desk;
    Courier courier;
    const auto group = carried_by(courier, world->split([](int) { return 0; }, "pair"));
    if (world->rank() == 0) {
      Ticket never = group->all_reduce(desk.filled(5), Reduce::sum, *desk.stream);
      std::move(never).wait(*desk.stream);
    } else {
      for (;; pause())  // until it hears of the failure
        world->send(desk.filled(1), 0, *desk.stream).wait(*desk.stream);
    }
  });
  EXPECT_NE(text.find("rank 0 on"), std::string::npos) << text;
  EXPECT_NE(text.find("all_reduce of 5 f32, number 1 in group pair waited 0.3 s and gave up: rank 1 had not arrived"),
            std::string::npos)
      << text;
}

// The couriers of all ranks are busy; the failing one's own message is never joined by rank 0. The device goes
// before the courier, as that of a trainer does.
TEST(Courier, AFailingRankEndsAllWithItsMessage) {
  const auto begin = steady_clock::now();
  const std::string text = message_of(options(4), [](World world) {
    std::atomic<int> begun = 0;
    Courier courier;
    const auto group =
        carried_by(courier, std::make_unique<Prefaced>(world->split([](int) { return 0; }, "bulk"), [&] { ++begun; }));
    Desk desk;
    courier.attend([&] {
      Ticket first = group->all_reduce(desk.filled(100), Reduce::sum, *desk.stream);
      std::move(first).wait(*desk.stream);
      if (world->rank() == 0) world->barrier();
      Ticket bulk = group->all_reduce(desk.filled(100), Reduce::sum, *desk.stream);
      Ticket more = group->all_reduce(desk.filled(100), Reduce::sum, *desk.stream);
      if (world->rank() == 2) {
        while (begun < 2) pause();
        fail("the second wheel came off");
      }
      if (world->rank() == 3) world->barrier();
      std::move(more).wait(*desk.stream);
    });
  });
  EXPECT_EQ(text, "rank 2 on " + host_name() + ": the second wheel came off");
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(30));  // far below the timeout of 60
}

TEST(Courier, UnattendedItsEndDoesNotHangEither) {
  const auto begin = steady_clock::now();
  const std::string text = message_of(options(2), [](World world) {
    Desk desk;
    std::atomic<int> begun = 0;
    Courier courier;
    const auto group =
        carried_by(courier, std::make_unique<Prefaced>(world->split([](int) { return 0; }, "bulk"), [&] { ++begun; }));
    if (world->rank() == 0) world->barrier();
    Ticket bulk = group->all_reduce(desk.filled(100), Reduce::sum, *desk.stream);
    while (begun < 1) pause();
    fail("the second wheel came off");
  });
  EXPECT_NE(text.find("rank 1 on"), std::string::npos) << text;
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(Courier, OnlyTheTimeInsideAWaitIsExposed) {
  run_threads(options(1), [](World world) {
    Desk desk;
    Ledger ledger(true);
    Courier courier(true);
    std::promise<void> gate;
    const auto group = carried_by(
        courier, std::make_unique<Prefaced>(std::move(world), [open = gate.get_future().share()] { open.wait(); }));
    group->report_to(&ledger);
    const auto exposed = [&] {
      const auto line = ledger.messages().find({"world", "all_reduce"});
      return line == ledger.messages().end() ? 0.0 : line->second.exposed;
    };
    Ticket hidden = group->all_reduce(desk.filled(1), Reduce::sum, *desk.stream);
    Ticket waited = group->all_reduce(desk.filled(1), Reduce::sum, *desk.stream);
    std::thread porter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      gate.set_value();
    });
    std::move(waited).wait(*desk.stream);
    porter.join();
    const double once = exposed();
    require(once > 0, "a wait exposed nothing");
    std::move(hidden).wait(*desk.stream);
    require(exposed() == once, "a wait for what was complete exposed something");
    require(ledger.entries().size() == 1 && ledger.entries()[0].kind == Entry::Kind::wait, "one wait was wanted");
  });
}

TEST(Courier, SettlesTheSameBillAsWithoutIt) {
  run_threads(options(4), [](World world) {
    Desk desk;
    Ledger plain, carried;
    const auto talk = [&](const Mesh& mesh) {
      for (const MeshAxes axes : {bit(0), bit(1), mesh.all()}) {
        Communicator& group = mesh.beside(axes);
        const Tensor part = desk.filled(60), whole = desk.filled(60 * group.size());
        group.all_reduce(part, Reduce::max, *desk.stream).wait(*desk.stream);
        group.all_gather(whole, part, *desk.stream).wait(*desk.stream);
        group.reduce_scatter(part, whole, Reduce::sum, *desk.stream).wait(*desk.stream);
        group.broadcast(part, 0, *desk.stream).wait(*desk.stream);
      }
    };
    const std::vector<MeshAxis> axes = {{"a", 2}, {"b", 2}};
    Courier courier;
    {
      const Mesh without(world->split([](int) { return 0; }, "world"), axes);
      require(&without.beside(bit(0)) == &without.along(bit(0)), "without a courier there is one set of groups");
      without.report_to(&plain);
      talk(without);
    }
    const Mesh with(std::move(world), axes, &courier);
    with.report_to(&carried);
    talk(with);
    for (const auto& [key, traffic] : carried.messages()) require(traffic.calls == 0, "billed before it was settled");
    courier.settle_accounts(carried);
    require(plain.messages().size() == 12 && carried.messages().size() == 12, "other kinds of messages");
    for (const auto& [key, traffic] : plain.messages()) {
      const Traffic& other = carried.messages().at(key);
      require(traffic.calls == other.calls && traffic.elements == other.elements && traffic.bytes == other.bytes,
              "{} in {} is billed {} elements and {} carried", key.second, key.first, traffic.elements, other.elements);
      require(traffic.exposed == traffic.seconds && other.seconds > 0, "the seconds are wrong");
    }
    Ledger again;
    courier.settle_accounts(again);
    require(again.messages().empty(), "settled twice");
  });
}

// The rank's thread and its courier in different groups at once, over and over: for the thread sanitizer.
TEST(Courier, TwoThreadsOfARankInTwoGroups) {
  run_threads(options(4), [](World world) {
    Desk desk;
    Courier courier;
    const Mesh mesh(std::move(world), {{"a", 2}, {"b", 2}}, &courier);
    std::vector<Tensor> bulk;
    std::vector<Ticket> tickets;
    for (int i = 0; i < 60; ++i) {
      bulk.push_back(desk.filled(1 + i * 37, static_cast<float>(i)));
      tickets.push_back(mesh.beside(i % 2 ? bit(0) : mesh.all()).all_reduce(bulk.back(), Reduce::sum, *desk.stream));
      const Tensor crossing = desk.filled(100, 1);
      mesh.along(bit(1)).all_reduce(crossing, Reduce::sum, *desk.stream).wait(*desk.stream);
      require(crossing.as<float>()[99] == 2, "a crossing is wrong");
      const int other = 1 - mesh.along(bit(0)).rank();
      Ticket word = mesh.along(bit(0)).receive(crossing, other, *desk.stream);
      mesh.beside(bit(0)).send(desk.filled(1), other, *desk.stream).wait(*desk.stream);
      mesh.beside(bit(0)).receive(desk.filled(1), other, *desk.stream).wait(*desk.stream);
      mesh.along(bit(0)).send(desk.filled(100), other, *desk.stream).wait(*desk.stream);
      std::move(word).wait(*desk.stream);
      if (i == 0) continue;
      std::move(tickets[static_cast<std::size_t>(i - 1)]).wait(*desk.stream);
    }
    std::move(tickets.back()).wait(*desk.stream);
    for (int i = 0; i < 60; ++i)
      require(bulk[static_cast<std::size_t>(i)].as<float>()[0] == static_cast<float>(i) * (i % 2 ? 2.0f : 4.0f),
              "bulk message {} is wrong", i);
  });
}

}  // namespace
}  // namespace quadrille
