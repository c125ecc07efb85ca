// SPDX-License-Identifier: Apache-2.0
// Cases of matmul and move_block.
#include <fmt/core.h>

#include "tests/kernels/op_cases.h"

namespace quadrille {

namespace {

constexpr double kTolerance = 3e-6;  // sums of up to 130 products in f32

struct Product {
  std::int64_t m, n, k;
  Matmul how;
  bool bias;
  double deviation = 1;
};

void multiply(Bench& b, const Product& p, const std::string& name) {
  const Tensor a = b.normal(p.how.a == Transpose::yes ? Shape{p.k, p.m} : Shape{p.m, p.k}, p.deviation);
  const Tensor c = b.normal(p.how.b == Transpose::yes ? Shape{p.n, p.k} : Shape{p.k, p.n}, p.deviation);
  const Tensor bias = p.bias ? b.normal({p.n}) : Tensor();
  // Products of a transposed operand are weight gradients, kept as sums.
  const bool gradient = p.how.a == Transpose::yes;
  const Tensor out = gradient ? b.start_sum({p.m, p.n}, p.how.write) : b.start({p.m, p.n}, p.how.write);
  b.bill(b.ops().matmul(b.stream(), out, a, c, bias, p.how));
  b.result(name, out, kTolerance);
}

void add_matmul(std::vector<OpCase>& cases) {
  using enum Transpose;
  const std::int64_t extents[][3] = {{1, 1, 1}, {3, 5, 7}, {33, 17, 65}, {64, 64, 64}, {1, 100, 9}, {129, 2, 130}};
  for (const auto& [m, n, k] : extents)
    for (const Transpose ta : {no, yes})
      for (const Transpose tb : {no, yes})
        for (const Write write : {Write::replace, Write::accumulate})
          for (const bool bias : {false, true}) {
            const Product p{m, n, k, {ta, tb, write}, bias};
            cases.push_back(
                {"matmul",
                 fmt::format("matmul {}x{}x{} {}{}{}{}", m, n, k, ta == yes ? "t" : "n", tb == yes ? "t" : "n",
                             write == Write::accumulate ? " accumulate" : "", bias ? " bias" : ""),
                 [p](Bench& b) { multiply(b, p, "out"); }});
          }
  cases.push_back({"matmul", "matmul large values", [](Bench& b) { multiply(b, {9, 33, 31, {}, true, 1e8}, "out"); }});
  cases.push_back({"matmul", "matmul without rows or terms", [](Bench& b) {
                     multiply(b, {0, 5, 3, {}, true}, "no rows");
                     multiply(b, {4, 5, 0, {}, true}, "no terms");
                     multiply(b, {4, 5, 0, {.write = Write::accumulate}, false}, "no terms, added");
                     multiply(b, {7, 5, 0, {yes, yes, Write::accumulate}, false}, "no terms, transposed");
                     multiply(b, {4, 5, 3, {}, true}, "some");
                   }});
  cases.push_back({"matmul", "matmul of more dims", [](Bench& b) {
                     const Tensor out = b.unset({2, 3, 5}), a = b.normal({2, 3, 7}), w = b.normal({7, 5});
                     b.bill(b.ops().matmul(b.stream(), out, a, w, {}, {}));
                     b.result("out", out, kTolerance);
                     const Tensor dw = b.unset_sum({7, 5}), dy = b.normal({2, 3, 5});
                     b.bill(b.ops().matmul(b.stream(), dw, a, dy, {}, {.a = yes}));
                     b.result("dw", dw, kTolerance);
                   }});
}

void move(Bench& b, const BlockMove& how, DType type) {
  const Shape in_shape{how.outer, how.in_rows, how.inner}, out_shape{how.outer, how.out_rows, how.inner};
  Tensor in, out;
  if (type == DType::i32) {
    in = b.put_ids(in_shape, b.ids(in_shape.count(), 1000, 9000));
    out = b.put_ids(out_shape, b.ids(out_shape.count(), 1000, 9000));
  } else {
    in = type == DType::f64 ? b.put_wide(in_shape, b.normals(in_shape.count())) : b.normal(in_shape);
    out = type == DType::f64 ? b.put_wide(out_shape, b.normals(out_shape.count())) : b.normal(out_shape);
  }
  b.bill(b.ops().move_block(b.stream(), out, in, how));
  b.result("out", out, how.write == Write::accumulate ? 1e-7 : 1e-13);  // what lies beside the block must stay
}

void add_moves(std::vector<OpCase>& cases) {
  const BlockMove moves[] = {
      {.outer = 1, .rows = 3, .inner = 1, .out_rows = 3, .out_first = 0, .in_rows = 3, .in_first = 0},
      {.outer = 4, .rows = 3, .inner = 7, .out_rows = 9, .out_first = 5, .in_rows = 3, .in_first = 0},
      {.outer = 5, .rows = 2, .inner = 33, .out_rows = 2, .out_first = 0, .in_rows = 8, .in_first = 6},
      {.outer = 3, .rows = 4, .inner = 8, .out_rows = 7, .out_first = 1, .in_rows = 6, .in_first = 2}};
  for (BlockMove how : moves)
    for (const Write write : {Write::replace, Write::accumulate})
      for (const auto& [type, name] : {std::pair{DType::f32, "real"}, {DType::f64, "f64"}, {DType::i32, "i32"}}) {
        how.write = write;
        cases.push_back({"move_block",
                         fmt::format("move_block {}x{}x{} of {}{}", how.outer, how.rows, how.inner, name,
                                     write == Write::accumulate ? " accumulate" : ""),
                         [how, type = type](Bench& b) { move(b, how, type); }});
      }
  cases.push_back(
      {"move_block", "move_block of nothing", [](Bench& b) {
         move(b, {.outer = 0, .rows = 2, .inner = 3, .out_rows = 4, .out_first = 1, .in_rows = 2, .in_first = 0},
              DType::f32);
         move(b, {.outer = 2, .rows = 0, .inner = 3, .out_rows = 4, .out_first = 4, .in_rows = 2, .in_first = 1},
              DType::f32);
         move(b, {.outer = 2, .rows = 2, .inner = 3, .out_rows = 4, .out_first = 2, .in_rows = 2, .in_first = 0},
              DType::f32);
       }});
}

}  // namespace

void add_product_cases(std::vector<OpCase>& cases) {
  add_matmul(cases);
  add_moves(cases);
}

}  // namespace quadrille
