// SPDX-License-Identifier: Apache-2.0
// Cases of attention and rotary positions.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/kernels/op_cases.h"

namespace quadrille {

namespace {

enum class Layout { packed, apart, gathered };  // gathered: q and kv in two tensors that are each packed, with gaps

struct Sizes {
  std::int64_t rows, q_tokens, kv_tokens, groups, queries, head;
};

Attention attention_of(const Sizes& s, Layout layout, bool causal) {
  Attention a;
  a.rows = s.rows, a.q_tokens = s.q_tokens, a.kv_tokens = s.kv_tokens, a.groups = s.groups, a.queries = s.queries,
  a.head = s.head;
  a.q_width = layout == Layout::apart ? s.queries * s.head : (s.queries + 2) * s.head;
  a.kv_width = layout == Layout::apart ? 2 * s.head : a.q_width;
  a.kv_offset = layout == Layout::apart ? 0 : s.queries * s.head;
  a.causal = causal;
  a.scale = 1 / std::sqrt(static_cast<double>(s.head));
  return a;
}

void with_dropout(Attention& a, double probability) {
  a.dropout = probability;
  a.key = 99;
  a.first_row = 3, a.first_head = 2, a.heads_global = a.groups * a.queries + 4;
  a.q_global = a.q_first + a.q_tokens + a.q_jump.by + 1, a.kv_global = a.kv_first + a.kv_tokens + a.kv_jump.by + 2;
}

struct Shapes {
  Shape q, kv, out, log_sum;
};
Shapes shapes_of(const Attention& a) {
  return {{a.rows, a.q_tokens, a.groups, a.q_width},
          {a.rows, a.kv_tokens, a.groups, a.kv_width},
          {a.rows, a.q_tokens, a.groups, a.queries * a.head},
          {a.rows, a.groups, a.queries, a.q_tokens}};
}

struct Trial {
  Attention how;
  bool packed = false;
  double deviation = 1, tolerance = 1e-5;
  std::vector<std::int32_t> lengths = {};  // of each row; none: all keys
};

Tensor lengths_of(Bench& b, const Trial& trial) {
  if (trial.lengths.empty()) return {};
  std::vector<std::int32_t> first(trial.lengths.begin(), trial.lengths.begin() + trial.how.rows);
  return b.put_ids({trial.how.rows}, first);
}

void run_attention(Bench& b, const Trial& trial) {
  const Shapes s = shapes_of(trial.how);
  const Tensor q = b.normal(s.q, trial.deviation), kv = trial.packed ? q : b.normal(s.kv, trial.deviation);
  const Tensor out = b.unset(s.out), log_sum = b.unset_sum(s.log_sum);
  b.bill(b.ops().attention(b.stream(), out, log_sum, q, kv, lengths_of(b, trial), trial.how));
  b.result("out", out, trial.tolerance);
  b.result("log_sum", log_sum, trial.tolerance);
}

void run_attention_backward(Bench& b, const Trial& trial) {
  const Shapes s = shapes_of(trial.how);
  const Numbers q_numbers = b.normals(s.q.count(), trial.deviation);
  const Numbers kv_numbers = trial.packed ? q_numbers : b.normals(s.kv.count(), trial.deviation);
  ReferenceBench r;
  const Tensor rq = r->put(s.q, q_numbers), rkv = r->put(s.kv, kv_numbers), rout = r->unset(s.out),
               rlog_sum = r->unset(s.log_sum);
  r->ops().attention(r->stream(), rout, rlog_sum, rq, rkv, lengths_of(*r, trial), trial.how);

  const Tensor q = b.put(s.q, q_numbers), kv = trial.packed ? q : b.put(s.kv, kv_numbers);
  const Tensor out = b.put(s.out, r->read(rout)), log_sum = b.put_sum(s.log_sum, r->read(rlog_sum)),
               dout = b.normal(s.out);
  const Tensor dq = b.unset(s.q), dkv = trial.packed ? dq : b.unset(s.kv);
  b.bill(b.ops().attention_backward(b.stream(), dq, dkv, dout, out, log_sum, q, kv, lengths_of(b, trial), trial.how));
  // `out` comes in rounded, and tensor cores take probabilities and their gradients in bf16.
  b.result("dq", dq, 2 * trial.tolerance, 2);
  if (!trial.packed) b.result("dkv", dkv, 2 * trial.tolerance, 2);
}

std::vector<std::pair<std::string, Trial>> trials() {
  std::vector<std::pair<std::string, Trial>> out;
  const auto add = [&](const std::string& name, const Sizes& s, Layout layout, bool causal, const auto& change) {
    Trial t{.how = attention_of(s, layout, causal), .packed = layout == Layout::packed};
    change(t);
    out.emplace_back(name, t);
  };
  const auto as_is = [](Trial&) {};
  using enum Layout;
  add("packed causal", {2, 9, 9, 2, 1, 8}, packed, true, as_is);
  add("packed one token", {3, 1, 1, 2, 1, 4}, packed, true, as_is);
  add("packed, head of 1", {1, 5, 5, 1, 2, 1}, packed, true, as_is);
  add("packed, heads of 2", {2, 8, 8, 4, 1, 2}, packed, true, as_is);
  add("packed, heads of 6", {1, 5, 5, 2, 2, 6}, packed, true, as_is);
  add("packed grouped causal", {2, 17, 17, 2, 3, 5}, packed, true, as_is);
  add("packed full", {2, 33, 33, 1, 2, 7}, packed, false, as_is);
  add("packed, more tokens than a tile", {1, 70, 70, 2, 1, 16}, packed, true, as_is);
  add("packed, several tiles", {1, 131, 131, 1, 2, 64}, packed, true, as_is);
  add("packed full, several tiles", {1, 200, 200, 1, 1, 33}, packed, false, as_is);
  add("apart full", {2, 7, 13, 2, 2, 8}, apart, false, as_is);
  add("apart full, more queries than keys", {2, 67, 3, 2, 1, 8}, apart, false, as_is);
  add("apart causal, queries later", {2, 4, 9, 1, 2, 8}, apart, true, [](Trial& t) { t.how.q_first = 5; });
  add("apart causal, several tiles later", {1, 70, 140, 1, 1, 8}, apart, true, [](Trial& t) { t.how.q_first = 70; });
  add("apart causal, first queries see nothing", {2, 6, 6, 2, 2, 8}, apart, true, [](Trial& t) { t.how.kv_first = 3; });
  add("apart causal, a tile sees nothing", {1, 150, 20, 1, 1, 8}, apart, true, [](Trial& t) { t.how.kv_first = 100; });
  add("gathered causal", {2, 5, 10, 2, 2, 8}, gathered, true, [](Trial& t) { t.how.q_first = 5; });
  add("packed causal, dropout", {2, 19, 19, 2, 2, 8}, packed, true, [](Trial& t) { with_dropout(t.how, 0.3); });
  add("packed, several tiles, dropout", {1, 90, 90, 2, 1, 16}, packed, true,
      [](Trial& t) { with_dropout(t.how, 0.1); });
  add("apart full, dropout", {2, 7, 13, 2, 2, 8}, apart, false, [](Trial& t) { with_dropout(t.how, 0.5); });
  add("gathered causal, dropout", {2, 5, 10, 1, 2, 8}, gathered, true, [](Trial& t) {
    t.how.q_first = 4, t.how.kv_first = 1;
    with_dropout(t.how, 0.2);
  });
  // Two runs of positions, as a rank holds them when causal work is balanced.
  const auto runs = [&](const std::string& name, const Sizes& s, bool causal, Jump q, Jump kv, double probability) {
    add(name, s, gathered, causal, [&](Trial& t) {
      t.how.q_first = 2, t.how.q_jump = q, t.how.kv_first = 1, t.how.kv_jump = kv;
      if (probability > 0) with_dropout(t.how, probability);
    });
  };
  runs("causal, queries jump", {2, 6, 14, 2, 2, 8}, true, {3, 5}, {}, 0);
  runs("causal, keys jump", {2, 8, 6, 2, 1, 8}, true, {}, {3, 4}, 0);
  runs("causal, both jump, dropout", {2, 8, 6, 1, 2, 8}, true, {4, 2}, {3, 4}, 0.2);
  runs("full, both jump, dropout", {1, 6, 4, 1, 2, 8}, false, {3, 5}, {2, 8}, 0.3);
  runs("causal, both jump, several tiles", {1, 150, 200, 1, 2, 16}, true, {75, 90}, {100, 70}, 0.1);
  runs("causal, queries jump past keys", {1, 100, 40, 2, 1, 8}, true, {50, 100}, {7, 60}, 0);
  runs("causal, a jump that nobody reaches", {1, 7, 9, 2, 1, 8}, true, {7, 10}, {9, 10}, 0);
  const auto padded = [&](const std::string& name, const Sizes& s, Layout layout, bool causal,
                          std::vector<std::int32_t> lengths, const auto& change) {
    add(name, s, layout, causal, [&](Trial& t) {
      t.lengths = std::move(lengths);
      change(t);
    });
  };
  padded("packed full, padded", {3, 9, 9, 2, 2, 8}, packed, false, {9, 4, 1}, as_is);
  padded("packed causal, padded", {3, 9, 9, 2, 1, 8}, packed, true, {20, 5, 0}, as_is);
  padded("apart full, padded, several tiles", {2, 70, 200, 2, 1, 16}, apart, false, {131, 96}, as_is);
  padded("apart full, padded, dropout", {2, 7, 13, 2, 2, 8}, apart, false, {12, 3},
         [](Trial& t) { with_dropout(t.how, 0.3); });
  padded("gathered full, keys jump, padded", {3, 6, 8, 1, 2, 8}, gathered, false, {4, 10, 14}, [](Trial& t) {
    t.how.kv_first = 2, t.how.kv_jump = {3, 6};  // positions 2, 3, 4 and 11 to 15
  });
  // Scores of up to about 100: f32 leaves an absolute error of 1e-5 in them, and the exponential keeps it.
  add("packed causal, large scores", {2, 21, 21, 1, 1, 16}, packed, true,
      [](Trial& t) { t.deviation = 5, t.tolerance = 1e-4; });
  add("packed causal, other scale", {2, 9, 9, 1, 1, 8}, packed, true, [](Trial& t) { t.how.scale = 0.1; });
  return out;
}

// `blind`: how many queries of each part saw no key; half of them are the same ones.
void run_merge(Bench& b, const Sizes& s, std::int64_t blind) {
  const Attention how = attention_of(s, Layout::packed, true);
  const Shapes shapes = shapes_of(how);
  Numbers out[2], log_sum[2];
  for (int part = 0; part < 2; ++part) {
    out[part] = b.normals(shapes.out.count());
    log_sum[part] = b.normals(shapes.log_sum.count(), 2, 3 * part);
    const std::int64_t from = part * (blind / 2);
    for (std::int64_t k = from; k < std::min(from + blind, s.q_tokens); ++k)
      for (std::int64_t brg = 0; brg < s.rows * s.groups * s.queries; ++brg) {
        const std::int64_t query = brg % s.queries, group = brg / s.queries % s.groups,
                           row = brg / s.queries / s.groups;
        log_sum[part][static_cast<std::size_t>(brg * s.q_tokens + k)] = -INFINITY;
        const std::int64_t first = (((row * s.q_tokens + k) * s.groups + group) * s.queries + query) * s.head;
        for (std::int64_t d = first; d < first + s.head; ++d) out[part][static_cast<std::size_t>(d)] = 0;
      }
  }
  const Tensor to = b.put(shapes.out, out[0]), sums = b.put_sum(shapes.log_sum, log_sum[0]);
  b.bill(
      b.ops().attention_merge(b.stream(), to, sums, b.put(shapes.out, out[1]), b.put_sum(shapes.log_sum, log_sum[1])));
  b.result("out", to, 1e-6);
  b.result("log_sum", sums, 1e-6);
}

void add_merge(std::vector<OpCase>& cases) {
  const std::tuple<const char*, Sizes, std::int64_t> some[] = {
      {"one head", {2, 5, 5, 1, 1, 8}, 0},        {"groups", {2, 7, 7, 3, 1, 5}, 0},
      {"grouped queries", {2, 9, 9, 2, 3, 8}, 0}, {"blind queries", {2, 9, 9, 2, 2, 4}, 3},
      {"one side blind", {1, 4, 4, 2, 1, 8}, 4},  {"many tokens", {1, 300, 300, 2, 2, 32}, 7}};
  for (const auto& [name, sizes, blind] : some)
    cases.push_back(
        {"attention_merge", fmt::format("attention_merge {}", name), [sizes = sizes, blind = blind](Bench& b) {
           Sizes nothing = sizes;
           nothing.rows = 0;
           run_merge(b, nothing, blind);
           run_merge(b, sizes, blind);
         }});
}

void run_rotary(Bench& b, const Rotary& how) {
  const Shape shape{how.rows, how.tokens, how.groups, how.width};
  const Tensor x = b.normal(shape), out = b.unset(shape);
  b.bill(b.ops().rotary(b.stream(), out, x, how));
  b.result("out", out, 1e-6);
  b.bill(b.ops().rotary(b.stream(), x, x, how));
  b.result("in place", x, 1e-6);
}

void add_rotary(std::vector<OpCase>& cases) {
  const std::pair<const char*, Rotary> some[] = {
      {"all heads", {.rows = 2, .tokens = 7, .groups = 1, .width = 24, .heads = 3, .head = 8}},
      {"grouped, values left alone", {.rows = 2, .tokens = 5, .groups = 2, .width = 32, .heads = 3, .head = 8}},
      {"head of 2", {.rows = 1, .tokens = 33, .groups = 3, .width = 2, .heads = 1, .head = 2}},
      {"head of 34", {.rows = 1, .tokens = 3, .groups = 1, .width = 102, .heads = 2, .head = 34}},
      {"later tokens", {.rows = 2, .tokens = 3, .groups = 1, .width = 18, .heads = 2, .head = 6, .first_token = 8190}},
      {"other base",
       {.rows = 2, .tokens = 3, .groups = 1, .width = 18, .heads = 2, .head = 6, .first_token = 100, .base = 5e5}},
      {"a jump",
       {.rows = 2, .tokens = 6, .groups = 2, .width = 18, .heads = 2, .head = 6, .first_token = 4, .jump = {2, 50}}},
      {"no head turned", {.rows = 2, .tokens = 3, .groups = 1, .width = 18, .heads = 0, .head = 6, .first_token = 1}}};
  for (auto [name, how] : some)
    for (const bool inverse : {false, true}) {
      how.inverse = inverse;
      cases.push_back({"rotary", fmt::format("rotary {}{}", name, inverse ? " inverse" : ""), [how = how](Bench& b) {
                         Rotary nothing = how;
                         nothing.rows = 0;
                         run_rotary(b, nothing);
                         run_rotary(b, how);
                       }});
    }
}

}  // namespace

void add_attention_cases(std::vector<OpCase>& cases) {
  const std::pair<const char*, void (*)(Bench&, const Trial&)> ops[] = {{"attention", run_attention},
                                                                        {"attention_backward", run_attention_backward}};
  for (const auto& [op, run] : ops)
    for (const auto& [name, trial] : trials())
      cases.push_back({op, fmt::format("{} {}", op, name), [run = run, trial = trial](Bench& b) {
                         Trial nothing = trial;
                         nothing.how.rows = 0;
                         run(b, nothing);
                         run(b, trial);
                       }});
  add_merge(cases);
  add_rotary(cases);
}

}  // namespace quadrille
