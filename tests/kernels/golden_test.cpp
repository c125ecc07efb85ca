// SPDX-License-Identifier: Apache-2.0
// Values known from outside: closed forms and published constants, so that the reference is not only compared with
// itself.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/bench.h"

namespace quadrille {
namespace {

void expect_numbers(const Numbers& got, const Numbers& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], tolerance) << i;
}

TEST(Golden, Matmul) {
  ReferenceBench b;
  const Tensor out = b->put({2, 2}, {100, 200, 300, 400});
  b->ops().matmul(b->stream(), out, b->put({2, 3}, {1, 2, 3, 4, 5, 6}), b->put({3, 2}, {7, 8, 9, 10, 11, 12}),
                  b->put({2}, {1, -1}), {.write = Write::accumulate});
  expect_numbers(b->read(out), {159, 263, 440, 553}, 0);
}

TEST(Golden, MoveBlockTakesTheRunsAsked) {
  ReferenceBench b;
  const Tensor in = b->put({12}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), out = b->put({2, 4}, Numbers(8, -1));
  b->ops().move_block(b->stream(), out, in,
                      {.outer = 2, .rows = 2, .inner = 1, .out_rows = 4, .out_first = 1, .in_rows = 6, .in_first = 3});
  expect_numbers(b->read(out), {-1, 3, 4, -1, -1, 9, 10, -1}, 0);
}

TEST(Golden, GeluIsXTimesTheNormalDistribution) {
  ReferenceBench b;
  const Tensor out = b->unset({5});
  b->ops().gelu(b->stream(), out, b->put({5}, {0, 1, -1, 2, 40}));
  expect_numbers(b->read(out), {0, 0.8413447460685429, -0.15865525393145707, 1.9544997361036416, 40}, 1e-15);
  b->ops().gelu_backward(b->stream(), out, b->put({5}, {1, 1, 1, 1, 2}), b->put({5}, {0, 1, -40, 40, 40}));
  expect_numbers(b->read(out), {0.5, 1.0833154705876864, 0, 1, 2}, 1e-15);  // Φ(1) + φ(1)
}

TEST(Golden, SinusoidsOfVaswani) {
  ReferenceBench b;
  const Tensor x = b->put({1, 2, 3}, {1, 1, 1, 2, 2, 2}), out = b->unset({1, 2, 3});
  b->ops().sinusoids(b->stream(), out, x, {.factor = 10, .first_token = 1, .first_feature = 1, .features = 4});
  const auto row = [](double base, double t) {
    return Numbers{base + std::cos(t), base + std::sin(t / 100), base + std::cos(t / 100)};
  };
  Numbers wanted = row(10, 1);
  for (const double v : row(20, 2)) wanted.push_back(v);
  expect_numbers(b->read(out), wanted, 1e-14);
}

TEST(Golden, RowLengthsCountWhatIsNotPadding) {
  ReferenceBench b;
  const Tensor lengths = b->unset({3}, DType::i32);
  b->ops().row_lengths(b->stream(), lengths, b->put_ids({3, 3}, {0, 4, -1, -1, -1, -1, 7, 8, 0}));
  expect_numbers(b->read(lengths), {2, 0, 3}, 0);
}

TEST(Golden, GatedSilu) {
  ReferenceBench b;
  const Tensor out = b->unset({3});
  b->ops().gated_silu(b->stream(), out, b->put({3}, {0, 1, -1}), b->put({3}, {5, 2, 2}));
  expect_numbers(b->read(out), {0, 2 * 0.7310585786300049, -2 * 0.2689414213699951}, 1e-15);
}

TEST(Golden, LayerNormOfASmallRow) {  // 1 2 3 4: mean 2.5, variance 1.25
  ReferenceBench b;
  const Tensor x = b->put({1, 4}, {1, 2, 3, 4}), sums = b->unset({1, 2}), out = b->unset({1, 4});
  b->ops().norm_sums(b->stream(), sums, x);
  expect_numbers(b->read(sums), {10, 30}, 0);
  b->ops().norm(b->stream(), out, x, sums, b->put({4}, {1, 1, 1, 2}), b->put({4}, {0, 0, 0, 10}),
                {NormKind::layer, 0, 4});
  const double unit = 1 / std::sqrt(1.25);
  expect_numbers(b->read(out), {-1.5 * unit, -0.5 * unit, 0.5 * unit, 3 * unit + 10}, 1e-15);
  b->ops().norm(b->stream(), out, x, sums, b->put({4}, {1, 1, 1, 1}), {}, {NormKind::rms, 0, 4});
  const double rms = std::sqrt(7.5);
  expect_numbers(b->read(out), {1 / rms, 2 / rms, 3 / rms, 4 / rms}, 1e-15);
}

TEST(Golden, CrossEntropyOfUniformLogitsIsLogV) {
  ReferenceBench b;
  for (const double smoothing : {0.0, 0.3}) {  // smoothing changes nothing where all words are alike
    const CrossEntropy how{.words = 50257, .smoothing = smoothing};
    const Tensor logits = b->put({2, 50257}, Numbers(2 * 50257, 3.0)), labels = b->put_ids({2}, {0, 50256});
    const Tensor max = b->unset({2}), sums = b->unset({2, 3}), loss = b->put({2}, {0, 0});
    b->ops().cross_entropy_max(b->stream(), max, logits);
    b->ops().cross_entropy_sums(b->stream(), sums, logits, max, labels, how);
    b->ops().cross_entropy_loss(b->stream(), loss, sums, max, labels, how);
    expect_numbers(b->read(loss), {2 * std::log(50257.0), 2}, 1e-10);
  }
}

TEST(Golden, ALogitThatIsNotANumberReachesTheLoss) {
  ReferenceBench b;
  const CrossEntropy how{.words = 3};
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    const Tensor logits = b->put({1, 3}, {1, bad, 2}), labels = b->put_ids({1}, {0}), max = b->unset({1}),
                 sums = b->unset({1, 3});
    const Tensor loss = b->put({2}, {0, 0});
    b->ops().cross_entropy_max(b->stream(), max, logits);
    b->ops().cross_entropy_sums(b->stream(), sums, logits, max, labels, how);
    b->ops().cross_entropy_loss(b->stream(), loss, sums, max, labels, how);
    EXPECT_FALSE(std::isfinite(b->read(loss)[0])) << bad;
  }
}

TEST(Golden, AttentionOfEqualKeysAveragesTheValuesSeen) {
  ReferenceBench b;
  const Attention how{
      .rows = 1, .q_tokens = 3, .kv_tokens = 3, .groups = 1, .queries = 1, .head = 2, .q_width = 2, .kv_width = 4};
  const Tensor q = b->normal({3, 2}), kv = b->put({3, 4}, {0, 0, 3, 1, 0, 0, 6, 2, 0, 0, 9, 6}), out = b->unset({3, 2}),
               log_sum = b->unset({3});
  b->ops().attention(b->stream(), out, log_sum, q, kv, {}, how);
  expect_numbers(b->read(out), {3, 1, 4.5, 1.5, 6, 3}, 1e-14);
  expect_numbers(b->read(log_sum), {0, std::log(2.0), std::log(3.0)}, 1e-15);
}

TEST(Golden, RotaryAtPositionZeroIsTheIdentityAndTurnsAreExact) {
  ReferenceBench b;
  const Tensor x = b->normal({1, 8}), out = b->unset({1, 8});
  b->ops().rotary(b->stream(), out, x, {.rows = 1, .tokens = 1, .groups = 1, .width = 8, .heads = 2, .head = 4});
  EXPECT_EQ(b->read(out), b->read(x));
  const Tensor pair = b->put({2, 2}, {1, 0, 1, 0}), turned = b->unset({2, 2});
  b->ops().rotary(b->stream(), turned, pair,
                  {.rows = 1, .tokens = 2, .groups = 1, .width = 2, .heads = 1, .head = 2, .first_token = 2});
  expect_numbers(b->read(turned), {std::cos(2.0), std::sin(2.0), std::cos(3.0), std::sin(3.0)}, 1e-15);
}

TEST(Golden, RotaryPairsTurnAtFallingRates) {  // a head of 4: rates 1 and base^(-2/4)
  ReferenceBench b;
  const Tensor x = b->put({1, 4}, {1, 1, 0, 0}), out = b->unset({1, 4});
  b->ops().rotary(
      b->stream(), out, x,
      {.rows = 1, .tokens = 1, .groups = 1, .width = 4, .heads = 1, .head = 4, .first_token = 7, .base = 100});
  expect_numbers(b->read(out), {std::cos(7.0), std::cos(0.7), std::sin(7.0), std::sin(0.7)}, 1e-14);
}

TEST(Golden, RotaryOfQueriesAndKeysKnowsOnlyDistances) {
  ReferenceBench b;
  const Numbers q = b->normals(8), k = b->normals(8);
  const auto score = [&](std::int64_t q_position, std::int64_t k_position) {
    const Tensor tq = b->put({8}, q), tk = b->put({8}, k);
    Rotary how{.rows = 1, .tokens = 1, .groups = 1, .width = 8, .heads = 1, .head = 8, .first_token = q_position};
    b->ops().rotary(b->stream(), tq, tq, how);
    how.first_token = k_position;
    b->ops().rotary(b->stream(), tk, tk, how);
    double sum = 0;
    for (std::size_t i = 0; i < 8; ++i) sum += b->read(tq)[i] * b->read(tk)[i];
    return sum;
  };
  EXPECT_NEAR(score(7, 3), score(104, 100), 1e-12);
  EXPECT_GT(std::abs(score(7, 3) - score(7, 4)), 1e-3);
}

TEST(Golden, AttentionOfLaterQueriesCountsPositions) {  // queries at 4 and 5, keys at 3, 4, 5, all alike
  ReferenceBench b;
  const Attention how{.rows = 1,
                      .q_tokens = 2,
                      .kv_tokens = 3,
                      .groups = 1,
                      .queries = 1,
                      .head = 1,
                      .q_width = 1,
                      .kv_width = 2,
                      .q_first = 4,
                      .kv_first = 3};
  const Tensor q = b->normal({2}), kv = b->put({3, 2}, {0, 3, 0, 6, 0, 9}), out = b->unset({2}),
               log_sum = b->unset({2});
  b->ops().attention(b->stream(), out, log_sum, q, kv, {}, how);
  expect_numbers(b->read(out), {4.5, 6}, 1e-14);
}

// The addresses of dropped elements as ops.h words them, so that a layout cannot change which ones are dropped.
TEST(Golden, DropoutAddresses) {
  ReferenceBench b;
  const Dropout how{.probability = 0.5,
                    .key = 17,
                    .first_row = 2,
                    .first_token = 3,
                    .first_feature = 4,
                    .tokens = 10,
                    .features = 20};
  const Tensor x = b->put({3, 4, 5}, Numbers(60, 1)), out = b->unset({3, 4, 5});
  b->ops().dropout(b->stream(), out, x, how);
  Numbers wanted;
  for (std::uint64_t row = 2; row < 5; ++row)
    for (std::uint64_t token = 3; token < 7; ++token)
      for (std::uint64_t feature = 4; feature < 9; ++feature)
        wanted.push_back(uniform_at(17, (row * 10 + token) * 20 + feature) >= 0.5 ? 2 : 0);
  expect_numbers(b->read(out), wanted, 0);
}

// Keys all alike and values that are unit vectors: entry j of an output is the multiplier of key j, divided by the
// keys.
TEST(Golden, AttentionDropoutAddresses) {
  ReferenceBench b;
  constexpr std::int64_t kKeys = 8;
  const Attention how{.rows = 2,
                      .q_tokens = 3,
                      .kv_tokens = kKeys,
                      .groups = 2,
                      .queries = 2,
                      .head = kKeys,
                      .q_width = 2 * kKeys,
                      .kv_width = 2 * kKeys,
                      .q_first = 5,
                      .kv_first = 6,
                      .causal = false,
                      .dropout = 0.5,
                      .key = 23,
                      .first_row = 4,
                      .first_head = 3,
                      .heads_global = 9,
                      .q_global = 11,
                      .kv_global = 15};
  Numbers kv;
  for (std::int64_t row = 0; row < 2 * kKeys * 2; ++row)  // [row, key, group]
    for (std::int64_t d = 0; d < 2 * kKeys; ++d) kv.push_back(d == kKeys + row / 2 % kKeys ? 1 : 0);
  const Tensor q = b->normal({2, 3, 2, 2 * kKeys}), out = b->unset({2, 3, 2, 2 * kKeys}),
               log_sum = b->unset({2, 2, 2, 3});
  b->ops().attention(b->stream(), out, log_sum, q, b->put({2, kKeys, 2, 2 * kKeys}, kv), {}, how);
  Numbers wanted;
  for (std::uint64_t row = 4; row < 6; ++row)
    for (std::uint64_t position = 5; position < 8; ++position)
      for (std::uint64_t head = 3; head < 7; ++head)
        for (std::uint64_t key = 6; key < 6 + kKeys; ++key)
          wanted.push_back(uniform_at(23, ((row * 9 + head) * 11 + position) * 15 + key) >= 0.5 ? 2.0 / kKeys : 0);
  expect_numbers(b->read(out), wanted, 1e-15);
}

TEST(Golden, DropoutKeepsTheMeanAndTheShare) {
  ReferenceBench b;
  const Tensor x = b->put({10, 100, 100}, Numbers(100000, 1.0)), out = b->unset({10, 100, 100});
  b->ops().dropout(b->stream(), out, x, {.probability = 0.25, .key = 3, .tokens = 100, .features = 100});
  double sum = 0, dropped = 0;
  for (const double v : b->read(out)) sum += v, dropped += v == 0;
  EXPECT_NEAR(dropped / 1e5, 0.25, 0.007);  // five deviations of a binomial
  EXPECT_NEAR(sum / 1e5, 1, 0.01);
}

TEST(Golden, StepScalars) {
  ReferenceBench b;
  const Tensor out = b->unset({kStepScalars});
  b->ops().step_scalars(b->stream(), out, b->put({3}, {12, 4, 64}), b->put_wide({2}, {0.5, 3}),
                        1);  // norm of the mean: 8 / 4 = 2, clipped to 1
  expect_numbers(b->read(out), {12, 4, 64, 2, 0.125, 0.5, 1, 3}, 0);
  b->ops().step_scalars(b->stream(), out, b->put({3}, {12, 4, 64}), b->put_wide({2}, {0.5, 3}), 0);
  expect_numbers(b->read(out), {12, 4, 64, 2, 0.25, 0.5, 1, 3}, 0);
  b->ops().step_scalars(b->stream(), out, b->put_wide({3}, {12, 4, INFINITY}), b->put_wide({2}, {0.5, 3}), 1);
  EXPECT_EQ(b->read(out)[kFactor], 0);
  EXPECT_EQ(b->read(out)[kFinite], 0);
  for (const Numbers& bad : {Numbers{NAN, 4, 64}, Numbers{12, 4, NAN}, Numbers{INFINITY, 4, 64}, Numbers{0, 0, 0}}) {
    b->ops().step_scalars(b->stream(), out, b->put_wide({3}, bad), b->put_wide({2}, {0.5, 3}), 1);
    EXPECT_EQ(b->read(out)[kFactor], 0);
    EXPECT_EQ(b->read(out)[kFinite], 0);
    EXPECT_EQ(b->read(out)[kRate], 0.5);
  }
}

// Loshchilov and Hutter 2019, algorithm 2, written once more with other words.
TEST(Golden, AdamWOverThreeSteps) {
  ReferenceBench b;
  const AdamW how{.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.1};
  const Numbers gradients{4, -2, 1};  // sums; the factor makes means of them
  const Tensor value = b->put({1}, {1}), m = b->put({1}, {0}), v = b->put({1}, {0});
  long double x = 1, mean = 0, square = 0;
  for (int t = 1; t <= 3; ++t) {
    Numbers scalars(kStepScalars, 0.0);
    scalars[kFactor] = 0.5, scalars[kRate] = 0.01, scalars[kFinite] = 1, scalars[kStep] = t;
    b->ops().adamw(b->stream(), value, b->put({1}, {gradients[static_cast<std::size_t>(t - 1)]}), m, v,
                   b->put_wide({kStepScalars}, scalars), how);
    const long double g = 0.5L * gradients[static_cast<std::size_t>(t - 1)];
    mean += (1 - 0.9L) * (g - mean);
    square += (1 - 0.99L) * (g * g - square);
    const long double unbiased_mean = mean / (1 - std::pow(0.9L, t)),
                      unbiased_square = square / (1 - std::pow(0.99L, t));
    x = x * (1 - 0.01L * 0.1L) - 0.01L * unbiased_mean / (std::sqrt(unbiased_square) + 1e-6L);
    EXPECT_NEAR(b->read(value)[0], static_cast<double>(x), 1e-14) << t;
  }
}

TEST(Golden, SgdMomentumTwoSteps) {
  ReferenceBench b;
  Numbers scalars(kStepScalars, 0.0);
  scalars[kFactor] = 0.5, scalars[kRate] = 0.25, scalars[kFinite] = 1, scalars[kStep] = 1;
  const Tensor step = b->put_wide({kStepScalars}, scalars), g = b->put({1}, {2});
  const Tensor plain = b->put({1}, {1}), heavy = b->put({1}, {1}), nesterov = b->put({1}, {1}), v1 = b->put({1}, {0}),
               v2 = b->put({1}, {0});
  for (int i = 0; i < 2; ++i) {
    b->ops().sgd_momentum(b->stream(), plain, g, {}, step, {});
    b->ops().sgd_momentum(b->stream(), heavy, g, v1, step, {.momentum = 0.5});
    b->ops().sgd_momentum(b->stream(), nesterov, g, v2, step, {.momentum = 0.5, .nesterov = true});
  }
  EXPECT_EQ(b->read(plain)[0], 0.5);        // 1 - 2·¼
  EXPECT_EQ(b->read(heavy)[0], 0.375);      // velocities 1, 1.5
  EXPECT_EQ(b->read(nesterov)[0], 0.1875);  // moves by 1.5, 1.75
}

}  // namespace
}  // namespace quadrille
