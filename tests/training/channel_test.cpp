// SPDX-License-Identifier: Apache-2.0
// What a stage hands on over slow links: sent at once it holds up the stage for the whole time of the link; carried it
// holds up nobody, as long as there is work meanwhile.
#include "training/channel.h"

#include <gtest/gtest.h>

#include "parallelism/courier.h"
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
