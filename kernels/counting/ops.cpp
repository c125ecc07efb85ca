// SPDX-License-Identifier: Apache-2.0
#include "kernels/counting/ops.h"

#include "core/error.h"
#include "kernels/backend.h"
#include "kernels/bills.h"
#include "kernels/checks.h"

namespace quadrille {

CountingOps::CountingOps(const AttentionBilling& attention) : attention_(attention) {
  require(attention.block > 0, "counting: an attention block of {} query tokens, wanted at least 1", attention.block);
}

Cost CountingOps::convert(Stream& stream, const Tensor& out, const Tensor& in) const {
  check_convert(stream, out, in);
  return bill_convert(out, in);
}

Cost CountingOps::matmul(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                         const Matmul& how) const {
  check_matmul(stream, out, a, b, bias, how);
  return bill_matmul(out, a, b, bias, how);
}

Cost CountingOps::add(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) const {
  check_add(stream, out, a, b);
  return bill_add(out, a, b);
}

Cost CountingOps::add_bias(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& bias) const {
  check_add_bias(stream, out, x, bias);
  return bill_add_bias(out, x, bias);
}

Cost CountingOps::sum_rows(Stream& stream, const Tensor& out, const Tensor& x, Write write) const {
  check_sum_rows(stream, out, x);
  return bill_sum_rows(out, x, write);
}

Cost CountingOps::gelu(Stream& stream, const Tensor& out, const Tensor& x) const {
  check_gelu(stream, out, x);
  return bill_gelu(out, x);
}

Cost CountingOps::relu(Stream& stream, const Tensor& out, const Tensor& x) const {
  check_relu(stream, out, x);
  return bill_relu(out, x);
}

Cost CountingOps::gelu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x) const {
  check_gelu_backward(stream, dx, dy, x);
  return bill_gelu_backward(dx, dy, x);
}

Cost CountingOps::tanh(Stream& stream, const Tensor& out, const Tensor& x) const {
  check_tanh(stream, out, x);
  return bill_tanh(out, x);
}

Cost CountingOps::tanh_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y) const {
  check_tanh_backward(stream, dx, dy, y);
  return bill_tanh_backward(dx, dy, y);
}

Cost CountingOps::gated_silu(Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up) const {
  check_gated_silu(stream, out, gate, up);
  return bill_gated_silu(out, gate, up);
}

Cost CountingOps::gated_silu_backward(Stream& stream, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                                      const Tensor& gate, const Tensor& up) const {
  check_gated_silu_backward(stream, dgate, dup, dy, gate, up);
  return bill_gated_silu_backward(dgate, dup, dy, gate, up);
}

Cost CountingOps::dropout(Stream& stream, const Tensor& out, const Tensor& x, const Dropout& how) const {
  check_dropout(stream, out, x, how);
  return bill_dropout(out, x);
}

Cost CountingOps::norm_sums(Stream& stream, const Tensor& sums, const Tensor& x) const {
  check_norm_sums(stream, sums, x);
  return bill_norm_sums(sums, x);
}

Cost CountingOps::norm(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
                       const Tensor& bias, const Norm& how) const {
  check_norm(stream, out, x, sums, gain, bias, how);
  return bill_norm(out, x, sums, gain, bias);
}

Cost CountingOps::norm_backward_sums(Stream& stream, const Tensor& sums, const Tensor& dy, const Tensor& x,
                                     const Tensor& forward_sums, const Tensor& gain, const Norm& how) const {
  check_norm_backward_sums(stream, sums, dy, x, forward_sums, gain, how);
  return bill_norm_backward_sums(sums, dy, x, forward_sums, gain);
}

Cost CountingOps::norm_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                const Tensor& forward_sums, const Tensor& backward_sums, const Tensor& gain,
                                const Norm& how, Write write) const {
  check_norm_backward(stream, dx, dy, x, forward_sums, backward_sums, gain, how);
  return bill_norm_backward(dx, dy, x, forward_sums, backward_sums, gain, write);
}

Cost CountingOps::norm_backward_parameters(Stream& stream, const Tensor& dgain, const Tensor& dbias, const Tensor& dy,
                                           const Tensor& x, const Tensor& forward_sums, const Norm& how) const {
  check_norm_backward_parameters(stream, dgain, dbias, dy, x, forward_sums, how);
  return bill_norm_backward_parameters(dgain, dbias, dy, x, forward_sums);
}

Cost CountingOps::embedding(Stream& stream, const Tensor& out, const Tensor& table, const Tensor& ids,
                            std::int64_t first_row) const {
  check_embedding(stream, out, table, ids, first_row);
  return bill_embedding(out, table, ids);
}

Cost CountingOps::embedding_backward(Stream& stream, const Tensor& dtable, const Tensor& dout, const Tensor& ids,
                                     std::int64_t first_row) const {
  check_embedding_backward(stream, dtable, dout, ids, first_row);
  return bill_embedding_backward(dtable, dout, ids);
}

Cost CountingOps::rows_of_places(Stream& stream, const Tensor& rows, const Tensor& places, std::int64_t tokens,
                                 std::int64_t first, const Jump& jump) const {
  check_rows_of_places(stream, rows, places, tokens, first, jump);
  return bill_rows_of_places(rows, places);
}

Cost CountingOps::positions(Stream& stream, const Tensor& ids, std::int64_t first, const Jump& jump) const {
  check_positions(stream, ids, first, jump);
  return bill_positions(ids);
}

Cost CountingOps::sinusoids(Stream& stream, const Tensor& out, const Tensor& x, const Sinusoids& how) const {
  check_sinusoids(stream, out, x, how);
  return bill_sinusoids(out, x);
}

Cost CountingOps::row_lengths(Stream& stream, const Tensor& lengths, const Tensor& ids) const {
  check_row_lengths(stream, lengths, ids);
  return bill_row_lengths(lengths, ids);
}

Cost CountingOps::attention(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                            const Tensor& lengths, const Attention& how) const {
  check_attention(stream, out, log_sum, q, kv, lengths, how);
  return bill_attention(out, log_sum, q, kv, how, attention_.block);
}

Cost CountingOps::attention_backward(Stream& stream, const Tensor& dq, const Tensor& dkv, const Tensor& dout,
                                     const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                                     const Tensor& lengths, const Attention& how) const {
  check_attention_backward(stream, dq, dkv, dout, out, log_sum, q, kv, lengths, how);
  return bill_attention_backward(dq, dkv, dout, out, log_sum, q, kv, how, attention_.block,
                                 attention_.products_rebuilt(q, lengths, how));
}

Cost CountingOps::attention_merge(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& part_out,
                                  const Tensor& part_log_sum) const {
  check_attention_merge(stream, out, log_sum, part_out, part_log_sum);
  return bill_attention_merge(out, log_sum, part_out, part_log_sum);
}

Cost CountingOps::rotary(Stream& stream, const Tensor& out, const Tensor& x, const Rotary& how) const {
  check_rotary(stream, out, x, how);
  return bill_rotary(out, x);
}

Cost CountingOps::cross_entropy_max(Stream& stream, const Tensor& max, const Tensor& logits) const {
  check_cross_entropy_max(stream, max, logits);
  return bill_cross_entropy_max(max, logits);
}

Cost CountingOps::cross_entropy_sums(Stream& stream, const Tensor& sums, const Tensor& logits, const Tensor& max,
                                     const Tensor& labels, const CrossEntropy& how) const {
  check_cross_entropy_sums(stream, sums, logits, max, labels, how);
  return bill_cross_entropy_sums(sums, logits, max, labels);
}

Cost CountingOps::cross_entropy_loss(Stream& stream, const Tensor& loss, const Tensor& sums, const Tensor& max,
                                     const Tensor& labels, const CrossEntropy& how) const {
  check_cross_entropy_loss(stream, loss, sums, max, labels, how);
  return bill_cross_entropy_loss(loss, sums, max, labels);
}

Cost CountingOps::label_matches(Stream& stream, const Tensor& matches, const Tensor& logits, const Tensor& max,
                                const Tensor& labels, const CrossEntropy& how) const {
  check_label_matches(stream, matches, logits, max, labels, how);
  return bill_label_matches(matches, logits, max, labels);
}

Cost CountingOps::count_correct(Stream& stream, const Tensor& correct, const Tensor& matches,
                                const Tensor& labels) const {
  check_count_correct(stream, correct, matches, labels);
  return bill_count_correct(correct, matches, labels);
}

Cost CountingOps::cross_entropy_backward(Stream& stream, const Tensor& dlogits, const Tensor& logits, const Tensor& max,
                                         const Tensor& sums, const Tensor& labels, const Tensor& counts,
                                         const CrossEntropy& how) const {
  check_cross_entropy_backward(stream, dlogits, logits, max, sums, labels, counts, how);
  return bill_cross_entropy_backward(dlogits, logits, max, sums, labels, counts);
}

Cost CountingOps::move_block(Stream& stream, const Tensor& out, const Tensor& in, const BlockMove& how) const {
  check_move_block(stream, out, in, how);
  return bill_move_block(out, how);
}

Cost CountingOps::sum_of_squares(Stream& stream, const Tensor& sum, const Tensor& x) const {
  check_sum_of_squares(stream, sum, x);
  return bill_sum_of_squares(sum, x);
}

Cost CountingOps::step_scalars(Stream& stream, const Tensor& scalars, const Tensor& totals, const Tensor& settings,
                               double clip_norm) const {
  check_step_scalars(stream, scalars, totals, settings, clip_norm);
  return bill_step_scalars(scalars, totals, settings);
}

Cost CountingOps::adamw(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& first_moment,
                        const Tensor& second_moment, const Tensor& scalars, const AdamW& how) const {
  check_adamw(stream, values, gradients, first_moment, second_moment, scalars, how);
  return bill_adamw(values, gradients, first_moment, second_moment, scalars);
}

Cost CountingOps::sgd_momentum(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                               const Tensor& scalars, const SgdMomentum& how) const {
  check_sgd_momentum(stream, values, gradients, velocity, scalars, how);
  return bill_sgd_momentum(values, gradients, velocity, scalars);
}

Cost CountingOps::lars(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                       const Tensor& norms, const Tensor& scalars, const Lars& how) const {
  check_lars(stream, values, gradients, velocity, norms, scalars, how);
  return bill_lars(values, gradients, velocity, norms, scalars);
}

Cost CountingOps::lamb_moments(Stream& stream, const Tensor& squares, const Tensor& values, const Tensor& gradients,
                               const Tensor& first_moment, const Tensor& second_moment, const Tensor& scalars,
                               const Lamb& how) const {
  check_lamb_moments(stream, squares, values, gradients, first_moment, second_moment, scalars, how);
  return bill_lamb_moments(squares, values, gradients, first_moment, second_moment, scalars);
}

Cost CountingOps::lamb_step(Stream& stream, const Tensor& values, const Tensor& first_moment,
                            const Tensor& second_moment, const Tensor& norms, const Tensor& scalars,
                            const Lamb& how) const {
  check_lamb_step(stream, values, first_moment, second_moment, norms, scalars, how);
  return bill_lamb_step(values, first_moment, second_moment, norms, scalars);
}

const Ops& counting_ops() {
  static const CountingOps ops({});
  return ops;
}

std::unique_ptr<Ops> make_counting_ops(const AttentionBilling& attention) {
  return std::make_unique<CountingOps>(attention);
}

}  // namespace quadrille
