// SPDX-License-Identifier: Apache-2.0
// How fast single ops of a back end are at the shapes of a GPT: FLOP/s of products and attention, bytes/s of all else
// beside those of a plain copy. On processors products are also shown as a share of the peak that a multiply-add loop
// reached right before and after, since rates alone move with the clock and with neighbours.
//
// One line an op, for people, or with --json one JSON object a line. Times are wall time of many calls in a row on one
// stream, ended by waiting for it; the median of five such batches. Used by scripts/gpu_check.sh and by hand.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/micro/probe.h"
#include "core/bf16.h"
#include "core/error.h"
#include "core/random.h"
#include "kernels/backend.h"

namespace quadrille {
namespace {

struct Model {
  std::string_view name;
  std::int64_t rows, tokens, heads, head, words;
  std::int64_t all_tokens() const { return rows * tokens; }
  std::int64_t width() const { return heads * head; }
};
constexpr Model kModels[] = {
    {"gpt_peer", 8, 256, 6, 64, 8192}, {"gpt2_124m", 32, 1024, 12, 64, 50304}, {"gpt2_1558m", 16, 1024, 25, 64, 50304}};

struct Options {
  Model model = kModels[0];
  std::string backend = "cpu", type = "f32", only;
  int threads = 1, device = 0;
  double seconds = 0.1;  // of each batch
  bool json = false;
};

// Device, stream and operands of one op.
class Workbench {
 public:
  Workbench(const Options& options, const Backend& backend)
      : type_(options.type == "tf32" ? DType::f32 : dtype_from(options.type)),
        tf32_(options.type == "tf32"),
        host_(make_host_device()),
        device_(backend.open_device(options.device)),
        stream_(device_->make_stream()),
        ops_(backend.ops()) {}
  Stream& stream() { return *stream_; }
  const Ops& ops() const { return ops_; }
  bool on_host() const { return device_->on_host(); }
  bool tf32() const { return tf32_; }
  DType type() const { return type_; }
  // Numbers in [-1, 1), one block of them again and again: making billions of different ones would take minutes.
  Tensor numbers(const Shape& shape) { return filled(shape, type_); }
  Tensor wide_numbers(const Shape& shape) { return filled(shape, wide(type_)); }
  Tensor sums(const Shape& shape) { return zeros(shape, DType::f64); }
  Tensor zeros(const Shape& shape, DType type) {
    const Tensor t = device_->empty(shape, type);
    stream_->zero(t);
    return t;
  }
  Tensor labels(std::int64_t count, std::int64_t words) {
    const Tensor on_host = host_->empty({count}, DType::i32);
    for (std::int64_t i = 0; i < count; ++i) on_host.as<std::int32_t>()[i] = static_cast<std::int32_t>(i * 37 % words);
    return to_device(on_host);
  }
  Tensor doubles(const std::vector<double>& values) {
    const Tensor on_host = host_->empty({static_cast<std::int64_t>(values.size())}, DType::f64);
    std::copy(values.begin(), values.end(), on_host.as<double>());
    return to_device(on_host);
  }

 private:
  Tensor to_device(const Tensor& on_host) {
    const Tensor t = device_->empty(on_host.shape(), on_host.dtype());
    stream_->copy(t, on_host);
    stream_->synchronize();  // the host's copy ends with this call
    return t;
  }
  Tensor filled(const Shape& shape, DType type) {
    const Tensor t = device_->empty(shape, type), block = block_of(type);
    for (std::int64_t i = 0; i < t.count(); i += block.count()) {
      const std::int64_t count = std::min(block.count(), t.count() - i);
      stream_->copy(t.flat().rows(i, count), block.rows(0, count));
    }
    return t;
  }
  Tensor block_of(DType type) {
    Tensor& block = blocks_[type];
    if (block) return block;
    const Tensor on_host = host_->empty({1 << 20}, type);
    for (std::int64_t i = 0; i < on_host.count(); ++i) {
      const double value = 2 * uniform_at(1, static_cast<std::uint64_t>(i)) - 1;
      if (type == DType::f64) on_host.as<double>()[i] = value;
      if (type == DType::f32) on_host.as<float>()[i] = static_cast<float>(value);
      if (type == DType::bf16) on_host.as<bf16>()[i] = bf16(static_cast<float>(value));
    }
    return block = to_device(on_host);
  }

  DType type_;
  bool tf32_;
  std::unique_ptr<Device> host_, device_;
  std::unique_ptr<Stream> stream_;
  const Ops& ops_;
  std::map<DType, Tensor> blocks_;
};

using Call = std::function<Cost()>;

// Seconds of one call, and its bill.
std::pair<double, Cost> time_of(Workbench& w, const Call& call, double batch_seconds) {
  using Clock = std::chrono::steady_clock;
  const auto batch = [&](std::int64_t calls) {
    w.stream().synchronize();
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < calls; ++i) call();
    w.stream().synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const Cost cost = call();  // warm
  std::int64_t calls = 1;
  for (double seconds = batch(1); seconds < batch_seconds; seconds = batch(calls))
    calls =
        std::max(calls + 1, std::min(calls * 10, static_cast<std::int64_t>(static_cast<double>(calls) * 1.2 *
                                                                           batch_seconds / std::max(seconds, 1e-9))));
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) times.push_back(batch(calls) / static_cast<double>(calls));
  std::nth_element(times.begin(), times.begin() + 2, times.end());
  return {times[2], cost};
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options), backend_(backend_named(options.backend)) {
    if (backend_.use_threads) backend_.use_threads(options.threads);
  }
  const Model& model() const { return options_.model; }

  // `prepare` makes the operands and returns the call.
  void measure(const std::string& name, const std::function<Call(Workbench&)>& prepare) {
    if (name != "copy" && name.find(options_.only) == std::string::npos) return;  // all are compared with a copy
    Workbench w(options_, backend_);
    const Call call = prepare(w);
    const double before = w.on_host() ? peak() : 0;
    const auto [seconds, cost] = time_of(w, call, options_.seconds);
    if (name == "copy") copy_rate_ = cost.bytes / seconds;
    print(name, seconds, cost, w.on_host() ? (before + peak()) / 2 : 0);
  }

 private:
  double peak() const { return probe_peak(options_.threads, 0).fma_flops_per_second; }
  void print(const std::string& name, double seconds, const Cost& cost, double peak) const {
    const double flops = cost.flops / seconds, bytes = cost.bytes / seconds;
    const bool product = cost.flops > 0;
    if (options_.json) {
      fmt::print(R"({{"op": "{}", "backend": "{}", "dtype": "{}", "model": "{}", "seconds": {:.6g}, )", name,
                 options_.backend, options_.type, options_.model.name, seconds);
      fmt::print(R"("flops_per_second": {:.6g}, "bytes_per_second": {:.6g})", flops, bytes);
      if (product && peak > 0) fmt::print(R"(, "of_peak": {:.4g})", flops / peak);
      if (copy_rate_ > 0) fmt::print(R"(, "of_copy": {:.4g})", bytes / copy_rate_);
      fmt::print("}}\n");
    } else {
      fmt::print("{:24}{:10.1f} us", name, seconds * 1e6);
      if (product) fmt::print("{:10.2f} TFLOP/s", flops * 1e-12);
      if (!product) fmt::print("{:10.1f} GB/s", bytes * 1e-9);
      if (product && peak > 0) fmt::print("{:7.1f} % of peak", 100 * flops / peak);
      if (!product && copy_rate_ > 0) fmt::print("{:7.1f} % of a copy", 100 * bytes / copy_rate_);
      fmt::print("\n");
    }
    std::fflush(stdout);
  }

  Options options_;
  const Backend& backend_;
  double copy_rate_ = 0;
};

void add_products(Bench& bench) {
  const Model& m = bench.model();
  struct Layer {
    const char* name;
    std::int64_t in, out;
  };
  const Layer layers[] = {{"qkv", m.width(), 3 * m.width()},
                          {"project", m.width(), m.width()},
                          {"up", m.width(), 4 * m.width()},
                          {"down", 4 * m.width(), m.width()},
                          {"head", m.width(), m.words}};
  for (const auto& [name, in, out] : layers) {
    struct Product {
      const char* name;
      std::int64_t m, n, k;
      Matmul how;
    };
    const Product all[] = {
        {"forward", m.all_tokens(), out, in, {}},
        {"input_gradient", m.all_tokens(), in, out, {.b = Transpose::yes}},
        {"weight_gradient", in, out, m.all_tokens(), {.a = Transpose::yes, .write = Write::accumulate}}};
    for (const Product& p : all)
      bench.measure(fmt::format("gemm/{}/{}", name, p.name), [&](Workbench& w) -> Call {
        Matmul how = p.how;
        how.tf32 = w.tf32();
        const Tensor a = w.numbers(how.a == Transpose::yes ? Shape{p.k, p.m} : Shape{p.m, p.k});
        const Tensor b = w.numbers(how.b == Transpose::yes ? Shape{p.n, p.k} : Shape{p.k, p.n});
        // Weight gradients are summed in f32.
        const Tensor c = how.write == Write::accumulate ? w.wide_numbers({p.m, p.n}) : w.numbers({p.m, p.n});
        return [=, &w] { return w.ops().matmul(w.stream(), c, a, b, {}, how); };
      });
  }
}

void add_attention(Bench& bench) {
  for (const bool backward : {false, true})
    bench.measure(backward ? "attention/backward" : "attention/forward", [&, backward](Workbench& w) -> Call {
      const Model& m = bench.model();
      Attention how;
      how.rows = m.rows, how.q_tokens = how.kv_tokens = m.tokens, how.groups = m.heads, how.head = m.head;
      how.q_width = how.kv_width = 3 * m.head, how.kv_offset = m.head, how.scale = 0.125;
      const Shape packed{m.rows, m.tokens, m.heads, 3 * m.head}, plain{m.rows, m.tokens, m.heads, m.head};
      const Tensor x = w.numbers(packed), dx = w.numbers(packed), out = w.numbers(plain), dout = w.numbers(plain);
      const Tensor log_sum = w.wide_numbers({m.rows, m.heads, 1, m.tokens});
      const auto forward = [=, &w] { return w.ops().attention(w.stream(), out, log_sum, x, x, {}, how); };
      if (!backward) return forward;
      forward();
      return [=, &w] { return w.ops().attention_backward(w.stream(), dx, dx, dout, out, log_sum, x, x, {}, how); };
    });
}

void add_norms(Bench& bench) {
  const std::int64_t rows = bench.model().all_tokens(), width = bench.model().width();
  bench.measure("norm/forward", [=](Workbench& w) -> Call {
    const Tensor x = w.numbers({rows, width}), out = w.numbers({rows, width}), gain = w.numbers({width}),
                 sums = w.sums({rows, 2});
    return [=, &w] {
      Cost cost = w.ops().norm_sums(w.stream(), sums, x);
      return cost += w.ops().norm(w.stream(), out, x, sums, gain, gain, {.width = width});
    };
  });
  bench.measure("norm/backward", [=](Workbench& w) -> Call {
    const Tensor x = w.numbers({rows, width}), dy = w.numbers({rows, width}), dx = w.numbers({rows, width});
    const Tensor gain = w.numbers({width}), dgain = w.wide_numbers({width}), dbias = w.wide_numbers({width});
    const Tensor sums = w.sums({rows, 2}), back = w.sums({rows, 2});
    w.ops().norm_sums(w.stream(), sums, x);
    return [=, &w] {
      const Norm how{.width = width};
      Cost cost = w.ops().norm_backward_sums(w.stream(), back, dy, x, sums, gain, how);
      cost += w.ops().norm_backward(w.stream(), dx, dy, x, sums, back, gain, how, Write::accumulate);
      return cost += w.ops().norm_backward_parameters(w.stream(), dgain, dbias, dy, x, sums, how);
    };
  });
}

void add_rest(Bench& bench) {
  const Model& m = bench.model();
  const std::int64_t rows = m.all_tokens(), wide = 4 * m.width();
  bench.measure("gelu/forward", [=](Workbench& w) -> Call {
    const Tensor x = w.numbers({rows, wide}), out = w.numbers({rows, wide});
    return [=, &w] { return w.ops().gelu(w.stream(), out, x); };
  });
  bench.measure("gelu/backward", [=](Workbench& w) -> Call {
    const Tensor x = w.numbers({rows, wide}), dy = w.numbers({rows, wide});
    return [=, &w] { return w.ops().gelu_backward(w.stream(), dy, dy, x); };
  });
  bench.measure("bias_gradient", [=](Workbench& w) -> Call {
    const Tensor x = w.numbers({rows, wide}), out = w.wide_numbers({wide});
    return [=, &w] { return w.ops().sum_rows(w.stream(), out, x, Write::accumulate); };
  });
  bench.measure("loss", [=](Workbench& w) -> Call {
    const Tensor x = w.numbers({rows, m.words}), max = w.sums({rows}), sums = w.sums({rows, 3}), loss = w.sums({2});
    const Tensor dx = w.numbers({rows, m.words}), labels = w.labels(rows, m.words);
    return [=, &w] {
      const CrossEntropy how{.words = m.words};
      Cost cost = w.ops().cross_entropy_max(w.stream(), max, x);
      cost += w.ops().cross_entropy_sums(w.stream(), sums, x, max, labels, how);
      cost += w.ops().cross_entropy_loss(w.stream(), loss, sums, max, labels, how);
      return cost += w.ops().cross_entropy_backward(w.stream(), dx, x, max, sums, labels, {}, how);
    };
  });
  bench.measure("adamw", [=](Workbench& w) -> Call {
    const std::int64_t count = m.words * m.width() + 12 * m.width() * m.width();  // the word table and one layer
    const Tensor p = w.wide_numbers({count}), g = w.wide_numbers({count}), first = w.wide_numbers({count});
    const Tensor second = w.zeros({count}, p.dtype());
    std::vector<double> scalars(kStepScalars);
    scalars[kFactor] = scalars[kFinite] = 1, scalars[kRate] = 1e-9, scalars[kStep] = 10;
    return [=, &w, step = w.doubles(scalars)] { return w.ops().adamw(w.stream(), p, g, first, second, step, {}); };
  });
}

void run(const Options& options) {
  Bench bench(options);
  // The yardstick of all that only moves numbers; as large as the largest of them.
  bench.measure("copy", [&](Workbench& w) -> Call {
    const Shape shape{options.model.all_tokens(), 4 * options.model.width()};
    const Tensor from = w.numbers(shape), to = w.numbers(shape);
    return [=, &w] {
      w.stream().copy(to, from);
      return Cost{.flops = 0, .skipped = 0, .recomputed = 0, .bytes = 2.0 * static_cast<double>(from.bytes())};
    };
  });
  add_norms(bench);
  add_rest(bench);
  add_attention(bench);
  add_products(bench);
}

template <class Number>
Number number_from(std::string_view name, std::string_view text, Number least) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size() && value >= least,
          "--{}: found \"{}\", wanted a number of at least {}", name, text, least);
  return value;
}

Options read(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const std::size_t equals = word.find('=');
    const std::string_view value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
    const std::string_view name = word.starts_with("--") ? word.substr(2, equals - 2) : word;
    if (word == "--json")
      options.json = true;
    else if (name == "backend")
      options.backend = value;
    else if (name == "dtype")
      options.type = value;
    else if (name == "only")
      options.only = value;
    else if (name == "threads")
      options.threads = number_from(name, value, 1);
    else if (name == "device")
      options.device = number_from(name, value, 0);
    else if (name == "seconds")
      options.seconds = number_from(name, value, 1e-3);
    else if (name == "model") {
      const Model* found =
          std::find_if(std::begin(kModels), std::end(kModels), [&](const Model& m) { return m.name == value; });
      require(found != std::end(kModels), "--model: found \"{}\", wanted gpt_peer, gpt2_124m or gpt2_1558m", value);
      options.model = *found;
    } else {
      fail(
          "found \"{}\"; usage: ops_bench [--backend=cpu] [--dtype=f32|tf32|bf16|f64] "
          "[--model=gpt_peer|gpt2_124m|gpt2_1558m] "
          "[--threads=1] [--device=0] [--seconds=0.1] [--only=PART_OF_A_NAME] [--json]",
          word);
    }
  }
  return options;
}

}  // namespace
}  // namespace quadrille

int main(int count, char** words) {
  try {
    quadrille::run(quadrille::read(count, words));
    return 0;
  } catch (const std::exception& error) {
    std::fputs((std::string("ops_bench: ") + error.what() + "\n").c_str(), stderr);
    return 1;
  }
}
