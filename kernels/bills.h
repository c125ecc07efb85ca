// SPDX-License-Identifier: Apache-2.0
// What each op costs, as a formula of shapes: the one place from which all back ends take their bills, so that the
// counting run forecasts a real one exactly. FLOPs are those of matrix products, 2 per multiply-add. Bytes: each input
// read once, each output written once, what is added to also read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "kernels/ops.h"

namespace quadrille {

// An operand that may be absent counts as nothing.
inline double bytes_of(std::initializer_list<const Tensor*> tensors) {
  double sum = 0;
  for (const Tensor* t : tensors)
    if (*t) sum += static_cast<double>(t->bytes());
  return sum;
}
inline Cost traffic(double bytes) { return {.flops = 0, .skipped = 0, .recomputed = 0, .bytes = bytes}; }
inline double times(Write write) { return write == Write::accumulate ? 2 : 1; }  // an output added to is read as well

inline Cost bill_matmul(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias, const Matmul& how) {
  const int last = a.shape().rank() - 1;
  const std::int64_t k = how.a == Transpose::no ? a.shape()[last] : a.shape().count(0, last);
  return {.flops = 2.0 * static_cast<double>(out.count()) * static_cast<double>(k),
          .skipped = 0,
          .recomputed = 0,
          .bytes = bytes_of({&a, &b, &bias}) + times(how.write) * bytes_of({&out})};
}

inline Cost bill_convert(const Tensor& out, const Tensor& in) { return traffic(bytes_of({&out, &in})); }
inline Cost bill_add(const Tensor& out, const Tensor& a, const Tensor& b) { return traffic(bytes_of({&out, &a, &b})); }
inline Cost bill_add_bias(const Tensor& out, const Tensor& x, const Tensor& bias) {
  return traffic(bytes_of({&out, &x, &bias}));
}
inline Cost bill_sum_rows(const Tensor& out, const Tensor& x, Write write) {
  return traffic(bytes_of({&x}) + times(write) * bytes_of({&out}));
}
inline Cost bill_gelu(const Tensor& out, const Tensor& x) { return traffic(bytes_of({&out, &x})); }
inline Cost bill_relu(const Tensor& out, const Tensor& x) { return traffic(bytes_of({&out, &x})); }
inline Cost bill_gelu_backward(const Tensor& dx, const Tensor& dy, const Tensor& x) {
  return traffic(bytes_of({&dx, &dy, &x}));
}
inline Cost bill_tanh(const Tensor& out, const Tensor& x) { return traffic(bytes_of({&out, &x})); }
inline Cost bill_tanh_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) {
  return traffic(bytes_of({&dx, &dy, &y}));
}
inline Cost bill_gated_silu(const Tensor& out, const Tensor& gate, const Tensor& up) {
  return traffic(bytes_of({&out, &gate, &up}));
}
inline Cost bill_gated_silu_backward(const Tensor& dgate, const Tensor& dup, const Tensor& dy, const Tensor& gate,
                                     const Tensor& up) {
  return traffic(bytes_of({&dgate, &dup, &dy, &gate, &up}));
}
inline Cost bill_dropout(const Tensor& out, const Tensor& x) { return traffic(bytes_of({&out, &x})); }

inline Cost bill_positions(const Tensor& ids) { return traffic(bytes_of({&ids})); }
inline Cost bill_sinusoids(const Tensor& out, const Tensor& x) { return traffic(bytes_of({&out, &x})); }
inline Cost bill_row_lengths(const Tensor& lengths, const Tensor& ids) { return traffic(bytes_of({&lengths, &ids})); }
inline Cost bill_rows_of_places(const Tensor& rows, const Tensor& places) {
  return traffic(bytes_of({&rows, &places}));
}

inline Cost bill_norm_sums(const Tensor& sums, const Tensor& x) { return traffic(bytes_of({&sums, &x})); }
inline Cost bill_norm(const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain, const Tensor& bias) {
  return traffic(bytes_of({&out, &x, &sums, &gain, &bias}));
}
inline Cost bill_norm_backward_sums(const Tensor& sums, const Tensor& dy, const Tensor& x, const Tensor& forward_sums,
                                    const Tensor& gain) {
  return traffic(bytes_of({&sums, &dy, &x, &forward_sums, &gain}));
}
inline Cost bill_norm_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& forward_sums,
                               const Tensor& backward_sums, const Tensor& gain, Write write) {
  return traffic(bytes_of({&dy, &x, &forward_sums, &backward_sums, &gain}) + times(write) * bytes_of({&dx}));
}
inline Cost bill_norm_backward_parameters(const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                                          const Tensor& forward_sums) {
  return traffic(bytes_of({&dy, &x, &forward_sums}) + 2 * bytes_of({&dgain, &dbias}));
}

// Of the table only the rows asked for move, at most one per id and at most all.
inline double table_rows_bytes(const Tensor& table, const Tensor& ids) {
  const std::int64_t rows = std::min(table.shape()[0], ids.count());
  return static_cast<double>(rows * table.shape()[1] * size_of(table.dtype()));
}
inline Cost bill_embedding(const Tensor& out, const Tensor& table, const Tensor& ids) {
  return traffic(bytes_of({&out, &ids}) + table_rows_bytes(table, ids));
}
inline Cost bill_embedding_backward(const Tensor& dtable, const Tensor& dout, const Tensor& ids) {
  return traffic(bytes_of({&dout, &ids}) + 2 * table_rows_bytes(dtable, ids));
}

constexpr std::int64_t kWholeLength = std::numeric_limits<std::int64_t>::max() / 2;  // of a row without padding
// How many keys, from the first on, the query token at `token` of this call may see; keys from position `length` on are
// padding.
constexpr std::int64_t visible_keys(const Attention& how, std::int64_t token, std::int64_t length = kWholeLength) {
  const std::int64_t end = how.causal ? std::min(length, position_of(how.q_first, how.q_jump, token) + 1) : length;
  const std::int64_t seen = end - how.kv_first;
  const std::int64_t before = std::min(how.kv_jump.after, how.kv_tokens);  // keys before their jump
  return std::clamp<std::int64_t>(seen, 0, before) +
         std::clamp<std::int64_t>(seen - how.kv_jump.by - before, 0, how.kv_tokens - before);
}
// The reverse: the first query token of this causal call that sees key `key`; q_tokens or more when none does.
constexpr std::int64_t first_seeing(const Attention& how, std::int64_t key) {
  const std::int64_t token = position_of(how.kv_first, how.kv_jump, key) - how.q_first;
  if (token < how.q_jump.after) return std::max<std::int64_t>(token, 0);
  return std::max(token - how.q_jump.by, how.q_jump.after);
}
// (query, key) pairs of one head and row that are computed when query tokens are taken `block` at a time and each block
// is multiplied with all keys that its last query sees (no rounding of keys). Block 1: exactly the causal half.
inline double attention_pairs(const Attention& how, std::int64_t block) {
  double pairs = 0;
  for (std::int64_t t = 0; t < how.q_tokens; t += block) {
    const std::int64_t end = std::min(t + block, how.q_tokens);
    pairs += static_cast<double>((end - t) * visible_keys(how, end - 1));
  }
  return pairs;
}
// `products` of the full formula and `rebuilt` more, each of 2·head FLOPs per pair and head.
inline Cost attention_flops(const Attention& how, std::int64_t block, int products, int rebuilt) {
  const double per_pair = 2.0 * static_cast<double>(how.head * how.rows * how.groups * how.queries);
  const double pairs = attention_pairs(how, block);
  const double full = static_cast<double>(how.q_tokens) * static_cast<double>(how.kv_tokens);
  return {.flops = (products + rebuilt) * pairs * per_pair,
          .skipped = products * (full - pairs) * per_pair,
          .recomputed = rebuilt * pairs * per_pair,
          .bytes = 0};
}
// q and kv may be one tensor, which is then read once.
inline double attention_inputs(const Tensor& q, const Tensor& kv) {
  return q.same_place(kv) ? bytes_of({&q}) : bytes_of({&q, &kv});
}
// Q Kᵀ and P V.
inline Cost bill_attention(const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                           const Attention& how, std::int64_t block) {
  Cost cost = attention_flops(how, block, 2, 0);
  cost.bytes = bytes_of({&out, &log_sum}) + attention_inputs(q, kv);
  return cost;
}
// What of attention's cost depends on the back end.
struct AttentionBilling {
  std::int64_t block = 1;  // query tokens that are taken at once
  // How many of the forward's two products, and of the gradients' shared one, the backward pass makes once more for
  // these operands; null: one, the scores.
  int (*rebuilt)(const Tensor& q, const Tensor& lengths, const Attention&) = nullptr;
  int products_rebuilt(const Tensor& q, const Tensor& lengths, const Attention& how) const {
    return rebuilt ? rebuilt(q, lengths, how) : 1;
  }
};
// dV, dP, dQ, dK, and `rebuilt` products more: at least the scores, of which the forward pass leaves only log-sums.
inline Cost bill_attention_backward(const Tensor& dq, const Tensor& dkv, const Tensor& dout, const Tensor& out,
                                    const Tensor& log_sum, const Tensor& q, const Tensor& kv, const Attention& how,
                                    std::int64_t block, int rebuilt = 1) {
  Cost cost = attention_flops(how, block, 4, rebuilt);
  cost.bytes = bytes_of({&dout, &out, &log_sum}) + attention_inputs(q, kv) + attention_inputs(dq, dkv);
  return cost;
}
inline Cost bill_attention_merge(const Tensor& out, const Tensor& log_sum, const Tensor& part_out,
                                 const Tensor& part_log_sum) {
  return traffic(2 * bytes_of({&out, &log_sum}) + bytes_of({&part_out, &part_log_sum}));
}
inline Cost bill_rotary(const Tensor& out, const Tensor& x) { return traffic(bytes_of({&out, &x})); }

inline Cost bill_cross_entropy_max(const Tensor& max, const Tensor& logits) {
  return traffic(bytes_of({&max, &logits}));
}
inline Cost bill_cross_entropy_sums(const Tensor& sums, const Tensor& logits, const Tensor& max, const Tensor& labels) {
  return traffic(bytes_of({&sums, &logits, &max, &labels}));
}
inline Cost bill_cross_entropy_loss(const Tensor& loss, const Tensor& sums, const Tensor& max, const Tensor& labels) {
  return traffic(2 * bytes_of({&loss}) + bytes_of({&sums, &max, &labels}));
}
inline Cost bill_label_matches(const Tensor& matches, const Tensor& logits, const Tensor& max, const Tensor& labels) {
  return traffic(bytes_of({&matches, &logits, &max, &labels}));
}
inline Cost bill_count_correct(const Tensor& correct, const Tensor& matches, const Tensor& labels) {
  return traffic(2 * bytes_of({&correct}) + bytes_of({&matches, &labels}));
}
inline Cost bill_cross_entropy_backward(const Tensor& dlogits, const Tensor& logits, const Tensor& max,
                                        const Tensor& sums, const Tensor& labels, const Tensor& counts) {
  return traffic(bytes_of({&dlogits, &logits, &max, &sums, &labels, &counts}));
}

// Every output pixel and channel has a window of products.
inline double conv_flops(const Tensor& out, const Tensor& w) {
  return 2.0 * static_cast<double>(out.count()) * static_cast<double>(w.shape().count(0, w.shape().rank() - 1));
}
inline Cost bill_conv(const Tensor& out, const Tensor& x, const Tensor& w, const Conv&) {
  return {.flops = conv_flops(out, w), .skipped = 0, .recomputed = 0, .bytes = bytes_of({&out, &x, &w})};
}
inline Cost bill_conv_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w, const Conv&, Write write) {
  return {.flops = conv_flops(dy, w),
          .skipped = 0,
          .recomputed = 0,
          .bytes = bytes_of({&dy, &w}) + times(write) * bytes_of({&dx})};
}
inline Cost bill_conv_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x, const Conv&, Write write) {
  return {.flops = conv_flops(dy, dw),
          .skipped = 0,
          .recomputed = 0,
          .bytes = bytes_of({&dy, &x}) + times(write) * bytes_of({&dw})};
}
inline Cost bill_channel_sums(const Tensor& sums, const Tensor& x) { return traffic(bytes_of({&sums, &x})); }
inline Cost bill_batch_norm(const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
                            const Tensor& bias) {
  return traffic(bytes_of({&out, &x, &sums, &gain, &bias}));
}
inline Cost bill_batch_norm_backward_sums(const Tensor& backward_sums, const Tensor& dy, const Tensor& x,
                                          const Tensor& out, const Tensor& sums) {
  return traffic(bytes_of({&backward_sums, &dy, &x, &out, &sums}));
}
inline Cost bill_batch_norm_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& out,
                                     const Tensor& sums, const Tensor& backward_sums, const Tensor& gain, Write write) {
  return traffic(bytes_of({&dy, &x, &out, &sums, &backward_sums, &gain}) + times(write) * bytes_of({&dx}));
}
inline Cost bill_batch_norm_backward_parameters(const Tensor& dgain, const Tensor& dbias, const Tensor& backward_sums) {
  return traffic(bytes_of({&backward_sums}) + 2 * bytes_of({&dgain, &dbias}));
}
inline Cost bill_update_averages(const Tensor& averages, const Tensor& sums) {
  return traffic(2 * bytes_of({&averages}) + bytes_of({&sums}));
}
inline Cost bill_sums_of_averages(const Tensor& sums, const Tensor& averages) {
  return traffic(bytes_of({&sums, &averages}));
}
inline Cost bill_add_relu(const Tensor& out, const Tensor& a, const Tensor& b) {
  return traffic(bytes_of({&out, &a, &b}));
}
inline Cost bill_relu_backward(const Tensor& dx, const Tensor& dy, const Tensor& out) {
  return traffic(bytes_of({&dx, &dy, &out}));
}
inline Cost bill_max_pool(const Tensor& out, const Tensor& x) { return traffic(bytes_of({&out, &x})); }
inline Cost bill_max_pool_backward(const Tensor& dx, const Tensor& dy, const Tensor& x) {
  return traffic(bytes_of({&dx, &dy, &x}));
}
inline Cost bill_sum_pixels(const Tensor& out, const Tensor& x) { return traffic(bytes_of({&out, &x})); }
inline Cost bill_spread_pixels(const Tensor& dx, const Tensor& dy) { return traffic(bytes_of({&dx, &dy})); }

inline Cost bill_move_block(const Tensor& out, const BlockMove& how) {
  const double moved = static_cast<double>(how.outer * how.rows * how.inner * size_of(out.dtype()));
  return traffic(moved + times(how.write) * moved);
}

inline Cost bill_sum_of_squares(const Tensor& sum, const Tensor& x) {
  return traffic(2 * bytes_of({&sum}) + bytes_of({&x}));
}
inline Cost bill_step_scalars(const Tensor& scalars, const Tensor& totals, const Tensor& settings) {
  return traffic(bytes_of({&scalars, &totals, &settings}));
}
inline Cost bill_adamw(const Tensor& values, const Tensor& gradients, const Tensor& first_moment,
                       const Tensor& second_moment, const Tensor& scalars) {
  return traffic(2 * bytes_of({&values, &first_moment, &second_moment}) + bytes_of({&gradients, &scalars}));
}
inline Cost bill_sgd_momentum(const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                              const Tensor& scalars) {
  return traffic(2 * bytes_of({&values, &velocity}) + bytes_of({&gradients, &scalars}));
}
inline Cost bill_lars(const Tensor& values, const Tensor& gradients, const Tensor& velocity, const Tensor& norms,
                      const Tensor& scalars) {
  return traffic(2 * bytes_of({&values, &velocity}) + bytes_of({&gradients, &norms, &scalars}));
}
inline Cost bill_lamb_moments(const Tensor& squares, const Tensor& values, const Tensor& gradients,
                              const Tensor& first_moment, const Tensor& second_moment, const Tensor& scalars) {
  return traffic(2 * bytes_of({&squares, &first_moment, &second_moment}) + bytes_of({&values, &gradients, &scalars}));
}
inline Cost bill_lamb_step(const Tensor& values, const Tensor& first_moment, const Tensor& second_moment,
                           const Tensor& norms, const Tensor& scalars) {
  return traffic(2 * bytes_of({&values}) + bytes_of({&first_moment, &second_moment, &norms, &scalars}));
}

}  // namespace quadrille
