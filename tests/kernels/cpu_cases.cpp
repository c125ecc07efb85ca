// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cpu_cases.h"

#include <fmt/core.h>

#include <cmath>

namespace quadrille {

namespace {

using Cases = std::vector<LargeCase>;

void add_products(Cases& cases) {
  struct Extents {
    std::int64_t m, n, k;
  };
  for (const Extents e : {Extents{301, 130, 97}, {5, 700, 301}, {130, 257, 700}})
    for (const int turned : {0, 1, 2, 3})
      cases.push_back(
          {"matmul", fmt::format("matmul {} {} {} turned {}", e.m, e.n, e.k, turned), [e, turned](Bench& b) {
             Matmul how;
             how.a = turned & 1 ? Transpose::yes : Transpose::no;
             how.b = turned & 2 ? Transpose::yes : Transpose::no;
             how.write = turned == 3 ? Write::accumulate : Write::replace;
             const Tensor a = b.normal(turned & 1 ? Shape{e.k, e.m} : Shape{e.m, e.k});
             const Tensor w = b.normal(turned & 2 ? Shape{e.n, e.k} : Shape{e.k, e.n});
             const Tensor bias = turned == 2 ? Tensor() : b.normal({e.n}), out = b.start({e.m, e.n}, how.write);
             return Prepared{[=, &b] { return b.ops().matmul(b.stream(), out, a, w, bias, how); }, {out}};
           }});
}

void add_elementwise(Cases& cases) {
  const Shape shape{203, 301};
  cases.push_back({"gelu", "gelu", [shape](Bench& b) {
                     const Tensor x = b.normal(shape, 3), out = b.unset(shape);
                     return Prepared{[=, &b] { return b.ops().gelu(b.stream(), out, x); }, {out}, 1e-6};
                   }});
  cases.push_back({"gelu_backward", "gelu_backward", [shape](Bench& b) {
                     const Tensor x = b.normal(shape, 3), dy = b.normal(shape), out = b.unset(shape);
                     return Prepared{[=, &b] { return b.ops().gelu_backward(b.stream(), out, dy, x); }, {out}, 1e-6};
                   }});
  cases.push_back(
      {"gated_silu_backward", "gated_silu_backward", [shape](Bench& b) {
         const Tensor x = b.normal(shape, 3), u = b.normal(shape), dy = b.normal(shape), dg = b.unset(shape),
                      du = b.unset(shape);
         return Prepared{[=, &b] { return b.ops().gated_silu_backward(b.stream(), dg, du, dy, x, u); }, {dg, du}};
       }});
  cases.push_back({"add_bias", "add_bias", [shape](Bench& b) {
                     const Tensor x = b.normal(shape), bias = b.normal({shape[1]}), out = b.unset(shape);
                     return Prepared{[=, &b] { return b.ops().add_bias(b.stream(), out, x, bias); }, {out}};
                   }});
  for (const Shape& tall : {Shape{2011, 37}, Shape{70, 1201}})
    cases.push_back(
        {"sum_rows", fmt::format("sum_rows {}", tall.text()), [tall](Bench& b) {
           const Tensor x = b.normal(tall, 1, 0.5), out = b.normal({tall[1]});
           return Prepared{[=, &b] { return b.ops().sum_rows(b.stream(), out, x, Write::accumulate); }, {out}, 1e-6};
         }});
  cases.push_back({"dropout", "dropout", [](Bench& b) {
                     const Shape three{7, 41, 129};
                     const Tensor x = b.normal(three), out = b.unset(three);
                     Dropout how{.probability = 0.3,
                                 .key = 5,
                                 .first_row = 2,
                                 .first_token = 3,
                                 .first_feature = 1,
                                 .tokens = 50,
                                 .features = 200};
                     return Prepared{[=, &b] { return b.ops().dropout(b.stream(), out, x, how); }, {out}};
                   }});
  for (const std::int64_t outer : {std::int64_t{1}, std::int64_t{53}})
    cases.push_back({"move_block", fmt::format("move_block {}", outer), [outer](Bench& b) {
                       const BlockMove how{.outer = outer,
                                           .rows = 29,
                                           .inner = 1013,
                                           .out_rows = 31,
                                           .out_first = 1,
                                           .in_rows = 40,
                                           .in_first = 11,
                                           .write = Write::accumulate};
                       const Tensor in = b.normal({outer, 40, 1013}), out = b.normal({outer, 31, 1013});
                       return Prepared{[=, &b] { return b.ops().move_block(b.stream(), out, in, how); }, {out}};
                     }});
}

void add_norms(Cases& cases) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    const Norm how{.kind = kind, .epsilon = 1e-5, .width = 131};
    const Shape shape{301, 131}, sums_shape{301, 2}, width{131};
    const std::string suffix = kind == NormKind::layer ? " layer" : " rms";
    const auto sums_of = [=](Bench& b, const Tensor& x) {
      const Tensor sums = b.unset(sums_shape, DType::f64);
      b.ops().norm_sums(b.stream(), sums, x);
      return sums;
    };
    cases.push_back({"norm_sums", "norm_sums" + suffix, [=](Bench& b) {
                       const Tensor x = b.normal(shape, 1, 2), sums = b.unset(sums_shape, DType::f64);
                       return Prepared{[=, &b] { return b.ops().norm_sums(b.stream(), sums, x); }, {sums}, 1e-12};
                     }});
    cases.push_back({"norm", "norm" + suffix, [=](Bench& b) {
                       const Tensor x = b.normal(shape, 1, 2), gain = b.normal(width), bias = b.normal(width),
                                    out = b.unset(shape), s = sums_of(b, x);
                       return Prepared{[=, &b] {
                                         return b.ops().norm(b.stream(), out, x, s, gain,
                                                             kind == NormKind::layer ? bias : Tensor(), how);
                                       },
                                       {out}};
                     }});
    cases.push_back(
        {"norm_backward", "norm_backward" + suffix, [=](Bench& b) {
           const Tensor x = b.normal(shape, 1, 2), dy = b.normal(shape), gain = b.normal(width), dx = b.normal(shape),
                        s = sums_of(b, x);
           const Tensor back = b.unset(sums_shape, DType::f64);
           b.ops().norm_backward_sums(b.stream(), back, dy, x, s, gain, how);
           return Prepared{
               [=, &b] { return b.ops().norm_backward(b.stream(), dx, dy, x, s, back, gain, how, Write::accumulate); },
               {dx, back}};
         }});
    cases.push_back(
        {"norm_backward_parameters", "norm_backward_parameters" + suffix, [=](Bench& b) {
           const Tensor x = b.normal(shape, 1, 2), dy = b.normal(shape), dgain = b.normal(width),
                        dbias = b.normal(width), s = sums_of(b, x);
           return Prepared{
               [=, &b] { return b.ops().norm_backward_parameters(b.stream(), dgain, dbias, dy, x, s, how); },
               {dgain, dbias}};
         }});
  }
}

Attention attention_of(std::int64_t rows, std::int64_t tokens, std::int64_t groups, std::int64_t queries,
                       std::int64_t head, bool causal) {
  Attention a;
  a.rows = rows, a.q_tokens = a.kv_tokens = tokens, a.groups = groups, a.queries = queries, a.head = head,
  a.causal = causal;
  a.q_width = a.kv_width = (queries + 2) * head, a.kv_offset = queries * head;
  a.scale = 1 / std::sqrt(static_cast<double>(head));
  return a;
}

void add_attention(Cases& cases) {
  Attention dropped = attention_of(2, 101, 2, 2, 20, true);
  dropped.dropout = 0.2, dropped.key = 9, dropped.heads_global = 4, dropped.q_global = dropped.kv_global = 101;
  for (const Attention& how : {attention_of(3, 131, 2, 2, 24, true), attention_of(1, 613, 3, 1, 33, true),
                               attention_of(1, 313, 2, 1, 72, false), dropped}) {
    const std::string suffix = fmt::format(" {} tokens, head {}, {}{}", how.q_tokens, how.head,
                                           how.causal ? "causal" : "full", how.dropout > 0 ? ", dropout" : "");
    const Shape in{how.rows, how.q_tokens, how.groups, how.q_width},
        out_shape{how.rows, how.q_tokens, how.groups, how.queries * how.head};
    const Shape sums{how.rows, how.groups, how.queries, how.q_tokens};
    cases.push_back({"attention", "attention" + suffix, [=](Bench& b) {
                       const Tensor x = b.normal(in), out = b.unset(out_shape), log_sum = b.unset_sum(sums);
                       return Prepared{[=, &b] { return b.ops().attention(b.stream(), out, log_sum, x, x, {}, how); },
                                       {out, log_sum}};
                     }});
    cases.push_back(
        {"attention_backward", "attention_backward" + suffix, [=](Bench& b) {
           const Tensor x = b.normal(in), out = b.unset(out_shape), log_sum = b.unset_sum(sums),
                        dout = b.normal(out_shape), dx = b.unset(in);
           b.ops().attention(b.stream(), out, log_sum, x, x, {}, how);
           return Prepared{
               [=, &b] { return b.ops().attention_backward(b.stream(), dx, dx, dout, out, log_sum, x, x, {}, how); },
               {dx}};
         }});
  }
  cases.push_back({"rotary", "rotary", [](Bench& b) {
                     Rotary how;
                     how.rows = 3, how.tokens = 57, how.groups = 2, how.width = 3 * 150, how.heads = 2, how.head = 150,
                     how.first_token = 4;
                     const Shape shape{3, 57, 2, 450};
                     const Tensor x = b.normal(shape), out = b.unset(shape);
                     return Prepared{[=, &b] { return b.ops().rotary(b.stream(), out, x, how); }, {out}};
                   }});
}

void add_words(Cases& cases) {
  const Shape logits_shape{61, 1303}, table{301, 67};
  cases.push_back(
      {"embedding_backward", "embedding_backward", [=](Bench& b) {
         const Tensor dtable = b.normal(table), dout = b.normal({1501, 67}),
                      ids = b.put_ids({1501}, b.ids(1501, 0, 40));
         return Prepared{[=, &b] { return b.ops().embedding_backward(b.stream(), dtable, dout, ids, 0); }, {dtable}};
       }});
  cases.push_back(
      {"embedding", "embedding", [=](Bench& b) {
         const Tensor from = b.normal(table), out = b.unset({1501, 67}), ids = b.put_ids({1501}, b.ids(1501, 90, 450));
         return Prepared{[=, &b] { return b.ops().embedding(b.stream(), out, from, ids, 100); }, {out}};
       }});
  const CrossEntropy how{.first_word = 0, .words = 1303, .smoothing = 0.1};
  cases.push_back({"cross_entropy_sums", "cross_entropy_sums", [=](Bench& b) {
                     const Tensor x = b.normal(logits_shape, 4), max = b.unset({61}, DType::f64),
                                  sums = b.unset({61, 3}, DType::f64);
                     const Tensor labels = b.put_ids({61}, b.ids(61, -1, 1303));
                     b.ops().cross_entropy_max(b.stream(), max, x);
                     return Prepared{
                         [=, &b] { return b.ops().cross_entropy_sums(b.stream(), sums, x, max, labels, how); },
                         {max, sums}};
                   }});
  cases.push_back(
      {"cross_entropy_backward", "cross_entropy_backward", [=](Bench& b) {
         const Tensor x = b.normal(logits_shape, 4), max = b.unset({61}, DType::f64),
                      sums = b.unset({61, 3}, DType::f64);
         const Tensor labels = b.put_ids({61}, b.ids(61, -1, 1303)), dx = b.unset(logits_shape);
         b.ops().cross_entropy_max(b.stream(), max, x);
         b.ops().cross_entropy_sums(b.stream(), sums, x, max, labels, how);
         return Prepared{
             [=, &b] { return b.ops().cross_entropy_backward(b.stream(), dx, x, max, sums, labels, {}, how); }, {dx}};
       }});
}

constexpr std::int64_t kMany = 70'001;

void add_training(Cases& cases) {
  cases.push_back({"sum_of_squares", "sum_of_squares", [](Bench& b) {
                     const Tensor x = b.normal({kMany}), sum = b.put_wide({1}, {2.5});
                     return Prepared{[=, &b] { return b.ops().sum_of_squares(b.stream(), sum, x); }, {sum}, 1e-12};
                   }});
  cases.push_back(
      {"adamw", "adamw", [](Bench& b) {
         const Tensor p = b.normal({kMany}), g = b.normal({kMany}), m = b.normal({kMany}, 0.1);
         Numbers squares = b.normals(kMany, 0.3);
         for (double& v : squares) v = v * v;
         const Tensor v = b.put({kMany}, squares);
         Numbers scalars(kStepScalars, 0.0);
         scalars[kFactor] = 0.25, scalars[kRate] = 0.01, scalars[kFinite] = 1, scalars[kStep] = 3;
         const Tensor s = b.put_wide({kStepScalars}, scalars);
         return Prepared{
             [=, &b] { return b.ops().adamw(b.stream(), p, g, m, v, s, {.weight_decay = 0.1}); }, {p, m, v}, 1e-6};
       }});
  cases.push_back({"lamb_moments", "lamb_moments", [](Bench& b) {
                     const Tensor p = b.normal({kMany}), g = b.normal({kMany}), m = b.normal({kMany}, 0.1);
                     const Tensor v = b.put({kMany}, Numbers(kMany, 0.25)), sum = b.put_wide({1}, {2.5});
                     Numbers scalars(kStepScalars, 0.0);
                     scalars[kFactor] = 0.25, scalars[kRate] = 0.01, scalars[kFinite] = 1, scalars[kStep] = 3;
                     const Tensor s = b.put_wide({kStepScalars}, scalars);
                     return Prepared{[=, &b] { return b.ops().lamb_moments(b.stream(), sum, p, g, m, v, s, {}); },
                                     {sum, m, v},
                                     1e-6};
                   }});
}

}  // namespace

OpCase LargeCase::as_op_case() const {
  return {op, name, [prepare = prepare](Bench& b) {
            const Prepared p = prepare(b);
            b.bill(p.call());
            for (std::size_t i = 0; i < p.outputs.size(); ++i)
              b.result(fmt::format("output {}", i), p.outputs[i], p.tolerance);
          }};
}

const std::vector<LargeCase>& large_cases() {
  static const Cases all = [] {
    Cases cases;
    add_products(cases), add_elementwise(cases), add_norms(cases), add_attention(cases), add_words(cases),
        add_training(cases), add_large_image_cases(cases);
    return cases;
  }();
  return all;
}

}  // namespace quadrille
