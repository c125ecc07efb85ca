// SPDX-License-Identifier: Apache-2.0
#include "parallelism/mesh.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "parallelism/world.h"

namespace quadrille {
namespace {

using World = std::unique_ptr<Communicator>;

void in_world(int ranks, const RankBody& body) {
  WorldOptions options;
  options.ranks = ranks;
  run_threads(options, body);
}

// The sum of all ranks' numbers along `axes`, where each rank's number is its place in the world.
float sum_along(const Mesh& mesh, MeshAxes axes) {
  const auto device = make_host_device();
  const auto stream = device->make_stream();
  const Tensor t = device->empty({1}, DType::f32);
  *t.as<float>() = static_cast<float>(mesh.world().rank());
  mesh.along(axes).all_reduce(t, Reduce::sum, *stream).wait(*stream);
  return *t.as<float>();
}

TEST(Mesh, TheLastAxisJoinsNeighbours) {
  in_world(8, [](World world) {
    const Mesh mesh(std::move(world), {{"data", 2}, {"one", 1}, {"x", 2}, {"y", 2}});
    const int rank = mesh.world().rank();
    require(mesh.at(0) == rank / 4 && mesh.at(1) == 0 && mesh.at(2) == rank / 2 % 2 && mesh.at(3) == rank % 2,
            "places");
    require(mesh.find("x") == 2 && mesh.find("z") == -1 && mesh.axes() == 4 && mesh.name(3) == "y", "names");
    require(mesh.names(bit(0) | bit(2)) == "data+x" && mesh.along(bit(0) | bit(2)).name() == "data+x", "names of sets");
    require(mesh.real(mesh.all()) == (bit(0) | bit(2) | bit(3)) && mesh.extent_of(bit(0) | bit(3)) == 4, "sets");
    require(mesh.first_on(bit(3)) == (rank % 2 == 0) && mesh.first_on(0), "first");
    require(mesh.along(bit(0) | bit(2)).rank() == mesh.at(0) * 2 + mesh.at(2), "rank within a set");
  });
}

TEST(Mesh, EverySetOfAxesSumsOverItsRanks) {
  in_world(8, [](World world) {
    const Mesh mesh(std::move(world), {{"a", 2}, {"b", 2}, {"c", 2}});
    const int weight[] = {4, 2, 1}, rank = mesh.world().rank();
    for (MeshAxes set = 1; set <= mesh.all(); ++set) {
      float wanted = 0;
      for (int peer = 0; peer < 8; ++peer) {
        bool same = true;
        for (int axis = 0; axis < 3; ++axis)
          if (!(set & bit(axis)) && peer / weight[axis] % 2 != rank / weight[axis] % 2) same = false;
        if (same) wanted += static_cast<float>(peer);
      }
      require(sum_along(mesh, set) == wanted, "the sum along {} is wrong", mesh.names(set));
    }
  });
}

TEST(Mesh, TwoLiveInOneProcess) {
  in_world(4, [](World world) {
    auto half = world->split([](int rank) { return rank / 2; }, "half");
    const bool first = world->rank() < 2;
    const Mesh small(std::move(half), {{"x", 2}}), large(std::move(world), {{"x", 2}, {"y", 2}});
    require(sum_along(large, bit(0)) == (large.world().rank() % 2 ? 4.0f : 2.0f), "large");
    require(sum_along(small, bit(0)) == 1.0f, "small");
    require(small.world().size() == 2 && (first || large.world().rank() >= 2), "sizes");
  });
}

TEST(Mesh, WrongBoxesAreRefused) {
  const auto refused = [](std::vector<MeshAxis> axes, const char* part) {
    WorldOptions options;
    options.ranks = 4;
    try {
      run_counting(options, [&](World world) { const Mesh mesh(std::move(world), axes); });
      ADD_FAILURE() << "accepted: " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused({{"x", 2}, {"y", 3}}, "more places than the 4 ranks");
  refused({{"x", 2}}, "2 places but the world has 4");
  refused({{"x", 2}, {"x", 2}}, "axis x twice");
  refused({{"x", 0}, {"y", 4}}, "has 0 ranks");
  refused(std::vector<MeshAxis>(9, {"x", 1}), "at most 8");
  refused({{"x", 1 << 30}, {"y", 1 << 30}, {"z", 16}}, "more places");
}

TEST(Mesh, OnlyRealAxesHaveGroups) {
  WorldOptions options;
  options.ranks = 2;
  run_counting(options, [](World world) {
    const Mesh mesh(std::move(world), {{"x", 2}, {"one", 1}});
    EXPECT_NO_THROW(mesh.along(bit(0)));
    EXPECT_THROW(mesh.along(bit(1)), Error);
    EXPECT_THROW(mesh.along(bit(0) | bit(1)), Error);
    EXPECT_THROW(mesh.along(0), Error);
  });
}

}  // namespace
}  // namespace quadrille
