// SPDX-License-Identifier: Apache-2.0
// What the cores of this machine can do at best: the divisor of every utilisation. An in-register loop of multiply-adds
// and a large product through the cpu back end; the clock is measured in the same moment by a chain of dependent
// integer additions, one cycle each. A rate that the clock does not allow is refused, so that a loop which did not do
// the work it claims cannot become a peak. Used by the harness and the micro-benchmarks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace quadrille {

struct PeakProbe {
  double fma_flops_per_second = 0;   // all threads together, median of the samples
  double gemm_flops_per_second = 0;  // 0: the cpu back end is not in this build
  double clock_hertz = 0;            // mean of the threads, median of the samples
  int threads = 0;
  double spread = 0;            // of the FMA rate: (90th - 10th percentile) / median
  std::string instruction_set;  // "AVX-512", "AVX2", "SSE2"
};

// What one thread measured in one sample.
struct FmaSample {
  double flops_per_second = 0, clock_hertz = 0;
};

// How samples come about; the real one runs the loops, tests plant faults.
class PeakMeter {
 public:
  virtual ~PeakMeter() = default;
  virtual std::string_view instruction_set() const = 0;
  virtual double flops_per_cycle() const = 0;                 // of a core: no processor known does more
  virtual void fma(std::span<FmaSample> one_per_thread) = 0;  // all threads at the same time
  virtual double gemm(int threads) = 0;                       // FLOP/s, or 0
};
// cpus: thread i is bound to cpus[i]; empty: not bound. Throws Error on a processor without a loop of ours, or when a
// thread cannot be bound.
std::unique_ptr<PeakMeter> make_peak_meter(std::span<const int> cpus);

// Several short samples after a warm-up, at least three whatever the budget. Throws Error when a rate is above 1.05 x
// clock x FLOPs per cycle.
PeakProbe probe_peak(PeakMeter&, int threads, double seconds_budget);
PeakProbe probe_peak(int threads, double seconds_budget, std::span<const int> cpus = {});

}  // namespace quadrille
