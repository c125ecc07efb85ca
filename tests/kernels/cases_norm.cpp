// SPDX-License-Identifier: Apache-2.0
// Cases of the norms: whole rows, and the middle part of rows whose sums come from all parts.
#include <fmt/core.h>

#include "tests/kernels/op_cases.h"

namespace quadrille {

namespace {

constexpr double kTolerance = 1e-5;

// A part [first, first + columns) of rows of how.width features.
struct Part {
  std::int64_t rows = 0, columns = 0, first = 0;
  Norm how;
  double mean = 0;
};

// Everything that the later halves read, made by the reference from the whole rows.
struct Given {
  Numbers x, gain, dy, sums, backward_sums;
};

Numbers part_of(const Numbers& whole, const Part& p) {
  Numbers out;
  for (std::int64_t i = 0; i < p.rows; ++i)
    for (std::int64_t j = 0; j < p.columns; ++j)
      out.push_back(whole[static_cast<std::size_t>(i * p.how.width + p.first + j)]);
  return out;
}

Given given(Bench& b, const Part& p) {
  const std::int64_t width = p.how.width;
  const Numbers x = b.normals(p.rows * width, 1, p.mean), dy = b.normals(p.rows * width),
                gain = b.normals(width, 0.5, 1);
  ReferenceBench r;
  const Tensor rx = r->put({p.rows, width}, x), rdy = r->put({p.rows, width}, dy), rgain = r->put({width}, gain);
  const Tensor sums = r->unset({p.rows, 2}), backward_sums = r->unset({p.rows, 2});
  r->ops().norm_sums(r->stream(), sums, rx);
  r->ops().norm_backward_sums(r->stream(), backward_sums, rdy, rx, sums, rgain, p.how);
  return {part_of(x, p), Numbers(gain.begin() + p.first, gain.begin() + p.first + p.columns), part_of(dy, p),
          r->read(sums), r->read(backward_sums)};
}

void run_norm_sums(Bench& b, const Part& p) {
  const Tensor x = b.normal({p.rows, p.columns}, 1, p.mean), sums = b.unset({p.rows, 2}, DType::f64);
  b.bill(b.ops().norm_sums(b.stream(), sums, x));
  b.result_by_column("sums", sums, 1e-7);  // sums are in double whatever the type of x
}

void run_norm(Bench& b, const Part& p) {
  const Given g = given(b, p);
  const Tensor x = b.put({p.rows, p.columns}, g.x), sums = b.put_wide({p.rows, 2}, g.sums),
               gain = b.put({p.columns}, g.gain);
  const Tensor out = b.unset({p.rows, p.columns}),
               bias = p.how.kind == NormKind::layer ? b.normal({p.columns}) : Tensor();
  b.bill(b.ops().norm(b.stream(), out, x, sums, gain, bias, p.how));
  b.result("out", out, kTolerance);
  if (!bias) return;
  const Tensor without = b.unset({p.rows, p.columns});
  b.bill(b.ops().norm(b.stream(), without, x, sums, gain, {}, p.how));
  b.result("without bias", without, kTolerance);
}

void run_norm_backward_sums(Bench& b, const Part& p) {
  const Given g = given(b, p);
  const Tensor x = b.put({p.rows, p.columns}, g.x), dy = b.put({p.rows, p.columns}, g.dy),
               gain = b.put({p.columns}, g.gain);
  const Tensor forward = b.put_wide({p.rows, 2}, g.sums), sums = b.unset({p.rows, 2}, DType::f64);
  b.bill(b.ops().norm_backward_sums(b.stream(), sums, dy, x, forward, gain, p.how));
  b.result_by_column("sums", sums, kTolerance);
}

void run_norm_backward(Bench& b, const Part& p) {
  const Given g = given(b, p);
  const Tensor x = b.put({p.rows, p.columns}, g.x), dy = b.put({p.rows, p.columns}, g.dy),
               gain = b.put({p.columns}, g.gain);
  const Tensor forward = b.put_wide({p.rows, 2}, g.sums), backward = b.put_wide({p.rows, 2}, g.backward_sums);
  for (const Write write : {Write::replace, Write::accumulate}) {
    const Tensor dx = b.start({p.rows, p.columns}, write);
    b.bill(b.ops().norm_backward(b.stream(), dx, dy, x, forward, backward, gain, p.how, write));
    b.result(write == Write::replace ? "dx" : "dx, added", dx, kTolerance);
  }
}

void run_norm_backward_parameters(Bench& b, const Part& p) {
  const Given g = given(b, p);
  const Tensor x = b.put({p.rows, p.columns}, g.x), dy = b.put({p.rows, p.columns}, g.dy),
               forward = b.put_wide({p.rows, 2}, g.sums);
  const Tensor dgain = b.normal_sum({p.columns}), dbias = b.normal_sum({p.columns});
  b.bill(b.ops().norm_backward_parameters(b.stream(), dgain, dbias, dy, x, forward, p.how));
  b.bill(b.ops().norm_backward_parameters(b.stream(), dgain, {}, dy, x, forward, p.how));
  b.bill(b.ops().norm_backward_parameters(b.stream(), {}, dbias, dy, x, forward, p.how));
  b.result("dgain", dgain, kTolerance);  // added twice each
  b.result("dbias", dbias, kTolerance);
}

}  // namespace

void add_norm_cases(std::vector<OpCase>& cases) {
  const std::pair<const char*, void (*)(Bench&, const Part&)> ops[] = {
      {"norm_sums", run_norm_sums},
      {"norm", run_norm},
      {"norm_backward_sums", run_norm_backward_sums},
      {"norm_backward", run_norm_backward},
      {"norm_backward_parameters", run_norm_backward_parameters}};
  for (const auto& [op, run] : ops)
    for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
      const char* kind_name = kind == NormKind::layer ? "layer" : "rms";
      const auto add = [&, op = op, run = run](const std::string& what, const Part& p) {
        cases.push_back({op, fmt::format("{} {} {}", op, kind_name, what), [run, p](Bench& b) { run(b, p); }});
      };
      for (const auto& [rows, columns] :
           {std::pair<std::int64_t, std::int64_t>{1, 2}, {5, 7}, {33, 64}, {3, 100}, {65, 9}})
        add(fmt::format("{}x{}", rows, columns), {rows, columns, 0, {kind, 1e-5, columns}});
      add("part of a row", {6, 33, 20, {kind, 1e-6, 90}});
      add("large mean", {4, 48, 0, {kind, 1e-5, 48}, 100});
      cases.push_back({op, fmt::format("{} {} without rows, then with", op, kind_name), [run = run, kind](Bench& b) {
                         for (const std::int64_t rows : {0, 2}) run(b, {rows, 16, 0, {kind, 1e-5, 16}});
                       }});
    }
}

}  // namespace quadrille
