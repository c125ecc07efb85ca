// SPDX-License-Identifier: Apache-2.0
// The counting world: fast at any size, and its traffic equal to that of the real ones.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>

#include "core/error.h"
#include "core/ledger.h"
#include "parallelism/mesh.h"
#include "parallelism/world.h"

namespace quadrille {
namespace {

using World = std::unique_ptr<Communicator>;

// Every kind of message once, over the world, a pair and a group of one.
void talk(Communicator& world, Device& device, Ledger& ledger) {
  world.report_to(&ledger);
  const auto stream = device.make_stream();
  const auto pairs = world.split([](int rank) { return rank / 2; }, "pairs");
  const auto alone = world.split([](int rank) { return rank; }, "alone");
  for (Communicator* group : {&world, pairs.get(), alone.get()}) {
    const int n = group->size(), other = group->rank() ^ 1;
    const Tensor part = device.empty({60}, DType::f64), whole = device.empty({60 * n}, DType::f64),
                 again = device.empty({60 * n}, DType::f64);
    stream->zero(part), stream->zero(whole);
    group->all_reduce(part, Reduce::sum, *stream).wait(*stream);
    group->all_reduce(part, Reduce::max, *stream).wait(*stream);
    group->all_gather(whole, part, *stream).wait(*stream);
    group->reduce_scatter(part, whole, Reduce::sum, *stream).wait(*stream);
    group->all_to_all(again, whole, *stream).wait(*stream);
    group->broadcast(part, 0, *stream).wait(*stream);
    group->barrier();
    if (n == 1) continue;
    group->send(part, other, *stream).wait(*stream);
    group->receive(part, other, *stream).wait(*stream);
  }
}

TEST(Counting, BillsWhatARingSends) {
  const auto device = make_counting_device();
  Ledger ledger(true);
  WorldOptions options;
  options.ranks = 4;
  run_counting(options, [&](World world) { talk(*world, *device, ledger); });
  const std::map<std::string, double> wanted = {{"all_reduce", 2 * 0.75 * 60},
                                                {"all_reduce(max)", 2 * 0.75 * 60},
                                                {"all_gather", 0.75 * 240},
                                                {"reduce_scatter", 0.75 * 240},
                                                {"all_to_all", 0.75 * 240},
                                                {"broadcast", 60},
                                                {"send", 60},
                                                {"receive", 0}};
  std::size_t kinds = 0;
  for (const auto& [key, traffic] : ledger.messages()) {
    EXPECT_NE(key.first, "alone");
    EXPECT_EQ(traffic.calls, 1) << key.second;
    EXPECT_EQ(traffic.bytes, traffic.elements * 8);
    EXPECT_EQ(traffic.seconds, 0);
    if (key.first != "world") continue;
    ++kinds;
    ASSERT_TRUE(wanted.count(key.second)) << key.second;
    EXPECT_DOUBLE_EQ(traffic.elements, wanted.at(key.second)) << key.second;
  }
  EXPECT_EQ(kinds, wanted.size());
  EXPECT_EQ(ledger.entries().size(), 2 * wanted.size());
  for (const Entry& entry : ledger.entries()) EXPECT_EQ(entry.begin, entry.end);
}

TEST(Counting, EqualsTheThreads) {
  WorldOptions options;
  options.ranks = 4;
  run_threads(options, [&](World world) {
    const auto real = make_host_device(), imaginary = make_counting_device();
    Ledger measured, counted;
    talk(*world, *real, measured);
    WorldOptions mine = options;
    mine.counting_rank = world->rank();
    run_counting(mine, [&](World counting) { talk(*counting, *imaginary, counted); });
    require(measured.messages().size() == counted.messages().size(), "other kinds of messages");
    for (const auto& [key, traffic] : measured.messages()) {
      const Traffic& other = counted.messages().at(key);
      require(traffic.calls == other.calls && traffic.elements == other.elements && traffic.bytes == other.bytes,
              "{} in {}: {} elements were measured, {} counted", key.second, key.first, traffic.elements,
              other.elements);
      require(traffic.seconds > 0, "{} took no time", key.second);
    }
  });
}

TEST(Counting, AnswersForTenThousandRanks) {
  WorldOptions options;
  options.ranks = 10000;
  options.counting_rank = 5432;
  const auto begin = std::chrono::steady_clock::now();
  run_counting(options, [](World world) {
    EXPECT_EQ(world->rank(), 5432);
    std::int64_t asked = 0;
    const auto group = world->split([&](int rank) { return ++asked, rank % 10; }, "tenth");
    EXPECT_LE(asked, 10001);
    EXPECT_EQ(group->size(), 1000);
    EXPECT_EQ(group->rank(), 543);
    EXPECT_EQ(group->exchange(Json(7)).size(), 1000u);
    const Mesh mesh(std::move(world), {{"pipe", 5}, {"data", 125}, {"x", 4}, {"y", 4}});
    EXPECT_EQ(mesh.along(bit(1) | bit(3)).size(), 500);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Counting, RefusesARankThatIsNotThere) {
  WorldOptions options;
  options.counting_rank = 1;
  EXPECT_THROW(run_counting(options, [](World) {}), Error);
}

TEST(Worlds, AreNamed) {
  EXPECT_EQ(world_named("threads").run, &run_threads);
  EXPECT_EQ(world_named("counting").run, &run_counting);
  EXPECT_THROW(world_named("thread"), Error);
}

// The environment is put back, whatever it was: the tests may run under a launcher themselves.
class LauncherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) {
      if (const char* value = std::getenv(name)) saved_[name] = value;
      unsetenv(name);
    }
  }
  void TearDown() override {
    for (const char* name : kNames) saved_.count(name) ? setenv(name, saved_[name].c_str(), 1) : unsetenv(name);
  }
  static constexpr const char* kNames[] = {"OMPI_COMM_WORLD_SIZE",
                                           "OMPI_COMM_WORLD_RANK",
                                           "PMI_SIZE",
                                           "PMI_RANK",
                                           "PMIX_SIZE",
                                           "PMIX_RANK",
                                           "SLURM_NTASKS",
                                           "SLURM_NPROCS",
                                           "SLURM_STEP_NUM_TASKS",
                                           "SLURM_PROCID"};
  std::map<std::string, std::string> saved_;
};

TEST_F(LauncherTest, IsSeenInTheEnvironment) {
  EXPECT_EQ(launcher_from_environment().variable, "");
  setenv("SLURM_NTASKS", "8", 1);
  EXPECT_EQ(launcher_from_environment().ranks, 8);
  setenv("SLURM_STEP_NUM_TASKS", "1", 1);
  EXPECT_EQ(launcher_from_environment().ranks, 1);
  setenv("PMIX_RANK", "3", 1);  // a step of one has no rank 3: the allocation counts
  EXPECT_EQ(launcher_from_environment().variable, "SLURM_NTASKS");
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_EQ(launcher_from_environment().ranks, 2);
  EXPECT_EQ(launcher_from_environment().variable, "OMPI_COMM_WORLD_SIZE");
}

TEST_F(LauncherTest, AnyVariableAloneProvesCompany) {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"}) {
    setenv(name, "4", 1);
    const Launcher launcher = launcher_from_environment();
    EXPECT_EQ(launcher.variable, name);
    EXPECT_EQ(launcher.ranks, 4) << name;
    EXPECT_TRUE(launcher.speaks()) << name;
    setenv(name, "1", 1);
    EXPECT_EQ(launcher_from_environment().ranks, 1) << name;
    unsetenv(name);
  }
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}) {
    setenv(name, "3", 1);
    const Launcher launcher = launcher_from_environment();
    EXPECT_EQ(launcher.variable, name);
    EXPECT_EQ(launcher.ranks, 4) << name;
    EXPECT_TRUE(launcher.speaks()) << name << ": rank 0 cannot know, so this one tells";
    setenv(name, "0", 1);
    EXPECT_EQ(launcher_from_environment().ranks, 1) << name;
    unsetenv(name);
  }
}

TEST_F(LauncherTest, OneOfThoseThatKnowTells) {
  setenv("SLURM_NTASKS", "8", 1);
  setenv("SLURM_PROCID", "3", 1);
  setenv("PMIX_RANK", "3", 1);  // as under srun --mpi=pmix
  EXPECT_EQ(launcher_from_environment().variable, "SLURM_NTASKS");
  EXPECT_EQ(launcher_from_environment().rank, 3);
  EXPECT_FALSE(speaks_for_launcher());
  setenv("SLURM_PROCID", "0", 1);
  setenv("PMIX_RANK", "0", 1);
  EXPECT_TRUE(speaks_for_launcher());
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);  // mpirun -n 1 inside of it
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  EXPECT_EQ(launcher_from_environment().ranks, 1);
}

TEST_F(LauncherTest, WhatIsNoNumberIsRefused) {
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  for (const char* name : {"SLURM_NTASKS", "PMI_RANK"}) {
    for (const char* text : {"abc", "", "3x", "-2", "99999999999"}) {
      setenv(name, text, 1);
      try {
        launcher_from_environment();
        ADD_FAILURE() << name << "=" << text << " was accepted";
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find(name), 0u) << error.what();
      }
      EXPECT_TRUE(speaks_for_launcher());
    }
    unsetenv(name);
  }
}

TEST_F(LauncherTest, AccidentalSingletonsAreRefused) {
  const Launcher two{"PMI_SIZE", 2};
  EXPECT_THROW(refuse_accidental_singletons(two, "threads", false), Error);
  EXPECT_NO_THROW(refuse_accidental_singletons(two, "threads", true));
  EXPECT_NO_THROW(refuse_accidental_singletons(two, "mpi", false));
  EXPECT_NO_THROW(refuse_accidental_singletons({}, "threads", false));
  try {
    refuse_accidental_singletons(two, "threads", false);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--world mpi"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("PMI_SIZE"), std::string::npos);
  }
}

}  // namespace
}  // namespace quadrille
