// SPDX-License-Identifier: Apache-2.0
// Back ends that are wrong on purpose: a decorator over right ops that spoils what they wrote, or changes the options
// they are given. The op cases must catch every one of them; a case that catches nothing judges nothing.
#pragma once

#include <functional>
#include <initializer_list>

#include "kernels/ops.h"

namespace quadrille {

enum class Fault {
  none,
  does_nothing,
  one_percent,   // every output is 1 % too large
  last_element,  // the last element of every output is wrong
  adds,          // adds to what was there instead of replacing it
  wrong_bill
};

// What is done to the options on their way; empty: nothing.
struct Forgetting {
  std::function<void(Matmul&)> matmul;
  std::function<void(Write&)> write;
  std::function<void(Norm&)> norm;
  std::function<void(Dropout&)> dropout;
  std::function<void(Attention&)> attention;
  std::function<void(Tensor&)> lengths;
  std::function<void(Rotary&)> rotary;
  std::function<void(CrossEntropy&)> cross_entropy;
  std::function<void(BlockMove&)> block_move;
  std::function<void(AdamW&)> adamw;
  std::function<void(SgdMomentum&)> sgd_momentum;
  std::function<void(Lars&)> lars;
  std::function<void(Lamb&)> lamb;
  std::function<void(double& rate, double& clip_norm, double& step)> step_scalars;
  std::function<void(Conv&)> conv;
  std::function<void(BatchNorm&)> batch_norm;
  std::function<void(double&)> momentum, scale;
  std::function<void(std::int64_t&)> first_row, first_token;
  std::function<void(Jump&)> jump;
};

class BrokenOps : public Ops {
 public:
  BrokenOps(const Ops& right, Fault fault, Forgetting forgetting = {})
      : right_(right), fault_(fault), forgetting_(std::move(forgetting)) {}

  std::string_view name() const override { return "broken"; }
  Cost matmul(Stream&, const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
              const Matmul&) const override;
  Cost add(Stream&, const Tensor& out, const Tensor& a, const Tensor& b) const override;
  Cost add_bias(Stream&, const Tensor& out, const Tensor& x, const Tensor& bias) const override;
  Cost sum_rows(Stream&, const Tensor& out, const Tensor& x, Write) const override;
  Cost gelu(Stream&, const Tensor& out, const Tensor& x) const override;
  Cost relu(Stream&, const Tensor& out, const Tensor& x) const override;
  Cost gelu_backward(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& x) const override;
  Cost tanh(Stream&, const Tensor& out, const Tensor& x) const override;
  Cost tanh_backward(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& y) const override;
  Cost gated_silu(Stream&, const Tensor& out, const Tensor& gate, const Tensor& up) const override;
  Cost gated_silu_backward(Stream&, const Tensor& dgate, const Tensor& dup, const Tensor& dy, const Tensor& gate,
                           const Tensor& up) const override;
  Cost dropout(Stream&, const Tensor& out, const Tensor& x, const Dropout&) const override;
  Cost norm_sums(Stream&, const Tensor& sums, const Tensor& x) const override;
  Cost norm(Stream&, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain, const Tensor& bias,
            const Norm&) const override;
  Cost norm_backward_sums(Stream&, const Tensor& sums, const Tensor& dy, const Tensor& x, const Tensor& forward_sums,
                          const Tensor& gain, const Norm&) const override;
  Cost norm_backward(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& forward_sums,
                     const Tensor& backward_sums, const Tensor& gain, const Norm&, Write) const override;
  Cost norm_backward_parameters(Stream&, const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                                const Tensor& forward_sums, const Norm&) const override;
  Cost embedding(Stream&, const Tensor& out, const Tensor& table, const Tensor& ids,
                 std::int64_t first_row) const override;
  Cost embedding_backward(Stream&, const Tensor& dtable, const Tensor& dout, const Tensor& ids,
                          std::int64_t first_row) const override;
  Cost attention(Stream&, const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                 const Tensor& lengths, const Attention&) const override;
  Cost attention_backward(Stream&, const Tensor& dq, const Tensor& dkv, const Tensor& dout, const Tensor& out,
                          const Tensor& log_sum, const Tensor& q, const Tensor& kv, const Tensor& lengths,
                          const Attention&) const override;
  Cost attention_merge(Stream&, const Tensor& out, const Tensor& log_sum, const Tensor& part_out,
                       const Tensor& part_log_sum) const override;
  Cost rotary(Stream&, const Tensor& out, const Tensor& x, const Rotary&) const override;
  Cost cross_entropy_max(Stream&, const Tensor& max, const Tensor& logits) const override;
  Cost cross_entropy_sums(Stream&, const Tensor& sums, const Tensor& logits, const Tensor& max, const Tensor& labels,
                          const CrossEntropy&) const override;
  Cost cross_entropy_loss(Stream&, const Tensor& loss, const Tensor& sums, const Tensor& max, const Tensor& labels,
                          const CrossEntropy&) const override;
  Cost label_matches(Stream&, const Tensor& matches, const Tensor& logits, const Tensor& max, const Tensor& labels,
                     const CrossEntropy&) const override;
  Cost count_correct(Stream&, const Tensor& correct, const Tensor& matches, const Tensor& labels) const override;
  Cost cross_entropy_backward(Stream&, const Tensor& dlogits, const Tensor& logits, const Tensor& max,
                              const Tensor& sums, const Tensor& labels, const Tensor& counts,
                              const CrossEntropy&) const override;
  Cost convert(Stream&, const Tensor& out, const Tensor& in) const override;
  Cost positions(Stream&, const Tensor& ids, std::int64_t first, const Jump&) const override;
  Cost sinusoids(Stream&, const Tensor& out, const Tensor& x, const Sinusoids&) const override;
  Cost row_lengths(Stream&, const Tensor& lengths, const Tensor& ids) const override;
  Cost rows_of_places(Stream&, const Tensor& rows, const Tensor& places, std::int64_t tokens, std::int64_t first,
                      const Jump&) const override;
  Cost conv(Stream&, const Tensor& out, const Tensor& x, const Tensor& w, const Conv&) const override;
  Cost conv_backward_input(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& w, const Conv&,
                           Write) const override;
  Cost conv_backward_weight(Stream&, const Tensor& dw, const Tensor& dy, const Tensor& x, const Conv&,
                            Write) const override;
  Cost channel_sums(Stream&, const Tensor& sums, const Tensor& x) const override;
  Cost batch_norm(Stream&, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
                  const Tensor& bias, const BatchNorm&) const override;
  Cost batch_norm_backward_sums(Stream&, const Tensor& backward_sums, const Tensor& dy, const Tensor& x,
                                const Tensor& out, const Tensor& sums, const BatchNorm&) const override;
  Cost batch_norm_backward(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& out,
                           const Tensor& sums, const Tensor& backward_sums, const Tensor& gain, const BatchNorm&,
                           Write) const override;
  Cost batch_norm_backward_parameters(Stream&, const Tensor& dgain, const Tensor& dbias,
                                      const Tensor& backward_sums) const override;
  Cost update_averages(Stream&, const Tensor& averages, const Tensor& sums, double momentum) const override;
  Cost sums_of_averages(Stream&, const Tensor& sums, const Tensor& averages) const override;
  Cost add_relu(Stream&, const Tensor& out, const Tensor& a, const Tensor& b) const override;
  Cost relu_backward(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& out) const override;
  Cost max_pool(Stream&, const Tensor& out, const Tensor& x, const Conv&) const override;
  Cost max_pool_backward(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& x, const Conv&) const override;
  Cost sum_pixels(Stream&, const Tensor& out, const Tensor& x, double scale) const override;
  Cost spread_pixels(Stream&, const Tensor& dx, const Tensor& dy, double scale) const override;
  Cost move_block(Stream&, const Tensor& out, const Tensor& in, const BlockMove&) const override;
  Cost sum_of_squares(Stream&, const Tensor& sum, const Tensor& x) const override;
  Cost step_scalars(Stream&, const Tensor& scalars, const Tensor& totals, const Tensor& settings,
                    double clip_norm) const override;
  Cost adamw(Stream&, const Tensor& values, const Tensor& gradients, const Tensor& first_moment,
             const Tensor& second_moment, const Tensor& scalars, const AdamW&) const override;
  Cost sgd_momentum(Stream&, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                    const Tensor& scalars, const SgdMomentum&) const override;
  Cost lars(Stream&, const Tensor& values, const Tensor& gradients, const Tensor& velocity, const Tensor& norms,
            const Tensor& scalars, const Lars&) const override;
  Cost lamb_moments(Stream&, const Tensor& squares, const Tensor& values, const Tensor& gradients,
                    const Tensor& first_moment, const Tensor& second_moment, const Tensor& scalars,
                    const Lamb&) const override;
  Cost lamb_step(Stream&, const Tensor& values, const Tensor& first_moment, const Tensor& second_moment,
                 const Tensor& norms, const Tensor& scalars, const Lamb&) const override;

 private:
  Cost spoil(std::initializer_list<const Tensor*> outputs, const std::function<Cost()>& call) const;

  const Ops& right_;
  Fault fault_;
  Forgetting forgetting_;
};

}  // namespace quadrille
