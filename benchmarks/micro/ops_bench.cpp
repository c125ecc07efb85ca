// SPDX-License-Identifier: Apache-2.0
// How fast single ops of the cpu back end are, at the shapes of a GPT of 6 layers x 384 (batch 8, 256 tokens,
// vocabulary 8192). Two numbers an op: the rate, and for products its share of the peak that a multiply-add loop
// reached right before and after: rates alone move with the clock and with neighbours. Google Benchmark keeps the time.
// Usage: ops_bench [--threads=N] [--benchmark_filter=...]
#include <benchmark/benchmark.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "benchmarks/micro/probe.h"
#include "core/error.h"
#include "core/random.h"
#include "kernels/backend.h"

namespace quadrille {
namespace {

constexpr std::int64_t kRows = 8, kTokens = 256, kHeads = 6, kHead = 64, kWidth = 384, kWords = 8192;
constexpr std::int64_t kAllTokens = kRows * kTokens;

// Device, stream and operands of one benchmark.
class Workbench {
 public:
  Workbench() : device_(cpu_backend().open_device(0)), stream_(device_->make_stream()) {}
  Stream& stream() { return *stream_; }
  const Ops& ops() const { return cpu_backend().ops(); }
  Tensor numbers(const Shape& shape) {
    Tensor t = device_->empty(shape, DType::f32);
    float* data = t.as<float>();
    for (std::int64_t i = 0; i < t.count(); ++i)
      data[i] = static_cast<float>(2 * uniform_at(1, static_cast<std::uint64_t>(i)) - 1);
    return t;
  }
  Tensor doubles(const Shape& shape) {
    Tensor t = device_->empty(shape, DType::f64);
    std::memset(t.data(), 0, static_cast<std::size_t>(t.bytes()));
    return t;
  }
  Tensor labels(std::int64_t count) {
    Tensor t = device_->empty({count}, DType::i32);
    for (std::int64_t i = 0; i < count; ++i) t.as<std::int32_t>()[i] = static_cast<std::int32_t>(i * 37 % kWords);
    return t;
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

double fma_rate(int threads) { return probe_peak(threads, 0).fma_flops_per_second; }

// Repeats the call and reports its bill.
void repeat(benchmark::State& state, int threads, const std::function<Cost()>& call) {
  cpu_backend().use_threads(threads);
  const double before = fma_rate(threads);
  call();  // warm
  Cost total;
  for (auto _ : state) total += call();
  const double peak = (before + fma_rate(threads)) / 2;
  using benchmark::Counter;
  state.counters["bytes/s"] = Counter(total.bytes, Counter::kIsRate, Counter::kIs1024);
  if (total.flops == 0) return;
  state.counters["FLOP/s"] = Counter(total.flops, Counter::kIsRate);
  state.counters["of_peak"] = Counter(total.flops / peak, Counter::kIsRate);
}

struct Product {
  const char* name;
  std::int64_t m, n, k;
  Matmul how;
};

void add_products(int threads) {
  for (const auto& [name, in, out] : {std::tuple{"qkv", kWidth, 3 * kWidth}, std::tuple{"project", kWidth, kWidth},
                                      std::tuple{"up", kWidth, 4 * kWidth}, std::tuple{"down", 4 * kWidth, kWidth},
                                      std::tuple{"head", kWidth, kWords}}) {
    const Product all[] = {{"forward", kAllTokens, out, in, {}},
                           {"input_gradient", kAllTokens, in, out, {.b = Transpose::yes}},
                           {"weight_gradient", in, out, kAllTokens, {.a = Transpose::yes, .write = Write::accumulate}}};
    for (const Product& p : all)
      benchmark::RegisterBenchmark(fmt::format("gemm/{}/{}", name, p.name).c_str(), [p,
                                                                                     threads](benchmark::State& state) {
        Workbench w;
        const Tensor a = w.numbers(p.how.a == Transpose::yes ? Shape{p.k, p.m} : Shape{p.m, p.k});
        const Tensor b = w.numbers(p.how.b == Transpose::yes ? Shape{p.n, p.k} : Shape{p.k, p.n});
        const Tensor out = w.numbers({p.m, p.n});
        repeat(state, threads, [&] { return w.ops().matmul(w.stream(), out, a, b, {}, p.how); });
      })->UseRealTime();
  }
}

void add_attention(int threads) {
  for (const bool backward : {false, true})
    benchmark::RegisterBenchmark(backward ? "attention/backward" : "attention/forward", [=](benchmark::State& state) {
      Workbench w;
      Attention how;
      how.rows = kRows, how.q_tokens = how.kv_tokens = kTokens, how.groups = kHeads, how.head = kHead;
      how.q_width = how.kv_width = 3 * kHead, how.kv_offset = kHead, how.scale = 0.125;
      const Shape packed{kRows, kTokens, kHeads, 3 * kHead}, plain{kRows, kTokens, kHeads, kHead};
      const Tensor x = w.numbers(packed), dx = w.numbers(packed), out = w.numbers(plain), dout = w.numbers(plain);
      const Tensor log_sum = w.numbers({kRows, kHeads, 1, kTokens});
      const auto forward = [&] { return w.ops().attention(w.stream(), out, log_sum, x, x, how); };
      forward();
      if (!backward) return repeat(state, threads, forward);
      repeat(state, threads,
             [&] { return w.ops().attention_backward(w.stream(), dx, dx, dout, out, log_sum, x, x, how); });
    })->UseRealTime();
}

void add_rest(int threads) {
  const auto add = [threads](const char* name, auto prepare) {
    benchmark::RegisterBenchmark(name, [threads, prepare](benchmark::State& state) {
      Workbench w;
      repeat(state, threads, prepare(w));
    })->UseRealTime();
  };
  add("norm/forward", [](Workbench& w) {
    const Tensor x = w.numbers({kAllTokens, kWidth}), out = w.numbers({kAllTokens, kWidth}), gain = w.numbers({kWidth}),
                 sums = w.doubles({kAllTokens, 2});
    return [=, &w] {
      Cost cost = w.ops().norm_sums(w.stream(), sums, x);
      return cost += w.ops().norm(w.stream(), out, x, sums, gain, gain, {.width = kWidth});
    };
  });
  add("norm/backward", [](Workbench& w) {
    const Tensor x = w.numbers({kAllTokens, kWidth}), dy = w.numbers({kAllTokens, kWidth}),
                 dx = w.numbers({kAllTokens, kWidth}), gain = w.numbers({kWidth});
    const Tensor dgain = w.numbers({kWidth}), dbias = w.numbers({kWidth}), sums = w.doubles({kAllTokens, 2}),
                 back = w.doubles({kAllTokens, 2});
    w.ops().norm_sums(w.stream(), sums, x);
    return [=, &w] {
      const Norm how{.width = kWidth};
      Cost cost = w.ops().norm_backward_sums(w.stream(), back, dy, x, sums, gain, how);
      cost += w.ops().norm_backward(w.stream(), dx, dy, x, sums, back, gain, how, Write::accumulate);
      return cost += w.ops().norm_backward_parameters(w.stream(), dgain, dbias, dy, x, sums, how);
    };
  });
  add("gelu/forward", [](Workbench& w) {
    const Tensor x = w.numbers({kAllTokens, 4 * kWidth}), out = w.numbers({kAllTokens, 4 * kWidth});
    return [=, &w] { return w.ops().gelu(w.stream(), out, x); };
  });
  add("gelu/backward", [](Workbench& w) {
    const Tensor x = w.numbers({kAllTokens, 4 * kWidth}), dy = w.numbers({kAllTokens, 4 * kWidth});
    return [=, &w] { return w.ops().gelu_backward(w.stream(), dy, dy, x); };
  });
  add("bias_gradient", [](Workbench& w) {
    const Tensor x = w.numbers({kAllTokens, 4 * kWidth}), out = w.numbers({4 * kWidth});
    return [=, &w] { return w.ops().sum_rows(w.stream(), out, x, Write::accumulate); };
  });
  add("loss", [](Workbench& w) {
    const Tensor x = w.numbers({kAllTokens, kWords}), dx = w.numbers({kAllTokens, kWords}),
                 max = w.doubles({kAllTokens}), sums = w.doubles({kAllTokens, 3}), loss = w.doubles({2});
    const Tensor labels = w.labels(kAllTokens);
    return [=, &w] {
      const CrossEntropy how{.words = kWords};
      Cost cost = w.ops().cross_entropy_max(w.stream(), max, x);
      cost += w.ops().cross_entropy_sums(w.stream(), sums, x, max, labels, how);
      cost += w.ops().cross_entropy_loss(w.stream(), loss, sums, max, labels, how);
      return cost += w.ops().cross_entropy_backward(w.stream(), dx, x, max, sums, labels, how);
    };
  });
  add("adamw", [](Workbench& w) {
    const std::int64_t count = 13'800'000;
    const Tensor p = w.numbers({count}), g = w.numbers({count}), m = w.numbers({count}),
                 scalars = w.doubles({kStepScalars});
    const Tensor second = w.numbers({count});
    std::memset(second.data(), 0, static_cast<std::size_t>(second.bytes()));
    scalars.as<double>()[kFactor] = 1, scalars.as<double>()[kRate] = 1e-9, scalars.as<double>()[kFinite] = 1,
    scalars.as<double>()[kStep] = 10;
    return [=, &w] { return w.ops().adamw(w.stream(), p, g, m, second, scalars, {}); };
  });
}

// Takes our own option out of the list; Google Benchmark refuses what it does not know.
int threads_from(int& count, char** arguments) {
  int threads = 1, kept = 1;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i], name = "--threads=";
    if (!argument.starts_with(name)) {
      arguments[kept++] = arguments[i];
      continue;
    }
    const std::string_view number = argument.substr(name.size());
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), threads);
    require(error == std::errc() && end == number.data() + number.size() && threads >= 1,
            "--threads: found \"{}\", wanted a number of at least 1", number);
  }
  count = kept;
  return threads;
}

}  // namespace
}  // namespace quadrille

int main(int count, char** arguments) {
  using namespace quadrille;
  try {
    const int threads = threads_from(count, arguments);
    require(cpu_backend().absent_because.empty(), "{}", cpu_backend().absent_because);
    add_products(threads);
    add_attention(threads);
    add_rest(threads);
    benchmark::Initialize(&count, arguments);
    if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 1;
    benchmark::RunSpecifiedBenchmarks();
  } catch (const std::exception& error) {
    std::fputs((std::string("ops_bench: ") + error.what() + "\n").c_str(), stderr);
    return 1;
  }
}
