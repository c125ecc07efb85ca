// SPDX-License-Identifier: Apache-2.0
// Emulated links: how bandwidth is shared by given times, and that a message takes at least its time.
#include "parallelism/links.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "parallelism/courier.h"
#include "parallelism/world.h"
#include "tests/parallelism/conformance.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

using World = std::unique_ptr<Communicator>;

TEST(SharedLink, AloneAMessageHasAllOfIt) {
  SharedLink link(100);
  const double goal = link.begin(5, 200);
  EXPECT_DOUBLE_EQ(link.remaining(5, goal), 2);
  EXPECT_DOUBLE_EQ(link.remaining(6.5, goal), 0.5);
  EXPECT_EQ(link.remaining(7, goal), 0);
  EXPECT_EQ(link.remaining(100, goal), 0);
  EXPECT_DOUBLE_EQ(link.remaining(200, link.begin(200, 50)), 0.5);  // idle time earns nothing
}

TEST(SharedLink, TwoMessagesHalveIt) {
  SharedLink link(100);
  const double first = link.begin(0, 200);
  const double second = link.begin(1, 50);  // the first has 100 left; both move at 50
  EXPECT_DOUBLE_EQ(link.remaining(1, second), 1);
  EXPECT_DOUBLE_EQ(link.remaining(1, first), 1.5);  // 50 at half speed, 50 alone
  EXPECT_EQ(link.remaining(2, second), 0);
  EXPECT_DOUBLE_EQ(link.remaining(2, first), 0.5);
  EXPECT_EQ(link.remaining(2.5, first), 0);
}

TEST(SharedLink, WhoIsThroughBetweenTwoLooksSlowsNobodyAfterwards) {
  SharedLink link(100);
  const double first = link.begin(0, 50), second = link.begin(0, 150);
  EXPECT_DOUBLE_EQ(link.remaining(1.5, second), 0.5);  // 50 until 1, at half speed; then 50 of 100 left
  EXPECT_EQ(link.remaining(1.5, first), 0);
  EXPECT_EQ(link.remaining(1.5, link.begin(1.5, 0)), 0);  // nothing takes no time
}

TEST(Links, AreReadStrictly) {
  const Links links = links_from(parse_json(R"({"bandwidth_bytes_per_s": 1e9, "latency_s": 1e-5})", "t"));
  EXPECT_EQ(links.bandwidth_bytes_per_s, 1e9);
  EXPECT_EQ(links.latency_s, 1e-5);
  for (const char* wrong : {R"({"latency_s": 1})", R"({"bandwidth_bytes_per_s": 0})", R"({"bandwidth": 1})",
                            R"({"bandwidth_bytes_per_s": 1, "latency_s": -1})"})
    EXPECT_THROW(links_from(parse_json(wrong, "t")), Error) << wrong;
}

// Once they slept on for as long as the link wanted.
TEST(Links, ThatNoMessageCouldPassInTimeAreRefusedAtOnce) {
  WorldOptions options;
  options.ranks = 2;
  const std::string text = message_of([&] {
    run_threads(options, [](World world) {
      const auto slow = over_links(std::move(world), {.bandwidth_bytes_per_s = 1, .latency_s = 0, .timeout_s = 5});
      const auto device = make_host_device();
      const auto stream = device->make_stream();
      slow->all_reduce(device->empty({100}, DType::f32), Reduce::sum, *stream).wait(*stream);
    });
  });
  says(text, {"too slow: all_reduce over", "sends 400 bytes in 2 steps", "needs 400 s at 1 bytes/s", "wait 5 s at most",
              "--timeout above 400"});
}

TEST(Links, AreReadFromTheCommandLine) {
  EXPECT_EQ(links_from_text("1e9,1e-5").latency_s, 1e-5);
  EXPECT_EQ(links_from_text("1e6").bandwidth_bytes_per_s, 1e6);
  EXPECT_EQ(links_from_text("1e6").latency_s, 0) << "the latency may be left out";
  for (const char* wrong : {"", "fast", "1e6,", "1e6,x", "1e6,1,2"}) {
    const std::string text = message_of([&] { (void)links_from_text(wrong); });
    EXPECT_EQ(text, std::string(wrong) +
                        " is no link: wanted BYTES_PER_S or BYTES_PER_S,SECONDS, for example 1e9 or 1e9,1e-5");
  }
  EXPECT_TRUE(contains(message_of([] { (void)links_from_text("-1"); }), "-1: links.bandwidth_bytes_per_s is -1"));
}

TEST(Links, ConformBitByBit) {
  WorldOptions options;
  options.ranks = 3;
  run_threads(options, [](World world) {
    const auto plain = testing::check_conformance(*world, {0, 257});
    const auto slow = over_links(std::move(world), {1e12, 1e-7});
    require(testing::check_conformance(*slow, {0, 257}) == plain, "the links changed a bit");
  });
}

// Every kind takes at least the time of its ring, and all of it is in the ledger; carried, none of it is exposed.
TEST(Links, TakeTheirTime) {
  WorldOptions options;
  options.ranks = 2;
  run_threads(options, [](World world) {
    const auto device = make_host_device();
    const auto stream = device->make_stream();
    const Links links{2e6, 1e-3};
    const int rank = world->rank();
    const auto slow = over_links(std::move(world), links);
    Ledger inline_, beside;
    const Tensor part = device->empty({1000}, DType::f64), whole = device->empty({2000}, DType::f64),
                 again = device->empty({2000}, DType::f64);
    stream->zero(part), stream->zero(whole);
    const auto talk = [&](Communicator& group, Ledger& ledger) {
      group.report_to(&ledger);
      group.all_reduce(part, Reduce::max, *stream).wait(*stream);
      group.all_gather(whole, part, *stream).wait(*stream);
      group.reduce_scatter(part, whole, Reduce::sum, *stream).wait(*stream);
      group.all_to_all(again, whole, *stream).wait(*stream);
      group.broadcast(part, 0, *stream).wait(*stream);
      group.send(part, 1 - group.rank(), *stream).wait(*stream);
      group.receive(part, 1 - group.rank(), *stream).wait(*stream);
    };
    talk(*slow->split([](int) { return 0; }, "pair"), inline_);
    Courier courier;
    talk(*carried_by(courier, slow->split([](int) { return 0; }, "pair")), beside);
    courier.settle_accounts(beside);
    for (const Ledger* ledger : {&inline_, &beside}) {
      for (const auto& [key, traffic] : ledger->messages()) {
        if (key.second == "receive") continue;
        const double steps = key.second == "all_reduce(max)" ? 2 : 1;  // each moves 8000 bytes
        const double least = steps * links.latency_s + 8000 / links.bandwidth_bytes_per_s;
        require(traffic.seconds >= least * (1 - 1e-6), "{} took only {} s", key.second, traffic.seconds);
        const bool receives = key.second == "broadcast" && rank != 0;
        require(traffic.calls == 1 && traffic.bytes == (receives ? 0 : 8000), "{} is billed {} bytes", key.second,
                traffic.bytes);
      }
      require(ledger->messages().size() == 7, "kinds of messages");
    }
    require(inline_.messages().at({"pair", "broadcast"}).exposed >= 3e-3, "an inline message was not exposed");
  });
}

// What is computed meanwhile hides a message: the wait exposes nothing, since it begins after the message's end.
TEST(Links, ACarriedMessageIsHidden) {
  WorldOptions options;
  options.ranks = 2;
  run_threads(options, [](World world) {
    const auto device = make_host_device();
    const auto stream = device->make_stream();
    Ledger ledger;
    Courier courier;
    const auto group = carried_by(courier, over_links(std::move(world), {1e6, 0}));
    group->report_to(&ledger);
    const Tensor bulk = device->empty({2500}, DType::f64);  // 20 ms
    stream->zero(bulk);
    Ticket ticket = group->all_reduce(bulk, Reduce::sum, *stream);
    courier.drain();  // stands for work that takes longer than the message
    std::move(ticket).wait(*stream);
    courier.settle_accounts(ledger);
    const Traffic& traffic = ledger.messages().at({"world", "all_reduce"});
    require(traffic.seconds >= 20e-3, "the message took only {} s", traffic.seconds);
    require(traffic.exposed == 0, "{} of {} s are exposed", traffic.exposed, traffic.seconds);
  });
}

}  // namespace
}  // namespace quadrille
