// SPDX-License-Identifier: Apache-2.0
// Rows that threads read ahead are the rows that the rank would have read itself: same batches, same refusals, same
// bits. And they are ahead, but not further than told.
#include "training/feeder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <set>
#include <thread>

#include "core/error.h"
#include "parallelism/world.h"
#include "tests/training/toy.h"

namespace quadrille {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Row: the epoch and number of its sample. May sleep, and may refuse.
class Numbered : public Dataset {
 public:
  explicit Numbered(std::int64_t size, double seconds_a_row = 0) : size_(size), seconds_(seconds_a_row) {}
  Fields fields() const override { return {{"number", {1}, DType::f32}, {"labels", {1}, DType::i32}}; }
  std::int64_t size() const override { return size_; }
  std::int64_t vocabulary() const override { return size_; }
  double units() const override { return 1; }
  std::string unit() const override { return "token"; }
  std::int64_t labels() const override { return size_; }
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override {
    if (seconds_ > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    ++rows;
    require(!refused.contains(index), "sample {} is bad", index);
    row.numbers("number")[0] = static_cast<float>(epoch);
    row.integers("labels")[0] = static_cast<std::int32_t>(index);
  }
  void scan() const override {}
  Json description() const override { return {}; }

  mutable std::atomic<std::int64_t> rows = 0;  // read so far
  std::set<std::int64_t> refused;

 private:
  std::int64_t size_;
  double seconds_;
};

// Batch n: the rows [n rows, ...) in order, the last one padded.
Feeder::List in_order(const Dataset& data, std::int64_t rows) {
  return [&data, rows](std::int64_t n) {
    return Feeder::Wanted{0, evaluation_samples(data.size(), n * rows, {0, rows})};
  };
}

class FeederThreads : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Some, FeederThreads, ::testing::Values(0, 1, 3));

TEST_P(FeederThreads, GiveTheBatchesOfTheirSteps) {
  const Numbered data(37);
  constexpr std::uint64_t kSeed = 5;
  const std::vector<Slice> rows = {{2, 4}, {10, 4}, {18, 4}};  // rank 1 of two, three micro-batches of 8
  TrainingFeeder feeder({kSeed, 24, 9, rows}, GetParam());
  // Also what no run does: steps left out, a step again, and steps after the last one of the run.
  for (const std::int64_t step : {0, 1, 2, 3, 7, 8, 9, 10, 3, 3, 4}) {
    feeder.begin(data, step);
    for (const Slice& own : rows) {
      const Batch& found = feeder.next();
      const Batch wanted = training_batch(data, kSeed, step, 24, own);
      EXPECT_EQ(found.first_row, own.first);
      EXPECT_EQ(found.integers("labels"), wanted.integers("labels")) << "step " << step;
      EXPECT_EQ(found.numbers("number"), wanted.numbers("number")) << "step " << step;
      for (std::size_t i = 0; i < found.samples.size(); ++i)
        EXPECT_EQ(found.samples[i].index, found.integers("labels")[i]);
    }
  }
}

TEST_P(FeederThreads, GiveTheLastRowsAndPadding) {
  const Numbered data(10);
  Feeder feeder(data, in_order(data, 4), 4, 3, GetParam(), 2);
  std::vector<std::int32_t> all;
  for (int n = 0; n < 3; ++n) {
    const Batch& batch = feeder.next();
    EXPECT_EQ(batch.padded_rows, n == 2 ? 2 : 0);
    const auto& labels = batch.integers("labels");
    all.insert(all.end(), labels.begin(), labels.end());
  }
  EXPECT_EQ(all, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -1}));
  EXPECT_EQ(data.rows, 10);
  EXPECT_THROW(feeder.next(), Error);
}

// Batches before the bad one come whole; of several bad rows the first is named, whoever was faster.
TEST_P(FeederThreads, RefuseWhereTheDataRefuse) {
  for (int again = 0; again < 20; ++again) {
    Numbered data(64);
    data.refused = {19, 22, 23, 40};
    Feeder feeder(data, in_order(data, 8), 8, 8, GetParam(), 3);
    EXPECT_EQ(feeder.next().integers("labels")[7], 7);
    EXPECT_EQ(feeder.next().integers("labels")[7], 15);
    for (int call = 0; call < 2; ++call) {
      try {
        feeder.next();
        FAIL() << "sample 19 was read";
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "sample 19 is bad");
      }
    }
    EXPECT_LE(data.rows, 40) << "read on after a refusal, beyond what had been begun";
  }
}

TEST_P(FeederThreads, RefuseAListThatThrows) {
  const Numbered data(64);
  const auto list = [&](std::int64_t n) {
    require(n < 2, "no batch {}", n);
    return in_order(data, 4)(n);
  };
  Feeder feeder(data, list, 4, 100, GetParam(), 2);
  feeder.next(), feeder.next();
  EXPECT_THROW(feeder.next(), Error);
}

TEST_P(FeederThreads, EndInTheMiddleOfABatch) {
  const Numbered data(1000, 0.02);
  const auto begin = Clock::now();
  for (int again = 0; again < 3; ++again) {
    Feeder feeder(data, in_order(data, 500), 500, 2, GetParam(), 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LT(since(begin), 2) << "waited for more than the row in hand";
}

TEST(Feeder, ReadsAheadAsFarAsTold) {
  const Numbered data(1000);
  Feeder feeder(data, in_order(data, 4), 4, 250, 2, 3);
  for (int n = 0; n < 5; ++n) {
    feeder.next();
    const std::int64_t most = 4 * (n + 1 + 3);
    const auto begin = Clock::now();
    while (data.rows < most && since(begin) < 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_EQ(data.rows, most);
  }
}

TEST(Feeder, SleepsWhileThereIsNothingToDo) {
  const Numbered data(1000);
  Feeder feeder(data, in_order(data, 4), 4, 250, 4, 3);
  feeder.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::clock_t begin = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 0.1);
}

TEST(Feeder, ReadsWhileTheRankComputes) {
  const auto seconds = [](int threads) {
    const Numbered data(1000, 0.002);
    Feeder feeder(data, in_order(data, 10), 10, 10, threads, 1);
    const auto begin = Clock::now();
    for (int n = 0; n < 10; ++n) {
      feeder.next();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // computes
    }
    return since(begin);
  };
  EXPECT_LT(seconds(1), 0.8 * seconds(0));
}

constexpr const char* kData2 = R"({"mesh": [["data", 2]], "axes": {"batch": "data"}})";
constexpr const char* kData4 = R"({"mesh": [["data", 4]], "axes": {"batch": "data"}})";
constexpr const char* kDataTensor =
    R"({"mesh": [["data", 2], ["x", 2]], "axes": {"batch": "data", "heads": "x", "mlp": "x", "vocab": "x"}})";
constexpr const char* kStages = R"({"mesh": [["pipe", 2]], "pipeline": {"schedule": "1f1b"}})";
constexpr const char* kInterleaved = R"({"mesh": [["pipe", 2]], "pipeline": {"schedule": "interleaved", "chunks": 2}})";

TEST(FedTraining, HasTheBitsOfTrainingThatReadsItself) {
  const std::pair<const char*, int> layouts[] = {
      {"{}", 1}, {kData2, 2}, {kDataTensor, 4}, {kStages, 2}, {kInterleaved, 2}};
  for (const auto& [table, ranks] : layouts) {
    auto w = toy::workload({{"layers", 4}}, {{"micro_batch", 2}});
    const toy::Outcome wanted = toy::train(w, table, ranks, 4);
    for (const int threads : {1, 2}) {
      w.data_threads = threads;
      const toy::Outcome found = toy::train(w, table, ranks, 4);
      EXPECT_EQ(found.losses, wanted.losses) << table;
      EXPECT_EQ(found.values, wanted.values) << table;
      EXPECT_EQ(found.evaluation, wanted.evaluation) << table;
      EXPECT_EQ(found.messages.size(), wanted.messages.size()) << table;
    }
  }
}

using Rows = std::map<std::int64_t, std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>>>;

// What all ranks take up: step -> row -> epoch and number. Ranks that take up the same row must agree.
Rows rows_taken(Workload w, const std::string& table, int ranks, int steps, std::int64_t samples) {
  w.strategy = parse_json(table, "strategy");
  w.data_threads = 1;
  const std::unique_ptr<Dataset> data = law_data(w, samples);
  Rows rows;
  std::mutex mutex;
  WorldOptions options;
  options.ranks = ranks;
  run_threads(options, [&](std::unique_ptr<Communicator> world) {
    const Backend& backend = backend_named("reference");
    const RankDevice device(backend, *world, {});
    Ledger ledger;
    const StrategyMesh crew(std::move(world), w.strategy, ledger);
    Trainer trainer(w, crew.mesh(), backend, device.device(), ledger);
    trainer.watch_samples([&](const SamplesTaken& taken) {
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < taken.samples.size(); ++i) {
        const std::pair mine{taken.samples[i].epoch, taken.samples[i].index};
        const auto [at, first] = rows[taken.step].emplace(taken.first_row + static_cast<std::int64_t>(i), mine);
        EXPECT_EQ(at->second, mine) << table;
      }
    });
    for (int k = 0; k < steps; ++k) trainer.step(*data, k);
    trainer.flush();
  });
  return rows;
}

TEST(SamplesTaken, AreEachSampleOnceAnEpochInEveryLayout) {
  constexpr std::int64_t kSamples = 20;  // two and a half steps: an epoch ends within one
  constexpr int kSteps = 5;              // two epochs
  const auto w = toy::workload({{"layers", 4}}, {{"micro_batch", 2}});
  const Rows serial = rows_taken(w, "{}", 1, kSteps, kSamples);
  std::map<std::pair<std::int64_t, std::int64_t>, int> times;
  ASSERT_EQ(serial.size(), kSteps);
  for (const auto& [step, rows] : serial) {
    EXPECT_EQ(rows.size(), 8U) << "step " << step;
    for (const auto& [row, sample] : rows) ++times[sample];
  }
  EXPECT_EQ(times.size(), 2U * kSamples);
  for (const auto& [sample, n] : times) EXPECT_EQ(n, 1) << "epoch " << sample.first << ", sample " << sample.second;
  const std::pair<const char*, int> layouts[] = {
      {kData2, 2}, {kData4, 4}, {kDataTensor, 4}, {kStages, 2}, {kInterleaved, 2}};
  for (const auto& [table, ranks] : layouts) EXPECT_EQ(rows_taken(w, table, ranks, kSteps, kSamples), serial) << table;
}

// law_data, slowly.
class Slow : public Dataset {
 public:
  Slow(const Dataset& data, double seconds_a_row) : data_(data), seconds_(seconds_a_row) {}
  Fields fields() const override { return data_.fields(); }
  std::int64_t size() const override { return data_.size(); }
  std::int64_t vocabulary() const override { return data_.vocabulary(); }
  double units() const override { return data_.units(); }
  std::string unit() const override { return data_.unit(); }
  std::int64_t labels() const override { return data_.labels(); }
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    data_.read(epoch, index, row);
  }
  void scan() const override {}
  Json description() const override { return {}; }

 private:
  const Dataset& data_;
  double seconds_;
};

class WaitForData : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, WaitForData, ::testing::Values(0, 1));

TEST_P(WaitForData, IsAPhaseOfItsOwn) {
  auto w = toy::workload({}, {{"micro_batch", 4}});
  w.strategy = parse_json("{}", "strategy");
  w.data_threads = GetParam();
  const std::unique_ptr<Dataset> fast = law_data(w, 24);
  const Slow data(*fast, 0.005);
  run_threads({}, [&](std::unique_ptr<Communicator> world) {
    const Backend& backend = backend_named("reference");
    const RankDevice device(backend, *world, {});
    Ledger ledger(true);
    const StrategyMesh crew(std::move(world), w.strategy, ledger);
    Trainer trainer(w, crew.mesh(), backend, device.device(), ledger);
    const auto before = ledger.phases();
    constexpr int kSteps = 5;
    double seconds = 0, named = 0, in_trace = 0;
    for (int k = 0; k < kSteps; ++k)
      if (const auto report = trainer.step(data, k)) seconds += report->seconds;
    seconds += trainer.flush()->seconds;
    for (const auto& [name, s] : ledger.phases()) named += s - (before.contains(name) ? before.at(name) : 0);
    // A step's maths takes far less than its 40 ms of reading, which two share at most.
    const double waited = ledger.phases().at("wait for data");
    EXPECT_GT(waited, kSteps * 8 * 0.005 / (GetParam() + 1) * 0.7);
    EXPECT_LT(ledger.phases().at("data"), 0.2 * waited);
    EXPECT_NEAR(named, seconds, 0.05 * seconds);
    for (const Entry& e : ledger.entries())
      if (e.kind == Entry::Kind::wait && e.name == "data") in_trace += e.end - e.begin;
    EXPECT_NEAR(in_trace, waited, 0.05 * waited);
    const double trained = ledger.phases().at("wait for data");
    trainer.evaluate(data);
    EXPECT_GT(ledger.phases().at("wait for data"), trained + 24 * 0.005 / (GetParam() + 1) * 0.7);
  });
}

}  // namespace
}  // namespace quadrille
