// SPDX-License-Identifier: Apache-2.0
// Cases of the element-wise ops and sum_rows.
#include <fmt/core.h>

#include "tests/kernels/op_cases.h"

namespace quadrille {

namespace {

constexpr double kTolerance = 1e-6;
constexpr std::int64_t kCounts[] = {1, 7, 8, 9, 31, 33, 1000};

// Steep places of gelu and silu, both zeros, both far tails, repeated to any count.
Numbers special(std::int64_t count) {
  const Numbers some{0.0, -0.0, 1e-20, -1e-20, 1, -1, -0.7517916, 5, -5, 8.3, -8.3, 30, -30};
  Numbers out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(some[static_cast<std::size_t>(i) % some.size()]);
  return out;
}

void convert(Bench& b, std::int64_t n) {
  const Tensor sum = b.normal_sum({n}), out = b.unset({n}), back = b.unset_sum({n});
  b.bill(b.ops().convert(b.stream(), out, sum));
  b.result("narrow", out, 1e-7);
  b.bill(b.ops().convert(b.stream(), back, out));
  b.result("wide again", back, 1e-7);
}

void add_conversions(std::vector<OpCase>& cases) {
  for (const std::int64_t n : {1, 17, 1000, 4099, 70'003})
    cases.push_back({"convert", fmt::format("convert {}", n), [n](Bench& b) {
                       convert(b, 0);
                       convert(b, n);
                     }});
}

void add_sums(std::vector<OpCase>& cases) {
  for (const std::int64_t n : kCounts) {
    cases.push_back({"add", fmt::format("add {}", n), [n](Bench& b) {
                       const Tensor x = b.normal({n}), y = b.normal({n}), out = b.unset({n});
                       b.bill(b.ops().add(b.stream(), out, x, y));
                       b.result("out", out, 1e-7);
                       b.bill(b.ops().add(b.stream(), x, x, y));
                       b.result("in place of the first", x, 1e-7);
                       b.bill(b.ops().add(b.stream(), y, b.normal({n}), y));
                       b.result("in place of the second", y, 1e-7);
                       const Tensor sum = b.normal_sum({n}), term = b.normal({n});
                       b.bill(b.ops().add(b.stream(), sum, sum, term));
                       b.result("to a sum", sum, 1e-7);
                     }});
    cases.push_back({"add_bias", fmt::format("add_bias 5x{}", n), [n](Bench& b) {
                       const Tensor x = b.normal({5, n}), bias = b.normal({n}), out = b.unset({5, n});
                       b.bill(b.ops().add_bias(b.stream(), out, x, bias));
                       b.result("out", out, 1e-7);
                       b.bill(b.ops().add_bias(b.stream(), x, x, bias));
                       b.result("in place", x, 1e-7);
                     }});
    for (const Write write : {Write::replace, Write::accumulate})
      cases.push_back(
          {"sum_rows",
           fmt::format("sum_rows {}x{}{}", n == 1000 ? 3 : 41, n, write == Write::accumulate ? " accumulate" : ""),
           [n, write](Bench& b) {
             const Tensor x = b.normal({n == 1000 ? 3 : 41, n}), out = b.start_sum({n}, write);
             b.bill(b.ops().sum_rows(b.stream(), out, x, write));
             b.result("out", out, 3e-6);
           }});
  }
  cases.push_back({"sum_rows", "sum_rows without rows", [](Bench& b) {
                     for (const Write write : {Write::replace, Write::accumulate}) {
                       const Tensor x = b.normal({0, 9}), out = b.start_sum({9}, write);
                       b.bill(b.ops().sum_rows(b.stream(), out, x, write));
                       b.result("out", out, kTolerance);
                     }
                   }});
  cases.push_back({"add", "add of nothing, then of large values", [](Bench& b) {
                     for (const std::int64_t n : {0, 17}) {
                       const Tensor x = b.normal({n, 3}, 1e30), y = b.normal({n, 3}, 1e30), out = b.unset({n, 3});
                       b.bill(b.ops().add(b.stream(), out, x, y));
                       b.result("out", out, 1e-7);
                     }
                   }});
  cases.push_back({"add_bias", "add_bias without rows, then of more dims", [](Bench& b) {
                     for (const std::int64_t rows : {0, 2}) {
                       const Tensor x = b.normal({rows, 3, 9}), bias = b.normal({9}), out = b.unset({rows, 3, 9});
                       b.bill(b.ops().add_bias(b.stream(), out, x, bias));
                       b.result("out", out, 1e-7);
                     }
                   }});
}

void run_gelu(Bench& b, const Numbers& x) {
  const Shape shape{static_cast<std::int64_t>(x.size())};
  const Tensor in = b.put(shape, x), out = b.unset(shape);
  b.bill(b.ops().gelu(b.stream(), out, in));
  b.result("out", out, kTolerance);
  b.bill(b.ops().gelu(b.stream(), in, in));
  b.result("in place", in, kTolerance);
}

void run_relu(Bench& b, const Numbers& numbers) {
  Numbers x = numbers;
  if (!x.empty()) x.front() = x.back() = 1.5;  // these must not be cut off
  const Shape shape{static_cast<std::int64_t>(x.size())};
  const Tensor in = b.put(shape, x), out = b.unset(shape);
  b.bill(b.ops().relu(b.stream(), out, in));
  b.result("out", out, 1e-7);
  b.bill(b.ops().relu(b.stream(), in, in));
  b.result("in place", in, 1e-7);
}

void run_gelu_backward(Bench& b, const Numbers& x) {
  const Shape shape{static_cast<std::int64_t>(x.size())};
  const Tensor in = b.put(shape, x), dy = b.normal(shape), dx = b.unset(shape);
  b.bill(b.ops().gelu_backward(b.stream(), dx, dy, in));
  b.result("dx", dx, kTolerance);
  b.bill(b.ops().gelu_backward(b.stream(), dy, dy, in));
  b.result("in place of dy", dy, kTolerance);
}

void run_tanh(Bench& b, const Numbers& x) {
  const Shape shape{static_cast<std::int64_t>(x.size())};
  const Tensor in = b.put(shape, x), out = b.unset(shape);
  b.bill(b.ops().tanh(b.stream(), out, in));
  b.result("out", out, kTolerance);
  b.bill(b.ops().tanh(b.stream(), in, in));
  b.result("in place", in, kTolerance);
}

void run_tanh_backward(Bench& b, const Numbers& y) {
  const Shape shape{static_cast<std::int64_t>(y.size())};
  const Tensor in = b.put(shape, y), dy = b.normal(shape), dx = b.unset(shape);
  b.bill(b.ops().tanh_backward(b.stream(), dx, dy, in));
  b.result("dx", dx, kTolerance);
  b.bill(b.ops().tanh_backward(b.stream(), dy, dy, in));
  b.result("in place of dy", dy, kTolerance);
}

void run_gated(Bench& b, const Numbers& gate_numbers) {
  const Shape shape{static_cast<std::int64_t>(gate_numbers.size())};
  const Tensor gate = b.put(shape, gate_numbers), up = b.normal(shape), out = b.unset(shape);
  b.bill(b.ops().gated_silu(b.stream(), out, gate, up));
  b.result("out", out, kTolerance);
  b.bill(b.ops().gated_silu(b.stream(), gate, gate, up));
  b.result("in place of gate", gate, kTolerance);
}

void run_gated_backward(Bench& b, const Numbers& gate_numbers) {
  const Shape shape{static_cast<std::int64_t>(gate_numbers.size())};
  const Tensor gate = b.put(shape, gate_numbers), up = b.normal(shape), dy = b.normal(shape);
  const Tensor dgate = b.unset(shape), dup = b.unset(shape);
  b.bill(b.ops().gated_silu_backward(b.stream(), dgate, dup, dy, gate, up));
  b.result("dgate", dgate, kTolerance);
  b.result("dup", dup, kTolerance);
  b.bill(b.ops().gated_silu_backward(b.stream(), gate, up, dy, gate, up));
  b.result("in place of gate", gate, kTolerance);
  b.result("in place of up", up, kTolerance);
}

void add_curves(std::vector<OpCase>& cases) {
  const std::pair<const char*, void (*)(Bench&, const Numbers&)> ops[] = {{"gelu", run_gelu},
                                                                          {"gelu_backward", run_gelu_backward},
                                                                          {"relu", run_relu},
                                                                          {"tanh", run_tanh},
                                                                          {"tanh_backward", run_tanh_backward},
                                                                          {"gated_silu", run_gated},
                                                                          {"gated_silu_backward", run_gated_backward}};
  for (const auto& [op, run] : ops) {
    for (const std::int64_t n : kCounts)
      cases.push_back({op, fmt::format("{} {}", op, n), [n, run = run](Bench& b) { run(b, b.normals(n, 2)); }});
    cases.push_back({op, fmt::format("{} special places", op), [run = run](Bench& b) { run(b, special(41)); }});
    cases.push_back({op, fmt::format("{} large values", op), [run = run](Bench& b) { run(b, b.normals(41, 1e4)); }});
    cases.push_back({op, fmt::format("{} of nothing, then of some", op), [run = run](Bench& b) {
                       run(b, {});
                       run(b, b.normals(5));
                     }});
  }
}

void drop(Bench& b, std::int64_t rows, const Dropout& how) {
  const Shape shape{rows, 5, 9};
  const Tensor x = b.normal(shape), out = b.unset(shape);
  b.bill(b.ops().dropout(b.stream(), out, x, how));
  b.result("out", out, kTolerance);
  b.bill(b.ops().dropout(b.stream(), x, x, how));
  b.result("in place", x, kTolerance);
}

void add_dropout(std::vector<OpCase>& cases) {
  for (const double p : {0.0, 0.1, 0.5, 0.9}) {
    const Dropout whole{.probability = p, .key = 7, .tokens = 5, .features = 9};
    cases.push_back({"dropout", fmt::format("dropout {} whole", p), [whole](Bench& b) { drop(b, 4, whole); }});
    const Dropout part{.probability = p,
                       .key = 7,
                       .first_row = 3,
                       .first_token = 5,
                       .first_feature = 18,
                       .tokens = 10,
                       .features = 30};
    cases.push_back({"dropout", fmt::format("dropout {} of a part", p), [part](Bench& b) {
                       drop(b, 0, part);
                       drop(b, 4, part);
                     }});
    Dropout jumping = part;
    jumping.jump = {2, 6}, jumping.tokens += 6;
    cases.push_back(
        {"dropout", fmt::format("dropout {} of two runs of tokens", p), [jumping](Bench& b) { drop(b, 4, jumping); }});
  }
}

}  // namespace

void add_elementwise_cases(std::vector<OpCase>& cases) {
  add_conversions(cases);
  add_sums(cases);
  add_curves(cases);
  add_dropout(cases);
}

}  // namespace quadrille
