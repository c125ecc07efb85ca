// SPDX-License-Identifier: Apache-2.0
// Bills against closed formulas. That all back ends bill alike is part of every op case.
#include <gtest/gtest.h>

#include "core/error.h"
#include "kernels/backend.h"
#include "kernels/bills.h"

namespace quadrille {
namespace {

class Bills : public testing::Test {
 protected:
  Tensor f32(const Shape& shape) { return device_->empty(shape, DType::f32); }
  Tensor f64(const Shape& shape) { return device_->empty(shape, DType::f64); }
  std::unique_ptr<Device> device_ = make_counting_device();
  std::unique_ptr<Stream> stream_ = device_->make_stream();
};

TEST_F(Bills, MatmulIsTwoPerMultiplyAdd) {
  const Cost c = counting_ops().matmul(*stream_, f32({30, 50}), f32({70, 30}), f32({50, 70}), f32({50}),
                                       {Transpose::yes, Transpose::yes, Write::accumulate});
  EXPECT_EQ(c.flops, 2.0 * 30 * 50 * 70);
  EXPECT_EQ(c.skipped, 0);
  EXPECT_EQ(c.recomputed, 0);
  EXPECT_EQ(c.bytes, 4.0 * (70 * 30 + 50 * 70 + 50 + 2 * 30 * 50));
}

// 2 per multiply-add: every output number has a window of k·k·C, the padding included.
TEST_F(Bills, ConvolutionsCountWholeWindows) {
  const Conv how{3, 3, 2, 1, 1, 1, 1};
  const Tensor x = f32({2, 9, 7, 5}), w = f32({3, 3, 5, 11}), y = f32({2, 5, 4, 11});
  const double products = 2.0 * 5 * 4 * 11 * 3 * 3 * 5, numbers_x = 2 * 9 * 7 * 5, numbers_w = 9 * 5 * 11,
               numbers_y = 2 * 5 * 4 * 11;
  const Cost forward = counting_ops().conv(*stream_, y, x, w, how);
  EXPECT_EQ(forward.flops, 2 * products);
  EXPECT_EQ(forward.bytes, 4 * (numbers_x + numbers_w + numbers_y));
  const Cost input = counting_ops().conv_backward_input(*stream_, x, y, w, how, Write::accumulate);
  EXPECT_EQ(input.flops, 2 * products);
  EXPECT_EQ(input.bytes, 4 * (2 * numbers_x + numbers_w + numbers_y));
  const Cost weight = counting_ops().conv_backward_weight(*stream_, w, y, x, how, Write::replace);
  EXPECT_EQ(weight.flops, 2 * products);
  EXPECT_EQ(weight.bytes, 4 * (numbers_x + numbers_w + numbers_y));
}

TEST_F(Bills, ElementwiseWorkIsNotInFlops) {
  const Cost c = counting_ops().gelu(*stream_, f64({5, 7}), f64({5, 7}));
  EXPECT_EQ(c.flops, 0);
  EXPECT_EQ(c.bytes, 2.0 * 8 * 35);
}

struct AttentionCase {
  std::int64_t tokens, block;
  double pairs;  // of the causal form, by hand
};
void PrintTo(const AttentionCase& c, std::ostream* out) { *out << c.tokens << " tokens in blocks of " << c.block; }

class AttentionBills : public Bills, public testing::WithParamInterface<AttentionCase> {};

TEST_P(AttentionBills, ExecutedAndSkippedAddUpToTheFullFormula) {
  const auto [t, block, pairs] = GetParam();
  const std::unique_ptr<Ops> ops = make_counting_ops({.block = block});
  Attention how{.rows = 3,
                .q_tokens = t,
                .kv_tokens = t,
                .groups = 2,
                .queries = 4,
                .head = 16,
                .q_width = 96,
                .kv_width = 96,
                .kv_offset = 64};
  const Tensor qkv = f32({3, t, 2, 96}), out = f32({3, t, 2, 64}), log_sum = f32({3, 2, 4, t}),
               dqkv = f32({3, t, 2, 96}), dout = f32({3, t, 2, 64});
  const double heads = 3 * 2 * 4, full = static_cast<double>(t * t);
  for (const bool causal : {true, false}) {
    how.causal = causal;
    const double computed = causal ? pairs : full;
    const Cost forward = ops->attention(*stream_, out, log_sum, qkv, qkv, {}, how);
    EXPECT_EQ(forward.flops, 4 * 16 * computed * heads);
    EXPECT_EQ(forward.recomputed, 0);
    EXPECT_EQ(forward.flops + forward.skipped - forward.recomputed, 4 * full * 16 * heads);
    EXPECT_EQ(forward.bytes, 4.0 * (3 * t * 2 * (96 + 64) + 3 * 8 * t));
    const Cost backward = ops->attention_backward(*stream_, dqkv, dqkv, dout, out, log_sum, qkv, qkv, {}, how);
    EXPECT_EQ(backward.flops, 10 * 16 * computed * heads);
    EXPECT_EQ(backward.recomputed, 2 * 16 * computed * heads);
    EXPECT_EQ(backward.flops + backward.skipped - backward.recomputed, 8 * full * 16 * heads);
    EXPECT_EQ(backward.bytes, 4.0 * (3 * t * 2 * (96 + 96 + 64 + 64) + 3 * 8 * t));
  }
}

// Causal pairs: T(T+1)/2 one by one; blocks of 4 over 8 tokens 4·4 + 4·8; over 10 tokens 4·4 + 4·8 + 2·10.
INSTANTIATE_TEST_SUITE_P(Blocks, AttentionBills,
                         testing::Values(AttentionCase{8, 1, 36}, AttentionCase{8, 4, 48}, AttentionCase{10, 4, 68},
                                         AttentionCase{10, 64, 100},
                                         AttentionCase{256, 64, 64.0 * 64 * (1 + 2 + 3 + 4)}),
                         [](const auto& info) {
                           return std::to_string(info.param.tokens) + "_in_blocks_of_" +
                                  std::to_string(info.param.block);
                         });

TEST_F(Bills, AttentionOfLaterQueriesSeesMore) {
  // Queries at 5, 6, 7 over keys at 1 .. 6 see 5, 6, 6 of the 6.
  const Attention how{.rows = 1,
                      .q_tokens = 3,
                      .kv_tokens = 6,
                      .groups = 1,
                      .queries = 1,
                      .head = 1,
                      .q_width = 1,
                      .kv_width = 2,
                      .q_first = 5,
                      .kv_first = 1};
  EXPECT_EQ(attention_pairs(how, 1), 17);
  EXPECT_EQ(attention_pairs(how, 2), 18);
  const Attention nothing{.rows = 1,
                          .q_tokens = 3,
                          .kv_tokens = 6,
                          .groups = 1,
                          .queries = 1,
                          .head = 1,
                          .q_width = 1,
                          .kv_width = 2,
                          .q_first = 0,
                          .kv_first = 9};
  EXPECT_EQ(attention_pairs(nothing, 1), 0);
}

TEST_F(Bills, AttentionOfTwoRunsCountsPositions) {
  // Queries at 2, 3, 8, 9; keys at 1, 2, 7, 8, 9: seen are 2, 2, 4, 5. The first to see each
  // key are 0, 0, 2, 2, 3.
  Attention how{.rows = 1, .q_tokens = 4, .kv_tokens = 5, .groups = 1, .queries = 1, .head = 1, .q_width = 1};
  how.kv_width = 2, how.q_first = 2, how.q_jump = {2, 4}, how.kv_first = 1, how.kv_jump = {2, 4};
  const std::int64_t seen[] = {2, 2, 4, 5}, first[] = {0, 0, 2, 2, 3};
  for (std::int64_t t = 0; t < 4; ++t) EXPECT_EQ(visible_keys(how, t), seen[t]) << t;
  for (std::int64_t k = 0; k < 5; ++k) EXPECT_EQ(first_seeing(how, k), first[k]) << k;
  EXPECT_EQ(attention_pairs(how, 1), 13);
  how.q_jump = {}, how.kv_jump = {};
  EXPECT_EQ(attention_pairs(how, 1), 2 + 3 + 4 + 5);
  EXPECT_EQ(first_seeing(how, 4), 3);
}

TEST_F(Bills, ProductsMadeOnceMoreAreExecutedNotUseful) {
  const Attention how{.rows = 2,
                      .q_tokens = 5,
                      .kv_tokens = 5,
                      .groups = 1,
                      .queries = 1,
                      .head = 8,
                      .q_width = 24,
                      .kv_width = 24,
                      .kv_offset = 8};
  const Tensor qkv = f32({2, 5, 1, 24}), out = f32({2, 5, 1, 8}), log_sum = f32({2, 1, 1, 5}),
               dqkv = f32({2, 5, 1, 24});
  const auto bill = [&](const AttentionBilling& billing) {
    return make_counting_ops(billing)->attention_backward(*stream_, dqkv, dqkv, f32({2, 5, 1, 8}), out, log_sum, qkv,
                                                          qkv, {}, how);
  };
  const Cost once = bill({}),
             thrice = bill({.rebuilt = [](const Tensor&, const Tensor&, const Attention&) { return 3; }});
  EXPECT_EQ(once.flops - once.recomputed, thrice.flops - thrice.recomputed);
  EXPECT_EQ(thrice.recomputed, 3 * once.recomputed);
  EXPECT_EQ(thrice.skipped, once.skipped);
}

TEST_F(Bills, CountingRefusesABlockOfNothing) { EXPECT_THROW(make_counting_ops({.block = 0}), Error); }

}  // namespace
}  // namespace quadrille
