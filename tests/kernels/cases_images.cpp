// SPDX-License-Identifier: Apache-2.0
// Cases of the ops of images: convolutions, batch norm, pooling.
#include <fmt/core.h>

#include "tests/kernels/op_cases.h"

namespace quadrille {

namespace {

constexpr double kTolerance = 1e-5;

struct Window {
  const char* what;
  std::int64_t rows, height, width, in, out;
  Conv how;
  std::int64_t out_height() const { return (height + how.pad_top + how.pad_bottom - how.kernel_h) / how.stride + 1; }
  std::int64_t out_width() const { return (width + how.pad_left + how.pad_right - how.kernel_w) / how.stride + 1; }
  Shape x() const { return {rows, height, width, in}; }
  Shape y() const { return {rows, out_height(), out_width(), out}; }
  Shape w() const { return {how.kernel_h, how.kernel_w, in, out}; }
};

const std::vector<Window>& windows() {
  static const std::vector<Window> all = {
      {"1x1", 2, 3, 5, 7, 4, {}},
      {"1x1 stride 2", 3, 5, 6, 3, 5, {1, 1, 2, 0, 0, 0, 0}},
      {"3x3", 2, 6, 5, 3, 4, {3, 3, 1, 1, 1, 1, 1}},
      {"3x3 stride 2", 2, 7, 8, 4, 3, {3, 3, 2, 1, 1, 1, 1}},
      {"3x3 of 17 channels", 3, 9, 9, 17, 19, {3, 3, 1, 1, 1, 1, 1}},
      {"7x7 stride 2", 1, 15, 14, 3, 8, {7, 7, 2, 3, 3, 3, 3}},
      {"3x3 of a part above", 2, 5, 4, 3, 6, {3, 3, 2, 1, 0, 1, 1}},
      {"3x3 of a part below", 2, 4, 4, 5, 3, {3, 3, 1, 0, 1, 1, 1}},
      {"1x3 with other pads on each side", 2, 3, 6, 4, 2, {1, 3, 1, 0, 0, 2, 1}},
      {"a window as large as the image", 2, 3, 3, 2, 3, {3, 3, 1, 0, 0, 0, 0}},
  };
  return all;
}

void run_conv(Bench& b, const Window& c) {
  const Tensor x = b.normal(c.x()), w = b.normal(c.w()), out = b.unset(c.y());
  b.bill(b.ops().conv(b.stream(), out, x, w, c.how));
  b.result("out", out, kTolerance);
}

void run_conv_backward_input(Bench& b, const Window& c) {
  const Tensor dy = b.normal(c.y()), w = b.normal(c.w());
  for (const Write write : {Write::replace, Write::accumulate}) {
    const Tensor dx = b.start(c.x(), write);
    b.bill(b.ops().conv_backward_input(b.stream(), dx, dy, w, c.how, write));
    b.result(write == Write::replace ? "dx" : "dx, added", dx, kTolerance);
  }
}

void run_conv_backward_weight(Bench& b, const Window& c) {
  const Tensor dy = b.normal(c.y()), x = b.normal(c.x());
  for (const Write write : {Write::replace, Write::accumulate}) {
    const Tensor dw = b.start_sum(c.w(), write);
    b.bill(b.ops().conv_backward_weight(b.stream(), dw, dy, x, c.how, write));
    b.result(write == Write::replace ? "dw" : "dw, added", dw, kTolerance);
  }
}

void run_max_pool(Bench& b, Window c) {
  c.out = c.in;
  const Tensor x = b.normal(c.x()), out = b.unset(c.y());
  b.bill(b.ops().max_pool(b.stream(), out, x, c.how));
  b.result("out", out, 1e-7);
}

void run_max_pool_backward(Bench& b, Window c) {
  c.out = c.in;
  Numbers seen = b.normals(c.x().count());
  for (double& v : seen) v = v > 0.7 ? 1 : v;  // many that are largest
  const Tensor x = b.put(c.x(), seen), dy = b.normal(c.y()), dx = b.unset(c.x());
  b.bill(b.ops().max_pool_backward(b.stream(), dx, dy, x, c.how));
  b.result("dx", dx, 1e-6);
}

// Rows of a rank in `groups` equal runs, whose statistics include `others` rows of other ranks.
struct Channels {
  const char* what;
  std::int64_t groups, rows, channels, others;
  BatchNorm how;
  std::int64_t all() const { return groups * rows; }
};

const std::vector<Channels>& channels() {
  static const std::vector<Channels> all = {
      {"9x4", 1, 9, 4, 0, {1e-5, false}},           {"50x17 relu", 1, 50, 17, 0, {1e-3, true}},
      {"700x33 relu", 1, 700, 33, 0, {1e-5, true}}, {"3 groups of 20x8", 3, 20, 8, 0, {1e-2, true}},
      {"30x16 of 75", 1, 30, 16, 45, {1e-5, true}}, {"2 groups of 12x5 of 20", 2, 12, 5, 8, {1e-2, false}},
  };
  return all;
}

struct Given {
  Numbers x, dy, out, sums, backward_sums;
};

// What later halves read, made by the reference from the rows of all ranks.
Given given(Bench& b, const Channels& c) {
  Given g{b.normals(c.all() * c.channels, 2, 0.5), b.normals(c.all() * c.channels), {}, {}, {}};
  const Numbers x = b.normals(c.groups * c.others * c.channels, 2, 0.5),
                dy = b.normals(c.groups * c.others * c.channels), gain = b.normals(c.channels, 0.5, 1),
                bias = b.normals(c.channels);
  ReferenceBench r;
  const auto both = [&](const Numbers& mine, const Numbers& others) {  // group by group
    Numbers all;
    const auto own = static_cast<std::ptrdiff_t>(c.rows * c.channels),
               other = static_cast<std::ptrdiff_t>(c.others * c.channels);
    for (std::ptrdiff_t k = 0; k < c.groups; ++k) {
      all.insert(all.end(), mine.begin() + k * own, mine.begin() + (k + 1) * own);
      all.insert(all.end(), others.begin() + k * other, others.begin() + (k + 1) * other);
    }
    return all;
  };
  const Shape shape{c.groups * (c.rows + c.others), c.channels};
  const Tensor rx = r->put(shape, both(g.x, x)), rdy = r->put(shape, both(g.dy, dy)), out = r->unset(shape),
               sums = r->unset({c.groups, c.channels, 3}, DType::f64),
               backward = r->unset({c.groups, c.channels, 2}, DType::f64);
  r->ops().channel_sums(r->stream(), sums, rx);
  r->ops().batch_norm(r->stream(), out, rx, sums, r->put({c.channels}, gain), r->put({c.channels}, bias), c.how);
  r->ops().batch_norm_backward_sums(r->stream(), backward, rdy, rx, out, sums, c.how);
  g.sums = r->read(sums), g.backward_sums = r->read(backward);
  const Numbers made = r->read(out);
  for (std::int64_t k = 0; k < c.groups; ++k)
    for (std::int64_t i = 0; i < c.rows * c.channels; ++i)
      g.out.push_back(made[static_cast<std::size_t>(k * (c.rows + c.others) * c.channels + i)]);
  return g;
}

void run_channel_sums(Bench& b, const Channels& c) {
  const Tensor x = b.normal({c.all(), c.channels}, 1, 0.5), sums = b.unset({c.groups, c.channels, 3}, DType::f64);
  b.bill(b.ops().channel_sums(b.stream(), sums, x));
  b.result_by_column("sums", sums.reshaped({c.groups * c.channels, 3}), 1e-7);
}

void run_batch_norm(Bench& b, const Channels& c) {
  const Given g = given(b, c);
  const Shape shape{c.all(), c.channels};
  const Tensor x = b.put(shape, g.x), sums = b.put_wide({c.groups, c.channels, 3}, g.sums),
               gain = b.normal({c.channels}, 0.5, 1), bias = b.normal({c.channels}), out = b.unset(shape);
  b.bill(b.ops().batch_norm(b.stream(), out, x, sums, gain, bias, c.how));
  b.result("out", out, kTolerance);
}

void run_batch_norm_backward_sums(Bench& b, const Channels& c) {
  const Given g = given(b, c);
  const Shape shape{c.all(), c.channels};
  const Tensor x = b.put(shape, g.x), dy = b.put(shape, g.dy), out = b.put(shape, g.out),
               forward = b.put_wide({c.groups, c.channels, 3}, g.sums),
               sums = b.unset({c.groups, c.channels, 2}, DType::f64);
  b.bill(b.ops().batch_norm_backward_sums(b.stream(), sums, dy, x, c.how.relu ? out : Tensor(), forward, c.how));
  b.result_by_column("sums", sums.reshaped({c.groups * c.channels, 2}), kTolerance);
}

void run_batch_norm_backward(Bench& b, const Channels& c) {
  const Given g = given(b, c);
  const Shape shape{c.all(), c.channels};
  const Tensor x = b.put(shape, g.x), dy = b.put(shape, g.dy), out = c.how.relu ? b.put(shape, g.out) : Tensor(),
               forward = b.put_wide({c.groups, c.channels, 3}, g.sums),
               backward = b.put_wide({c.groups, c.channels, 2}, g.backward_sums), gain = b.normal({c.channels}, 0.5, 1);
  for (const Write write : {Write::replace, Write::accumulate}) {
    const Tensor dx = b.start(shape, write);
    b.bill(b.ops().batch_norm_backward(b.stream(), dx, dy, x, out, forward, backward, gain, c.how, write));
    b.result(write == Write::replace ? "dx" : "dx, added", dx, kTolerance);
  }
  b.bill(b.ops().batch_norm_backward(b.stream(), dy, dy, x, out, forward, backward, gain, c.how, Write::replace));
  b.result("in place of dy", dy, kTolerance);
}

void run_batch_norm_backward_parameters(Bench& b, const Channels& c) {
  const Tensor sums = b.put_wide({c.groups, c.channels, 2}, b.normals(c.groups * c.channels * 2));
  const Tensor dgain = b.normal_sum({c.channels}), dbias = b.normal_sum({c.channels});
  b.bill(b.ops().batch_norm_backward_parameters(b.stream(), dgain, dbias, sums));
  b.bill(b.ops().batch_norm_backward_parameters(b.stream(), dgain, {}, sums));
  b.bill(b.ops().batch_norm_backward_parameters(b.stream(), {}, dbias, sums));
  b.result("dgain", dgain, kTolerance);  // added twice each
  b.result("dbias", dbias, kTolerance);
}

void run_update_averages(Bench& b, const Channels& c) {
  const Given g = given(b, c);
  const Tensor averages = b.put_wide({c.channels, 3}, b.normals(c.channels * 3, 0.1, 1)),
               sums = b.put_wide({c.groups, c.channels, 3}, g.sums);
  b.bill(b.ops().update_averages(b.stream(), averages, sums, 0.75));
  b.result("averages", averages, 1e-7);
}

void run_sums_of_averages(Bench& b, const Channels& c) {
  const Tensor averages = b.put_wide({c.channels, 3}, b.normals(c.channels * 3, 0.2, 2)),
               sums = b.unset({c.channels, 3}, DType::f64);
  b.bill(b.ops().sums_of_averages(b.stream(), sums, averages));
  b.result("sums", sums, 1e-7);
}

void add_relus(std::vector<OpCase>& cases) {
  for (const std::int64_t n : {1, 7, 8, 33, 1000}) {
    cases.push_back({"add_relu", fmt::format("add_relu {}", n), [n](Bench& b) {
                       Numbers first = b.normals(n);
                       first[0] = 1.5;  // a single one must not be cut off
                       const Tensor x = b.put({n}, first), y = b.normal({n}, 0.2), out = b.unset({n});
                       b.bill(b.ops().add_relu(b.stream(), out, x, y));
                       b.result("out", out, 1e-7);
                       b.bill(b.ops().add_relu(b.stream(), x, x, y));
                       b.result("in place of the first", x, 1e-7);
                       b.bill(b.ops().add_relu(b.stream(), y, out, y));
                       b.result("in place of the second", y, 1e-7, 2);
                     }});
    cases.push_back({"relu_backward", fmt::format("relu_backward {}", n), [n](Bench& b) {
                       Numbers made = b.normals(n);
                       for (double& v : made) v = v < 0 ? 0 : v;
                       made[0] = 0.5;
                       const Tensor out = b.put({n}, made), dy = b.normal({n}), dx = b.unset({n});
                       b.bill(b.ops().relu_backward(b.stream(), dx, dy, out));
                       b.result("dx", dx, 1e-7);
                       b.bill(b.ops().relu_backward(b.stream(), dy, dy, out));
                       b.result("in place", dy, 1e-7);
                     }});
  }
}

void add_sums_of_pixels(std::vector<OpCase>& cases) {
  for (const auto& [rows, height, channels] :
       {std::tuple{1, 1, 1}, std::tuple{2, 3, 5}, std::tuple{3, 7, 16}, std::tuple{2, 4, 67}, std::tuple{65, 2, 8}}) {
    const Shape image{rows, height, height + 1, channels}, sums{rows, channels};
    const double scale = 1.0 / (height * (height + 1.0));
    cases.push_back({"sum_pixels", "sum_pixels " + image.text(), [=](Bench& b) {
                       const Tensor x = b.normal(image, 1, 0.5), out = b.unset(sums);
                       b.bill(b.ops().sum_pixels(b.stream(), out, x, scale));
                       b.result("out", out, 1e-6);
                     }});
    cases.push_back({"spread_pixels", "spread_pixels " + image.text(), [=](Bench& b) {
                       const Tensor dy = b.normal(sums), dx = b.unset(image);
                       b.bill(b.ops().spread_pixels(b.stream(), dx, dy, scale));
                       b.result("dx", dx, 1e-6);
                     }});
  }
}

template <class Case>
void add_all(std::vector<OpCase>& cases, const std::vector<Case>& of,
             std::initializer_list<std::pair<const char*, void (*)(Bench&, const Case&)>> ops) {
  for (const auto& [op, run] : ops)
    for (const Case& c : of)
      cases.push_back({op, fmt::format("{} {}", op, c.what), [run = run, c](Bench& b) { run(b, c); }});
}

}  // namespace

void add_image_cases(std::vector<OpCase>& all) {
  std::vector<OpCase> cases;
  add_all<Window>(cases, windows(),
                  {{"conv", run_conv},
                   {"conv_backward_input", run_conv_backward_input},
                   {"conv_backward_weight", run_conv_backward_weight},
                   {"max_pool", [](Bench& b, const Window& c) { run_max_pool(b, c); }},
                   {"max_pool_backward", [](Bench& b, const Window& c) { run_max_pool_backward(b, c); }}});
  add_all<Channels>(cases, channels(),
                    {{"channel_sums", run_channel_sums},
                     {"batch_norm", run_batch_norm},
                     {"batch_norm_backward_sums", run_batch_norm_backward_sums},
                     {"batch_norm_backward", run_batch_norm_backward},
                     {"batch_norm_backward_parameters", run_batch_norm_backward_parameters},
                     {"update_averages", run_update_averages},
                     {"sums_of_averages", run_sums_of_averages}});
  add_relus(cases);
  add_sums_of_pixels(cases);
  for (OpCase& c : cases) {
    c.images = c.op != "relu_backward";  // of which other models know too
    all.push_back(std::move(c));
  }
}

}  // namespace quadrille
