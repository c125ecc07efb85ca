// SPDX-License-Identifier: Apache-2.0
// What a stage hands on over slow links: sent at once it holds up the stage for the whole time of the link; carried it
// holds up nobody, as long as there is work meanwhile.
#include "training/channel.h"

#include <gtest/gtest.h>

#include "parallelism/courier.h"
#include "parallelism/forwarding_communicator.h"
#include "parallelism/links.h"
#include "parallelism/world.h"

namespace quadrille {
namespace {

constexpr double kLatency = 20e-3;

// The sends of rank 0, which hands three tensors on.
Traffic sends_of(const std::string& overlap) {
  Traffic sent;
  WorldOptions options;
  options.ranks = 2;
  run_threads(options, [&](std::unique_ptr<Communicator> world) {
    const auto device = make_host_device();
    const auto stream = device->make_stream();
    const int rank = world->rank();
    Ledger ledger;
    Courier courier;
    const Mesh mesh(over_links(std::move(world), {.bandwidth_bytes_per_s = 1e9, .latency_s = kLatency}), {{"pipe", 2}},
                    &courier);
    mesh.report_to(&ledger);
    const Plan plan(parse_json(R"({"pipeline": {"axis": "pipe"}, "overlap": [)" + overlap + "]}", "table"), mesh);
    Channel channel(plan, 1, ledger);
    for (int micro = 1; micro <= 3; ++micro) {
      const Tensor flow = device->empty({100}, DType::f64);
      std::fill_n(flow.as<double>(), 100, micro);
      if (rank == 1) {
        channel.receive(flow, *stream);
        continue;
      }
      channel.send(flow, *stream);
      courier.drain();  // stands for work that takes longer than the message
    }
    channel.settle(*stream);
    courier.settle_accounts(ledger);
    if (rank == 0) sent = ledger.messages().at({"pipe", "send"});
  });
  return sent;
}

// Notes in `prepared` whether its parts were told that messages will pass.
class Noting : public ForwardingCommunicator {
 public:
  Noting(std::unique_ptr<Communicator> right, bool& prepared)
      : ForwardingCommunicator(std::move(right)), prepared_(prepared) {}
  std::unique_ptr<Communicator> split(const std::function<int(int rank)>& colour_of, std::string name) override {
    return std::make_unique<Noting>(right_->split(colour_of, std::move(name)), prepared_);
  }
  void prepare_passing() override { prepared_ = true; }

 private:
  bool& prepared_;
};

// Ranks make connections together, so not at the first message, when others may be elsewhere.
TEST(Channel, PreparesItsConnectionsWhenItIsMade) {
  WorldOptions options;
  options.ranks = 2;
  run_threads(options, [](std::unique_ptr<Communicator> world) {
    bool prepared = false;
    const Mesh mesh(std::make_unique<Noting>(std::move(world), prepared), {{"pipe", 2}});
    const Plan plan(parse_json(R"({"pipeline": {"axis": "pipe"}})", "table"), mesh);
    Ledger ledger;
    EXPECT_FALSE(prepared);
    const Channel channel(plan, 1, ledger);
    EXPECT_TRUE(prepared);
  });
}

TEST(Channel, CarriedSendsExposeNothingWhereThereIsWork) {
  const Traffic at_once = sends_of(""), carried = sends_of("\"send\"");
  for (const Traffic& traffic : {at_once, carried}) {
    EXPECT_EQ(traffic.calls, 3);
    EXPECT_EQ(traffic.bytes, 2400);
    EXPECT_GE(traffic.seconds, 3 * kLatency * (1 - 1e-6));
  }
  EXPECT_GE(at_once.exposed, 3 * kLatency * (1 - 1e-6));
  EXPECT_EQ(carried.exposed, 0);
}

}  // namespace
}  // namespace quadrille
