// SPDX-License-Identifier: Apache-2.0
// One program for all that needs a launcher: CTest starts it through mpirun, once per case. It behaves like a program
// of the house: Error is printed as one message, Poisoned is not printed, both end non-zero.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "core/error.h"
#include "parallelism/courier.h"
#include "parallelism/mesh.h"
#include "parallelism/world.h"
#include "tests/parallelism/conformance.h"

namespace quadrille {
namespace {

using World = std::unique_ptr<Communicator>;

struct Desk {
  explicit Desk(std::int64_t count) : tensor(device->empty({count}, DType::f32)) { stream->zero(tensor); }
  std::unique_ptr<Device> device = make_host_device();
  std::unique_ptr<Stream> stream = device->make_stream();
  Tensor tensor;
};

void sum(Communicator& group, const Desk& desk) {
  group.all_reduce(desk.tensor, Reduce::sum, *desk.stream).wait(*desk.stream);
}

// The same checks in both worlds, and the same bits.
void conformance(const WorldOptions& options) {
  const std::vector<std::int64_t> sizes = {0, 1, 257, 5003};
  std::uint64_t over_mpi = 0;
  int ranks = 0, rank = 0;
  run_mpi(options, [&](World world) {
    ranks = world->size(), rank = world->rank();
    over_mpi = testing::check_conformance(*world, sizes);
    over_mpi += testing::check_conformance(*world, {70001});
    const Mesh mesh(std::move(world), {{"outer", ranks}, {"one", 1}});
    require(ranks == 1 || mesh.along(bit(0)).size() == ranks, "the mesh is wrong");
  });
  if (rank != 0) return;
  std::uint64_t over_threads = 0;
  WorldOptions same;
  same.ranks = ranks;
  run_threads(same, [&](World world) {
    auto digest = testing::check_conformance(*world, sizes);
    digest += testing::check_conformance(*world, {70001});
    if (world->rank() == 0) over_threads = digest;
  });
  require(over_mpi == over_threads, "{} ranks: the digest is {:x} over MPI, {:x} over threads", ranks, over_mpi,
          over_threads);
  fmt::print("conforms\n");
}

// Two threads of each rank at work in groups of their own, bulk messages beside crossings and large sends.
void two_threads(World world, int rounds) {
  const Desk bulk(300000), small(100), large(200000), place(200000);
  const int ranks = world->size(), rank = world->rank(), right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  Courier courier;
  const Mesh mesh(std::move(world), {{"line", ranks}}, &courier);
  Communicator &line = mesh.along(mesh.all()), &beside = mesh.beside(mesh.all());
  const auto letters = carried_by(courier,
                                  mesh.part_of(
                                      0, [](int) { return 0; }, "letters"),
                                  Sends::carried);
  courier.attend([&] {
    for (int round = 0; round < rounds; ++round) {
      std::fill_n(bulk.tensor.as<float>(), 300000, 1.0f), std::fill_n(small.tensor.as<float>(), 100, 1.0f);
      Ticket carried = beside.all_reduce(bulk.tensor, Reduce::sum, *bulk.stream);
      for (int i = 0; i < 5; ++i) sum(line, small);
      *large.tensor.as<float>() = static_cast<float>(rank * 1000 + round);
      beside.send(large.tensor, right, *large.stream).wait(*large.stream);
      beside.receive(place.tensor, left, *place.stream).wait(*place.stream);
      Ticket letter = letters->send(large.tensor, right, *large.stream);
      letters->receive(place.tensor, left, *place.stream).wait(*place.stream);
      std::move(carried).wait(*bulk.stream), std::move(letter).wait(*large.stream);
      require(*place.tensor.as<float>() == static_cast<float>(left * 1000 + round), "a message from the left is wrong");
      const auto n = static_cast<float>(ranks);
      require(small.tensor.as<float>()[99] == n * n * n * n * n && bulk.tensor.as<float>()[299999] == n,
              "a sum beside another is wrong");
    }
  });
}

// The same checks carried by a courier, against the inline ones of the other world.
void carried(const WorldOptions& options) {
  const std::vector<std::int64_t> sizes = {0, 1, 257, 70001};
  std::uint64_t over_mpi = 0, over_threads = 0;
  int ranks = 0, rank = 0;
  run_mpi(options, [&](World world) {
    ranks = world->size(), rank = world->rank();
    for (const Sends sends : {Sends::at_once, Sends::carried}) {
      Courier courier;
      const auto group = carried_by(courier, world->split([](int) { return 0; }, "world"), sends);
      const auto digest = testing::check_conformance(*group, sizes);
      require(sends == Sends::at_once || digest == over_mpi, "carried sends change the digest");
      over_mpi = digest;
    }
    two_threads(std::move(world), 20);
  });
  if (rank != 0) return;
  WorldOptions same;
  same.ranks = ranks;
  run_threads(same, [&](World world) {
    const auto digest = testing::check_conformance(*world, sizes);
    if (world->rank() == 0) over_threads = digest;
  });
  require(over_mpi == over_threads, "{} ranks: the digest is {:x} carried over MPI, {:x} over threads", ranks, over_mpi,
          over_threads);
  fmt::print("conforms\n");
}

// Every rank has a message under way on its courier when `last` befalls the highest rank.
void beside_courier(World world, const std::function<void()>& last) {
  const Desk desk(100000), bulk(3000000);
  Courier courier;
  const int ranks = world->size();
  const bool highest = world->rank() == ranks - 1;
  const Mesh mesh(std::move(world), {{"line", ranks}}, &courier);
  courier.attend([&] {
    sum(mesh.beside(mesh.all()), bulk);
    if (mesh.world().rank() == 0) sum(mesh.along(mesh.all()), desk);  // so that the bulk message cannot be complete
    Ticket ticket = mesh.beside(mesh.all()).all_reduce(bulk.tensor, Reduce::sum, *bulk.stream);
    if (highest) last();
    if (mesh.world().rank() == 1) sum(mesh.along(mesh.all()), desk);
    std::move(ticket).wait(*bulk.stream);
  });
}

using Case = void (*)(World);
struct Named {
  std::string_view name;
  Case run;
};

// Each of these must fail, on the highest rank.
const Named kFailures[] = {
    {"throw",
     [](World world) {
       const Desk desk(100000);
       world->barrier();
       if (world->rank() == world->size() - 1) fail("the last wheel came off");
       for (;;) sum(*world, desk);
     }},
    {"throw-all", [](World world) { fail("rank {} and everybody else", world->rank()); }},
    {"throw-beside-receive",
     [](World world) {
       const Desk desk(100000);
       if (world->rank() == world->size() - 1) fail("the last wheel came off");
       world->receive(desk.tensor, world->size() - 1, *desk.stream).wait(*desk.stream);
     }},
    {"sleep",
     [](World world) {
       const Desk desk(1234);
       world->barrier();
       if (world->rank() == world->size() - 1) std::this_thread::sleep_for(std::chrono::hours(1));
       sum(*world, desk);
     }},
    {"sleep-in-transfer",
     [](World world) {
       const Desk desk(3000000);
       if (world->rank() == world->size() - 1) {
         sum(*world, desk);
         std::this_thread::sleep_for(std::chrono::hours(1));
       }
       for (;;) sum(*world, desk);
     }},
    {"operation",
     [](World world) {
       const Desk desk(40);
       if (world->rank() == world->size() - 1)
         world->barrier();
       else
         sum(*world, desk);
     }},
    {"size", [](World world) { sum(*world, Desk(world->rank() == world->size() - 1 ? 100001 : 100000)); }},
    {"root",
     [](World world) {
       const Desk desk(8);
       world->broadcast(desk.tensor, world->rank() == world->size() - 1 ? 1 : 0, *desk.stream).wait(*desk.stream);
     }},
    {"send",
     [](World world) {
       const Desk desk(8);
       const int last = world->size() - 1;
       if (world->rank() == 0) world->send(desk.tensor.rows(0, 7), last, *desk.stream).wait(*desk.stream);
       if (world->rank() == last) world->receive(desk.tensor, 0, *desk.stream).wait(*desk.stream);
       world->barrier();
     }},
    {"leave",
     [](World world) {
       if (world->rank() == world->size() - 1) return;
       const Desk desk(64);
       sum(*world, desk);
     }},
    {"poison",
     [](World world) {
       if (world->rank() == world->size() - 1)
         world->poison("enough of this");
       else
         world->barrier();
     }},
    {"throw-beside-courier",
     [](World world) { beside_courier(std::move(world), [] { fail("the last wheel came off"); }); }},
    {"sleep-beside-courier",
     [](World world) { beside_courier(std::move(world), [] { std::this_thread::sleep_for(std::chrono::hours(1)); }); }},
    // Only the courier of the highest rank notices, and its own thread never hears of it.
    {"hang-beside-courier",
     [](World world) {
       const Desk desk(100), bulk(3000000);
       Courier courier;
       const auto group = carried_by(courier, world->split([](int) { return 0; }, "bulk"));
       if (world->rank() == world->size() - 1) {
         Ticket ticket = group->all_reduce(bulk.tensor, Reduce::sum, *bulk.stream);
         std::this_thread::sleep_for(std::chrono::hours(1));
       }
       for (;; std::this_thread::sleep_for(std::chrono::milliseconds(10)))
         world->send(desk.tensor, world->size() - 1, *desk.stream).wait(*desk.stream);
     }},
    {"absent", [](World world) { world->barrier(); }},
    {"unreceived",
     [](World world) {
       const Desk desk(1000000);
       if (world->rank() == world->size() - 1) world->send(desk.tensor, 0, *desk.stream).wait(*desk.stream);
     }},
};

int run(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  WorldOptions options;
  options.ranks = argc > 2 ? std::atoi(argv[2]) : 0;
  options.timeout_seconds = argc > 3 ? std::atof(argv[3]) : 30;
  if (argc > 4) options.mpi_chunk_bytes = std::atoll(argv[4]);
  if (name == "conformance") return conformance(options), 0;
  if (name == "carried") return carried(options), 0;
  if (name == "absent") {  // the highest rank never calls MPI
    const Launcher launcher = launcher_from_environment();
    options.start_seconds = options.timeout_seconds;
    if (launcher.rank == launcher.ranks - 1) std::this_thread::sleep_for(std::chrono::seconds(50));
  }
  if (name == "threads-under-launcher") {
    refuse_accidental_singletons(launcher_from_environment(), "threads", false);
    return 0;
  }
  for (const Named& each : kFailures)
    if (each.name == name) return run_mpi(options, each.run), 0;
  fail("there is no case {}", name);
}

}  // namespace
}  // namespace quadrille

int main(int argc, char** argv) {
  try {
    return quadrille::run(argc, argv);
  } catch (const quadrille::Poisoned&) {
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
