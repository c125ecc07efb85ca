// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/micro/probe.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "benchmarks/micro/fma_loops.h"
#include "core/error.h"
#include "kernels/backend.h"

namespace quadrille {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}
double median(const std::vector<double>& values) { return quantile(values, 0.5); }

void bind_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  require(cpu >= 0 && cpu < CPU_SETSIZE, "peak probe: CPU {} does not exist", cpu);
  CPU_SET(cpu, &set);
  const int error = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  require(error == 0, "peak probe: a thread cannot be bound to CPU {}: {}", cpu, std::strerror(error));
}

// Cycles per second: a chain of additions, each of which waits for the one before.
double measure_clock() {
  constexpr std::int64_t kRounds = 25'000;  // 0.1 ms at 4 GHz
  const auto begin = Clock::now();
  run_dependent_additions(kRounds);
  return static_cast<double>(kRounds) * kCyclesPerAdditionRound / seconds_since(begin);
}

// The clock before and after the loop, so that a change of speed shows in both.
FmaSample measure_fma(const FmaLoop& loop) {
  constexpr std::int64_t kRounds = 200'000;  // 0.3 to 0.7 ms
  const double before = measure_clock();
  const auto begin = Clock::now();
  const bool right = loop.run(kRounds);
  const double seconds = seconds_since(begin);
  const double after = measure_clock();
  require(right, "peak probe: the {} loop computed a wrong number", loop.instruction_set);
  return {static_cast<double>(kRounds) * loop.flops_per_round / seconds, (before + after) / 2};
}

// One large product, big enough to hide its start and small enough for the last cache.
double measure_gemm(const Backend& backend, int threads) {
  constexpr std::int64_t kExtent = 1152;
  backend.use_threads(threads);
  const std::unique_ptr<Device> device = backend.open_device(0);
  const std::unique_ptr<Stream> stream = device->make_stream();
  const Tensor a = device->empty({kExtent, kExtent}, DType::f32), b = device->empty({kExtent, kExtent}, DType::f32);
  const Tensor out = device->empty({kExtent, kExtent}, DType::f32);
  for (const Tensor& t : {a, b}) std::fill_n(t.as<float>(), t.count(), 0.5f);
  std::vector<double> rates;
  for (int i = 0; i < 6; ++i) {
    const auto begin = Clock::now();
    const Cost cost = backend.ops().matmul(*stream, out, a, b, {}, {});
    rates.push_back(cost.flops / seconds_since(begin));
  }
  require(out.as<float>()[kExtent * kExtent - 1] == 0.25f * kExtent,
          "peak probe: the cpu back end computed a wrong product");
  return median({rates.begin() + 1, rates.end()});
}

class RealMeter : public PeakMeter {
 public:
  explicit RealMeter(std::span<const int> cpus) : loop_(best_fma_loop()), cpus_(cpus.begin(), cpus.end()) {}
  std::string_view instruction_set() const override { return loop_.instruction_set; }
  double flops_per_cycle() const override { return loop_.flops_per_cycle; }
  void fma(std::span<FmaSample> samples) override {
    const std::size_t count = samples.size();
    require(cpus_.empty() || cpus_.size() == count, "peak probe: {} CPUs named for {} threads", cpus_.size(), count);
    std::vector<std::exception_ptr> errors(count);
    std::barrier start(static_cast<std::ptrdiff_t>(count));
    on_threads(count, [&](std::size_t i) {
      try {
        if (!cpus_.empty()) bind_to(cpus_[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
      start.arrive_and_wait();
      try {
        measure_clock();  // warm: the thread has just been born
        samples[i] = measure_fma(loop_);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
  }
  // In a thread of its own: the number of OpenMP threads is a property of the calling thread.
  double gemm(int threads) override {
    const Backend& backend = cpu_backend();
    if (!backend.absent_because.empty()) return 0;
    double rate = 0;
    std::exception_ptr error;
    on_threads(1, [&](std::size_t) {
      try {
        rate = measure_gemm(backend, threads);
      } catch (...) {
        error = std::current_exception();
      }
    });
    if (error) std::rethrow_exception(error);
    return rate;
  }

 private:
  template <class Work>
  static void on_threads(std::size_t count, Work&& work) {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
  }

  const FmaLoop& loop_;
  std::vector<int> cpus_;
};

void refuse_the_impossible(std::string_view what, double found, double allowed) {
  require(found <= 1.05 * allowed,
          "peak probe: {} ran at {:.3g} FLOP/s, but the clock measured in the same moment allows {:.3g}: some of the "
          "work was not "
          "done or the clock was disturbed; repeat on a quiet machine, and if it stays, please report it",
          what, found, allowed);
}

}  // namespace

std::unique_ptr<PeakMeter> make_peak_meter(std::span<const int> cpus) { return std::make_unique<RealMeter>(cpus); }

PeakProbe probe_peak(PeakMeter& meter, int threads, double seconds_budget) {
  require(threads >= 1, "peak probe: found {} threads, wanted at least 1", threads);
  constexpr std::size_t kFewest = 3, kMost = 200;
  const auto begin = Clock::now();
  std::vector<FmaSample> samples(static_cast<std::size_t>(threads));
  std::vector<double> rates, clocks, shares;  // share: of what the clock allows, sample by sample
  meter.fma(samples);                         // warm-up
  while (rates.size() < kFewest || (rates.size() < kMost && seconds_since(begin) < seconds_budget * 0.7)) {
    meter.fma(samples);
    double rate = 0, clock = 0;
    for (const FmaSample& s : samples) rate += s.flops_per_second, clock += s.clock_hertz;
    rates.push_back(rate);
    clocks.push_back(clock / threads);
    shares.push_back(rate / (clock * meter.flops_per_cycle()));
  }
  PeakProbe probe;
  probe.fma_flops_per_second = median(rates);
  probe.clock_hertz = median(clocks);
  probe.threads = threads;
  probe.spread = (quantile(rates, 0.9) - quantile(rates, 0.1)) / probe.fma_flops_per_second;
  probe.instruction_set = meter.instruction_set();
  const double allowed = probe.clock_hertz * threads * meter.flops_per_cycle();
  refuse_the_impossible("the multiply-add loop", std::max(probe.fma_flops_per_second, median(shares) * allowed),
                        allowed);
  probe.gemm_flops_per_second = meter.gemm(threads);
  refuse_the_impossible("the matrix product", probe.gemm_flops_per_second, allowed);
  return probe;
}

PeakProbe probe_peak(int threads, double seconds_budget, std::span<const int> cpus) {
  const std::unique_ptr<PeakMeter> meter = make_peak_meter(cpus);
  return probe_peak(*meter, threads, seconds_budget);
}

}  // namespace quadrille
