// SPDX-License-Identifier: Apache-2.0
// Power: samples become energy, a counter is believed before them, what fails says so, and hosts add up.
#include "benchmarks/harness/power.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/error.h"

namespace quadrille {
namespace {

// 200 W; a counter, if any, that runs twice as fast as the clock.
class Meter : public PowerMeter {
 public:
  Meter(bool counts, std::atomic<int>& reads, int fails_at = -1)
      : counts_(counts), reads_(reads), fails_at_(fails_at) {}
  std::string source() const override { return "a meter"; }
  PowerReading read() override {
    require(reads_++ != fails_at_, "the meter broke");
    PowerReading reading{200, {}};
    if (counts_) reading.joules = 1000.0 * reads_;
    return reading;
  }

 private:
  bool counts_;
  std::atomic<int>& reads_;
  int fails_at_;
};

Power measured(bool counts, std::atomic<int>& reads, int fails_at = -1) {
  PowerSampler sampler(std::make_unique<Meter>(counts, reads, fails_at), 0.001);
  sampler.start();
  while (reads < 5) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return sampler.stop();
}

TEST(Power, IsTheSumOfSamplesWithoutACounter) {
  std::atomic<int> reads = 0;
  const Power power = measured(false, reads);
  EXPECT_EQ(power.source, "a meter; energy by the sum of samples");
  EXPECT_NEAR(power.mean_watts.value(), 200, 1e-6);
  EXPECT_EQ(power.max_watts, 200);
  EXPECT_GT(power.joules.value(), 0);
  EXPECT_EQ(power.samples, reads);
  EXPECT_GT(power.longest_seconds_between_samples.value(), 0);
}

TEST(Power, BelievesACounter) {
  std::atomic<int> reads = 0;
  const Power power = measured(true, reads);
  EXPECT_EQ(power.source, "a meter; energy by its own counter");
  EXPECT_EQ(power.joules, 1000.0 * (reads - 1));
}

TEST(Power, ClaimsNothingAfterAFault) {
  std::atomic<int> reads = 0;
  const Power power = measured(true, reads, 2);
  EXPECT_EQ(power.source, "not measured: the meter broke");
  EXPECT_FALSE(power.joules || power.mean_watts || power.max_watts);
}

TEST(Power, SaysWhichLibraryIsNotThere) {
  try {
    make_nvml_meter({}, "libno-such-thing.so.1");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "libno-such-thing.so.1 cannot be loaded");
  }
}

TEST(Power, OfHostsAddsUpOrIsNotKnown) {
  const Power one{"a meter", 100, 50, 60, 0.5, 9}, two{"a meter", 300, 150, 160, 0.7, 7},
      none{"not measured: x", {}, {}, {}, {}, 0};
  const Power all = power_of_all({one, two});
  EXPECT_EQ(all.joules, 400);
  EXPECT_EQ(all.mean_watts, 200);
  EXPECT_EQ(all.max_watts, 220);
  EXPECT_EQ(all.samples, 7);
  EXPECT_EQ(all.longest_seconds_between_samples, 0.7);
  EXPECT_EQ(power_of_all({one, none}).source, "not measured: x");
  EXPECT_FALSE(power_of_all({one, none}).joules);
  EXPECT_EQ(power_of_all({}).source, "not measured: of GPUs only");
}

}  // namespace
}  // namespace quadrille
