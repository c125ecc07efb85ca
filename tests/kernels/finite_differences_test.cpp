// SPDX-License-Identifier: Apache-2.0
// The judge is judged: every backward op of the reference against central differences of its forward op, in f64. For
// outputs y(x) and random weights w, the gradient of Σ w·y must be what the backward op gives for dy = w.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/kernels/differences.h"

namespace quadrille {
namespace {

TEST(FiniteDifferences, Matmul) {  // da = dy bᵀ, db = aᵀ dy, dbias = Σ dy: the tape's use of the products
  ReferenceBench b(1);
  const Tensor x = b->normal({3, 4}), w = b->normal({4, 5}), bias = b->normal({5}), y = b->unset({3, 5}),
               dy = b->normal({3, 5});
  const auto loss = [&] {
    b->ops().matmul(b->stream(), y, x, w, bias, {});
    return weighed(*b, y, dy);
  };
  const Tensor dx = b->unset({3, 4}), dw = b->unset({4, 5}), dbias = b->unset({5});
  b->ops().matmul(b->stream(), dx, dy, w, {}, {.b = Transpose::yes});
  b->ops().matmul(b->stream(), dw, x, dy, {}, {.a = Transpose::yes});
  b->ops().sum_rows(b->stream(), dbias, dy, Write::replace);
  expect_gradient("x", x, b->read(dx), loss);
  expect_gradient("w", w, b->read(dw), loss);
  expect_gradient("bias", bias, b->read(dbias), loss);
}

TEST(FiniteDifferences, Gelu) {
  ReferenceBench b(2);
  const Tensor x = b->normal({40}, 2), y = b->unset({40}), dy = b->normal({40}), dx = b->unset({40});
  b->ops().gelu_backward(b->stream(), dx, dy, x);
  expect_gradient("x", x, b->read(dx), [&] {
    b->ops().gelu(b->stream(), y, x);
    return weighed(*b, y, dy);
  });
}

TEST(FiniteDifferences, Relu) {
  ReferenceBench b(2);
  const Tensor x = b->normal({40}, 2), y = b->unset({40}), dy = b->normal({40}), dx = b->unset({40});
  b->ops().relu(b->stream(), y, x);
  b->ops().relu_backward(b->stream(), dx, dy, y);
  expect_gradient("x", x, b->read(dx), [&] {
    b->ops().relu(b->stream(), y, x);
    return weighed(*b, y, dy);
  });
}

TEST(FiniteDifferences, Sinusoids) {  // backward: without amplitude
  ReferenceBench b(6);
  const Sinusoids how{.factor = 2.5, .first_token = 3, .first_feature = 1, .features = 6};
  Sinusoids back = how;
  back.amplitude = 0;
  const Shape shape{2, 3, 5};
  const Tensor x = b->normal(shape), y = b->unset(shape), dy = b->normal(shape), dx = b->unset(shape);
  b->ops().sinusoids(b->stream(), dx, dy, back);
  expect_gradient("x", x, b->read(dx), [&] {
    b->ops().sinusoids(b->stream(), y, x, how);
    return weighed(*b, y, dy);
  });
}

TEST(FiniteDifferences, Tanh) {
  ReferenceBench b(2);
  const Tensor x = b->normal({40}, 2), y = b->unset({40}), dy = b->normal({40}), dx = b->unset({40});
  b->ops().tanh(b->stream(), y, x);
  b->ops().tanh_backward(b->stream(), dx, dy, y);
  expect_gradient("x", x, b->read(dx), [&] {
    b->ops().tanh(b->stream(), y, x);
    return weighed(*b, y, dy);
  });
}

TEST(FiniteDifferences, GatedSilu) {
  ReferenceBench b(3);
  const Tensor gate = b->normal({40}, 2), up = b->normal({40}), y = b->unset({40}), dy = b->normal({40});
  const Tensor dgate = b->unset({40}), dup = b->unset({40});
  const auto loss = [&] {
    b->ops().gated_silu(b->stream(), y, gate, up);
    return weighed(*b, y, dy);
  };
  b->ops().gated_silu_backward(b->stream(), dgate, dup, dy, gate, up);
  expect_gradient("gate", gate, b->read(dgate), loss);
  expect_gradient("up", up, b->read(dup), loss);
}

TEST(FiniteDifferences, Dropout) {  // its own backward
  ReferenceBench b(4);
  const Dropout how{.probability = 0.4, .key = 5, .first_row = 1, .tokens = 3, .features = 5};
  const Shape shape{2, 3, 5};
  const Tensor x = b->normal(shape), y = b->unset(shape), dy = b->normal(shape), dx = b->unset(shape);
  b->ops().dropout(b->stream(), dx, dy, how);
  expect_gradient("x", x, b->read(dx), [&] {
    b->ops().dropout(b->stream(), y, x, how);
    return weighed(*b, y, dy);
  });
}

// One rank's part of split rows, or whole rows when there is one part. Sums of all parts are added, as ranks would.
struct NormPart {
  Tensor x, gain, bias, y, dy;
};

class NormOfParts {
 public:
  NormOfParts(NormKind kind, const std::vector<std::int64_t>& columns) : bench_(6), how_{kind, 1e-3, 0} {
    for (const std::int64_t c : columns) {
      how_.width += c;
      parts_.push_back({bench_->normal({kRows, c}, 1, 0.5), bench_->normal({c}),
                        kind == NormKind::layer ? bench_->normal({c}) : Tensor(), bench_->unset({kRows, c}),
                        bench_->normal({kRows, c})});
    }
  }

  void check() {
    Bench& b = *bench_;
    const Tensor forward = forward_sums();
    const Tensor backward = summed([&](const NormPart& p, const Tensor& sums) {
      b.ops().norm_backward_sums(b.stream(), sums, p.dy, p.x, forward, p.gain, how_);
    });
    for (const NormPart& p : parts_) {
      const Tensor dx = b.unset(p.x.shape()), dgain = zeros(p.gain.shape()),
                   dbias = p.bias ? zeros(p.bias.shape()) : Tensor();
      b.ops().norm_backward(b.stream(), dx, p.dy, p.x, forward, backward, p.gain, how_, Write::replace);
      b.ops().norm_backward_parameters(b.stream(), dgain, dbias, p.dy, p.x, forward, how_);
      expect_gradient("x", p.x, b.read(dx), [&] { return loss(); });
      expect_gradient("gain", p.gain, b.read(dgain), [&] { return loss(); });
      if (p.bias) expect_gradient("bias", p.bias, b.read(dbias), [&] { return loss(); });
    }
  }

 private:
  static constexpr std::int64_t kRows = 3;
  Tensor zeros(const Shape& shape) { return bench_->put(shape, Numbers(static_cast<std::size_t>(shape.count()), 0.0)); }
  Tensor summed(const std::function<void(const NormPart&, const Tensor&)>& sums_of) {
    Numbers total(2 * kRows, 0.0);
    for (const NormPart& p : parts_) {
      const Tensor sums = bench_->unset({kRows, 2});
      sums_of(p, sums);
      const Numbers mine = bench_->read(sums);
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += mine[i];
    }
    return bench_->put_wide({kRows, 2}, total);
  }
  Tensor forward_sums() {
    return summed([&](const NormPart& p, const Tensor& sums) { bench_->ops().norm_sums(bench_->stream(), sums, p.x); });
  }
  double loss() {
    const Tensor sums = forward_sums();
    double total = 0;
    for (const NormPart& p : parts_) {
      bench_->ops().norm(bench_->stream(), p.y, p.x, sums, p.gain, p.bias, how_);
      total += weighed(*bench_, p.y, p.dy);
    }
    return total;
  }

  ReferenceBench bench_;
  Norm how_;
  std::vector<NormPart> parts_;
};

TEST(FiniteDifferences, LayerNorm) { NormOfParts(NormKind::layer, {9}).check(); }
TEST(FiniteDifferences, LayerNormSplit) { NormOfParts(NormKind::layer, {5, 4, 3}).check(); }
TEST(FiniteDifferences, RmsNorm) { NormOfParts(NormKind::rms, {9}).check(); }
TEST(FiniteDifferences, RmsNormSplit) { NormOfParts(NormKind::rms, {5, 4, 3}).check(); }

TEST(FiniteDifferences, Embedding) {
  ReferenceBench b(7);
  const Tensor table = b->normal({4, 3}), ids = b->put_ids({7}, {2, 3, 4, 5, 5, 9, -1}), y = b->unset({7, 3}),
               dy = b->normal({7, 3});
  const Tensor dtable = b->put({4, 3}, Numbers(12, 0.0));
  b->ops().embedding_backward(b->stream(), dtable, dy, ids, 2);
  expect_gradient("table", table, b->read(dtable), [&] {
    b->ops().embedding(b->stream(), y, table, ids, 2);
    return weighed(*b, y, dy);
  });
}

void check_attention_gradient(const Attention& how, bool packed) {
  ReferenceBench b(8);
  const Shape q_shape{how.rows, how.q_tokens, how.groups, how.q_width},
      kv_shape{how.rows, how.kv_tokens, how.groups, how.kv_width};
  const Shape out_shape{how.rows, how.q_tokens, how.groups, how.queries * how.head};
  const Tensor q = b->normal(q_shape), kv = packed ? q : b->normal(kv_shape), out = b->unset(out_shape),
               dout = b->normal(out_shape);
  const Tensor log_sum = b->unset({how.rows, how.groups, how.queries, how.q_tokens});
  const auto loss = [&] {
    b->ops().attention(b->stream(), out, log_sum, q, kv, {}, how);
    return weighed(*b, out, dout);
  };
  loss();
  const Tensor dq = b->unset(q_shape), dkv = packed ? dq : b->unset(kv_shape);
  b->ops().attention_backward(b->stream(), dq, dkv, dout, out, log_sum, q, kv, {}, how);
  expect_gradient("q", q, b->read(dq), loss);
  if (!packed) expect_gradient("kv", kv, b->read(dkv), loss);
}

Attention packed_attention() {
  return {.rows = 2,
          .q_tokens = 5,
          .kv_tokens = 5,
          .groups = 2,
          .queries = 2,
          .head = 3,
          .q_width = 12,
          .kv_width = 12,
          .kv_offset = 6,
          .scale = 0.6};
}
Attention attention_apart() {
  return {.rows = 2,
          .q_tokens = 4,
          .kv_tokens = 7,
          .groups = 2,
          .queries = 3,
          .head = 2,
          .q_width = 6,
          .kv_width = 4,
          .scale = 0.7};
}
void drop_some(Attention& how) {
  how.dropout = 0.3, how.key = 11, how.first_row = 1, how.first_head = 2, how.heads_global = 12, how.q_global = 20,
  how.kv_global = 20;
}

TEST(FiniteDifferences, AttentionPackedCausalGrouped) { check_attention_gradient(packed_attention(), true); }
TEST(FiniteDifferences, AttentionPackedFull) {
  Attention how = packed_attention();
  how.causal = false;
  check_attention_gradient(how, true);
}
TEST(FiniteDifferences, AttentionPackedDropout) {
  Attention how = packed_attention();
  drop_some(how);
  check_attention_gradient(how, true);
}
TEST(FiniteDifferences, AttentionApartCausalLaterQueries) {
  Attention how = attention_apart();
  how.q_first = 3, how.kv_first = 1;
  check_attention_gradient(how, false);
}
TEST(FiniteDifferences, AttentionApartFullDropout) {
  Attention how = attention_apart();
  how.causal = false;
  drop_some(how);
  check_attention_gradient(how, false);
}
TEST(FiniteDifferences, AttentionWhereSomeQueriesSeeNothing) {
  Attention how = attention_apart();
  how.kv_first = 2;
  check_attention_gradient(how, false);
}

// Keys in two blocks, as they come round a ring: parts are merged forward; backward each block alone with the merged
// output and log-sums.
TEST(FiniteDifferences, AttentionOfMergedBlocksOfKeys) {
  ReferenceBench b(10);
  Attention near = attention_apart(), far = near;
  near.q_first = far.q_first = 2, near.q_jump = far.q_jump = {2, 5};
  far.kv_first = 3, far.kv_jump = {4, 2}, near.kv_tokens = 3;
  drop_some(near), drop_some(far);
  const Shape q_shape{2, 4, 2, 6}, out_shape = q_shape, sum_shape{2, 2, 3, 4};
  const Tensor q = b->normal(q_shape), keys[] = {b->normal({2, 3, 2, 4}), b->normal({2, 7, 2, 4})};
  const Tensor out = b->unset(out_shape), log_sum = b->unset(sum_shape), part_out = b->unset(out_shape),
               part_log_sum = b->unset(sum_shape), dout = b->normal(out_shape);
  const auto loss = [&] {
    b->ops().attention(b->stream(), out, log_sum, q, keys[0], {}, near);
    b->ops().attention(b->stream(), part_out, part_log_sum, q, keys[1], {}, far);
    b->ops().attention_merge(b->stream(), out, log_sum, part_out, part_log_sum);
    return weighed(*b, out, dout);
  };
  loss();
  const Tensor dq = b->unset(q_shape), part_dq = b->unset(q_shape),
               dkeys[] = {b->unset({2, 3, 2, 4}), b->unset({2, 7, 2, 4})};
  b->ops().attention_backward(b->stream(), dq, dkeys[0], dout, out, log_sum, q, keys[0], {}, near);
  b->ops().attention_backward(b->stream(), part_dq, dkeys[1], dout, out, log_sum, q, keys[1], {}, far);
  b->ops().add(b->stream(), dq, dq, part_dq);
  expect_gradient("q", q, b->read(dq), loss);
  expect_gradient("near keys", keys[0], b->read(dkeys[0]), loss);
  expect_gradient("far keys", keys[1], b->read(dkeys[1]), loss);
}

TEST(FiniteDifferences, RotaryInverse) {
  ReferenceBench b(9);
  Rotary how{.rows = 2, .tokens = 3, .groups = 2, .width = 16, .heads = 3, .head = 4, .first_token = 5};
  const Shape shape{2, 3, 2, 16};
  const Tensor x = b->normal(shape), y = b->unset(shape), dy = b->normal(shape), dx = b->unset(shape);
  Rotary back = how;
  back.inverse = true;
  b->ops().rotary(b->stream(), dx, dy, back);
  expect_gradient("x", x, b->read(dx), [&] {
    b->ops().rotary(b->stream(), y, x, how);
    return weighed(*b, y, dy);
  });
}

// The vocabulary in parts, with maxima and sums joined as ranks would.
void check_cross_entropy(const std::vector<std::int64_t>& parts, double smoothing) {
  ReferenceBench b(10);
  constexpr std::int64_t kRows = 4;
  std::vector<Tensor> logits;
  std::vector<CrossEntropy> hows;
  std::int64_t words = 0;
  for (const std::int64_t held : parts) {
    logits.push_back(b->normal({kRows, held}));
    hows.push_back({.first_word = words, .smoothing = smoothing});
    words += held;
  }
  for (CrossEntropy& how : hows) how.words = words;
  const Tensor labels = b->put_ids({kRows}, {0, static_cast<std::int32_t>(words - 1), -1, 2});
  Tensor max, sums;
  const auto loss = [&] {
    Numbers joined_max(kRows, -INFINITY), joined_sums(3 * kRows, 0.0);
    const Tensor mine = b->unset({kRows}), my_sums = b->unset({kRows, 3});
    for (const Tensor& l : logits) {
      b->ops().cross_entropy_max(b->stream(), mine, l);
      for (std::size_t i = 0; i < kRows; ++i) joined_max[i] = std::max(joined_max[i], b->read(mine)[i]);
    }
    max = b->put_wide({kRows}, joined_max);
    for (std::size_t p = 0; p < logits.size(); ++p) {
      b->ops().cross_entropy_sums(b->stream(), my_sums, logits[p], max, labels, hows[p]);
      for (std::size_t i = 0; i < 3 * kRows; ++i) joined_sums[i] += b->read(my_sums)[i];
    }
    sums = b->put_wide({kRows, 3}, joined_sums);
    const Tensor total = b->put_wide({2}, {0, 0});
    b->ops().cross_entropy_loss(b->stream(), total, sums, max, labels, hows[0]);
    EXPECT_EQ(b->read(total)[1], 3);
    return b->read(total)[0];
  };
  loss();
  const Tensor true_max = max, true_sums = sums;
  for (std::size_t p = 0; p < logits.size(); ++p) {
    const Tensor dlogits = b->unset(logits[p].shape());
    b->ops().cross_entropy_backward(b->stream(), dlogits, logits[p], true_max, true_sums, labels, {}, hows[p]);
    expect_gradient("logits", logits[p], b->read(dlogits), loss);
  }
}

TEST(FiniteDifferences, CrossEntropy) { check_cross_entropy({7}, 0); }
TEST(FiniteDifferences, CrossEntropySmoothed) { check_cross_entropy({7}, 0.15); }
TEST(FiniteDifferences, CrossEntropySplit) { check_cross_entropy({3, 2, 2}, 0); }
TEST(FiniteDifferences, CrossEntropySplitSmoothed) { check_cross_entropy({3, 2, 2}, 0.15); }

}  // namespace
}  // namespace quadrille
