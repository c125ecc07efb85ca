// SPDX-License-Identifier: Apache-2.0
// The peak probe: what it makes of samples, and that a loop which did not do its work is refused. Samples are planted;
// nothing here depends on how fast this machine is.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "benchmarks/micro/fma_loops.h"
#include "benchmarks/micro/probe.h"
#include "core/error.h"

namespace quadrille {
namespace {

// Says what it is told to; by default a machine of 3 GHz that does 32 FLOPs per cycle, of at most 64.
class PlantedMeter : public PeakMeter {
 public:
  std::string_view instruction_set() const override { return "planted"; }
  double flops_per_cycle() const override { return 64; }
  void fma(std::span<FmaSample> samples) override {
    for (FmaSample& s : samples) s = sample(calls);
    ++calls;
  }
  double gemm(int threads) override { return gemm_rate * threads; }

  std::function<FmaSample(int)> sample = [](int) { return FmaSample{96e9, 3e9}; };
  double gemm_rate = 80e9;
  int calls = 0;
};

// What a loop over lanes reports when only every sixth lane is computed: six times the true rate.
class UnusedLanes : public PeakMeter {
 public:
  explicit UnusedLanes(PeakMeter& honest) : honest_(honest) {}
  std::string_view instruction_set() const override { return honest_.instruction_set(); }
  double flops_per_cycle() const override { return honest_.flops_per_cycle(); }
  void fma(std::span<FmaSample> samples) override {
    honest_.fma(samples);
    for (FmaSample& s : samples) s.flops_per_second *= 6;
  }
  double gemm(int threads) override { return honest_.gemm(threads); }

 private:
  PeakMeter& honest_;
};

std::string refusal(PeakMeter& meter, int threads) {
  try {
    probe_peak(meter, threads, 0);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Probe, AddsThreadsAndTakesMedians) {
  PlantedMeter meter;
  const double rates[] = {1e9, 90e9, 100e9, 20e9};  // the first is the warm-up, the last a sample that was preempted
  meter.sample = [&](int call) { return FmaSample{rates[call], 3e9}; };
  const PeakProbe probe = probe_peak(meter, 2, 0);
  EXPECT_EQ(probe.fma_flops_per_second, 2 * 90e9);
  EXPECT_EQ(probe.gemm_flops_per_second, 2 * 80e9);
  EXPECT_EQ(probe.clock_hertz, 3e9);
  EXPECT_EQ(probe.threads, 2);
  EXPECT_EQ(probe.instruction_set, "planted");
  EXPECT_NEAR(probe.spread, (98e9 - 34e9) / 90e9, 1e-9);
}
TEST(Probe, RefusesLanesThatWereNotUsed) {
  PlantedMeter honest;
  EXPECT_EQ(refusal(honest, 2), "");
  UnusedLanes cheat(honest);
  const std::string message = refusal(cheat, 2);
  EXPECT_NE(message.find("multiply-add loop"), std::string::npos) << message;
  EXPECT_NE(message.find("was not done"), std::string::npos) << message;
}
TEST(Probe, RefusesFromFivePercentOn) {
  PlantedMeter meter;
  meter.sample = [](int) { return FmaSample{1.04 * 192e9, 3e9}; };
  EXPECT_EQ(refusal(meter, 1), "");
  meter.sample = [](int) { return FmaSample{1.06 * 192e9, 3e9}; };
  EXPECT_NE(refusal(meter, 1), "");
}
TEST(Probe, ComparesWithTheClockOfTheSameMoment) {
  PlantedMeter meter;  // a clock that jumps: the medians alone, 200e9 of 64 x 3.5e9, would look innocent
  const FmaSample samples[] = {{}, {150e9, 2e9}, {200e9, 4e9}, {250e9, 3.5e9}};
  meter.sample = [&](int call) { return samples[call]; };
  EXPECT_NE(refusal(meter, 1), "");
}
TEST(Probe, RefusesAnImpossibleProduct) {
  PlantedMeter meter;
  meter.gemm_rate = 210e9;
  EXPECT_NE(refusal(meter, 1).find("matrix product"), std::string::npos);
}
TEST(Probe, RefusesNoThreads) {
  PlantedMeter meter;
  EXPECT_NE(refusal(meter, 0).find("at least 1"), std::string::npos);
}
TEST(Probe, LoopChecksItsOwnArithmetic) {
  EXPECT_TRUE(best_fma_loop().run(1000));
  EXPECT_FALSE(best_fma_loop().run(3));  // not yet at rest: the values do come from the rounds
}
TEST(Probe, MeasuresThisMachine) {
  const PeakProbe probe = probe_peak(2, 0.01);
  EXPECT_GT(probe.fma_flops_per_second, 0);
  EXPECT_GT(probe.clock_hertz, 0);
  EXPECT_EQ(probe.threads, 2);
}
TEST(Probe, RefusesAnUnknownCpu) {
  const int cpus[] = {1 << 20};
  EXPECT_THROW(probe_peak(1, 0.01, cpus), Error);
}

}  // namespace
}  // namespace quadrille
