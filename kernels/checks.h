// SPDX-License-Identifier: Apache-2.0
// What each op demands of its operands: types, counts, places, options. Every back end calls the check of an op first,
// so that all refuse alike, and takes from it the extents that it works on. Messages say what was found and what was
// wanted.
//
// Rows and columns of a tensor here: the last dim is the columns, all dims before it are the rows.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/ops.h"

namespace quadrille {

struct MatmulExtents {
  std::int64_t m = 0, n = 0, k = 0;
};
struct Extents {
  std::int64_t rows = 0, columns = 0;
};

void check_convert(const Stream&, const Tensor& out, const Tensor& in);

MatmulExtents check_matmul(const Stream&, const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                           const Matmul&);

void check_add(const Stream&, const Tensor& out, const Tensor& a, const Tensor& b);
Extents check_add_bias(const Stream&, const Tensor& out, const Tensor& x, const Tensor& bias);
Extents check_sum_rows(const Stream&, const Tensor& out, const Tensor& x);
void check_gelu(const Stream&, const Tensor& out, const Tensor& x);
void check_relu(const Stream&, const Tensor& out, const Tensor& x);
void check_gelu_backward(const Stream&, const Tensor& dx, const Tensor& dy, const Tensor& x);
void check_tanh(const Stream&, const Tensor& out, const Tensor& x);
void check_tanh_backward(const Stream&, const Tensor& dx, const Tensor& dy, const Tensor& y);
void check_gated_silu(const Stream&, const Tensor& out, const Tensor& gate, const Tensor& up);
void check_gated_silu_backward(const Stream&, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                               const Tensor& gate, const Tensor& up);
void check_dropout(const Stream&, const Tensor& out, const Tensor& x, const Dropout&);

Extents check_norm_sums(const Stream&, const Tensor& sums, const Tensor& x);
Extents check_norm(const Stream&, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
                   const Tensor& bias, const Norm&);
Extents check_norm_backward_sums(const Stream&, const Tensor& sums, const Tensor& dy, const Tensor& x,
                                 const Tensor& forward_sums, const Tensor& gain, const Norm&);
Extents check_norm_backward(const Stream&, const Tensor& dx, const Tensor& dy, const Tensor& x,
                            const Tensor& forward_sums, const Tensor& backward_sums, const Tensor& gain, const Norm&);
Extents check_norm_backward_parameters(const Stream&, const Tensor& dgain, const Tensor& dbias, const Tensor& dy,
                                       const Tensor& x, const Tensor& forward_sums, const Norm&);

Extents check_embedding(const Stream&, const Tensor& out, const Tensor& table, const Tensor& ids,
                        std::int64_t first_row);
Extents check_embedding_backward(const Stream&, const Tensor& dtable, const Tensor& dout, const Tensor& ids,
                                 std::int64_t first_row);

// The extents: rows and tokens.
Extents check_positions(const Stream&, const Tensor& ids, std::int64_t first, const Jump&);
void check_sinusoids(const Stream&, const Tensor& out, const Tensor& x, const Sinusoids&);
Extents check_row_lengths(const Stream&, const Tensor& lengths, const Tensor& ids);
Extents check_rows_of_places(const Stream&, const Tensor& rows, const Tensor& places, std::int64_t tokens,
                             std::int64_t first, const Jump&);

void check_attention(const Stream&, const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                     const Tensor& lengths, const Attention&);
void check_attention_backward(const Stream&, const Tensor& dq, const Tensor& dkv, const Tensor& dout, const Tensor& out,
                              const Tensor& log_sum, const Tensor& q, const Tensor& kv, const Tensor& lengths,
                              const Attention&);
struct MergeExtents {
  std::int64_t rows = 0, tokens = 0, groups = 0, queries = 0, head = 0;
};
MergeExtents check_attention_merge(const Stream&, const Tensor& out, const Tensor& log_sum, const Tensor& part_out,
                                   const Tensor& part_log_sum);
void check_rotary(const Stream&, const Tensor& out, const Tensor& x, const Rotary&);

Extents check_cross_entropy_max(const Stream&, const Tensor& max, const Tensor& logits);
Extents check_cross_entropy_sums(const Stream&, const Tensor& sums, const Tensor& logits, const Tensor& max,
                                 const Tensor& labels, const CrossEntropy&);
std::int64_t check_cross_entropy_loss(const Stream&, const Tensor& loss, const Tensor& sums, const Tensor& max,
                                      const Tensor& labels,
                                      const CrossEntropy&);  // rows
Extents check_label_matches(const Stream&, const Tensor& matches, const Tensor& logits, const Tensor& max,
                            const Tensor& labels, const CrossEntropy&);
std::int64_t check_count_correct(const Stream&, const Tensor& correct, const Tensor& matches,
                                 const Tensor& labels);  // rows
Extents check_cross_entropy_backward(const Stream&, const Tensor& dlogits, const Tensor& logits, const Tensor& max,
                                     const Tensor& sums, const Tensor& labels, const Tensor& counts,
                                     const CrossEntropy&);
// For back ends that can read labels: one beyond the vocabulary would otherwise give a wrong loss silently.
void check_labels(std::span<const std::int32_t> labels, const CrossEntropy&);

// Images [rows, height, width, channels]: of what goes in and what comes out.
struct ConvExtents {
  std::int64_t rows = 0, in_height = 0, in_width = 0, in = 0, out_height = 0, out_width = 0, out = 0;
  std::int64_t in_pixels() const { return in_height * in_width; }  // of an image
  std::int64_t out_pixels() const { return out_height * out_width; }
};
// Channels of all rows before them; rows in `groups` equal runs, each with statistics of its own.
struct ChannelExtents {
  std::int64_t groups = 0, rows = 0 /* of a group */, channels = 0;
};
struct PixelExtents {
  std::int64_t rows = 0, pixels = 0, channels = 0;
};
ConvExtents check_conv(const Stream&, const Tensor& out, const Tensor& x, const Tensor& w, const Conv&);
ConvExtents check_conv_backward_input(const Stream&, const Tensor& dx, const Tensor& dy, const Tensor& w, const Conv&,
                                      Write);
ConvExtents check_conv_backward_weight(const Stream&, const Tensor& dw, const Tensor& dy, const Tensor& x, const Conv&,
                                       Write);
ChannelExtents check_channel_sums(const Stream&, const Tensor& sums, const Tensor& x);
ChannelExtents check_batch_norm(const Stream&, const Tensor& out, const Tensor& x, const Tensor& sums,
                                const Tensor& gain, const Tensor& bias, const BatchNorm&);
ChannelExtents check_batch_norm_backward_sums(const Stream&, const Tensor& backward_sums, const Tensor& dy,
                                              const Tensor& x, const Tensor& out, const Tensor& sums, const BatchNorm&);
ChannelExtents check_batch_norm_backward(const Stream&, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                         const Tensor& out, const Tensor& sums, const Tensor& backward_sums,
                                         const Tensor& gain, const BatchNorm&, Write);
ChannelExtents check_batch_norm_backward_parameters(const Stream&, const Tensor& dgain, const Tensor& dbias,
                                                    const Tensor& backward_sums);
ChannelExtents check_update_averages(const Stream&, const Tensor& averages, const Tensor& sums, double momentum);
void check_sums_of_averages(const Stream&, const Tensor& sums, const Tensor& averages);
void check_add_relu(const Stream&, const Tensor& out, const Tensor& a, const Tensor& b);
void check_relu_backward(const Stream&, const Tensor& dx, const Tensor& dy, const Tensor& out);
ConvExtents check_max_pool(const Stream&, const Tensor& out, const Tensor& x, const Conv&);
ConvExtents check_max_pool_backward(const Stream&, const Tensor& dx, const Tensor& dy, const Tensor& x, const Conv&);
PixelExtents check_sum_pixels(const Stream&, const Tensor& out, const Tensor& x, double scale);
PixelExtents check_spread_pixels(const Stream&, const Tensor& dx, const Tensor& dy, double scale);

void check_move_block(const Stream&, const Tensor& out, const Tensor& in, const BlockMove&);

void check_sum_of_squares(const Stream&, const Tensor& sum, const Tensor& x);
void check_step_scalars(const Stream&, const Tensor& scalars, const Tensor& totals, const Tensor& settings,
                        double clip_norm);
void check_adamw(const Stream&, const Tensor& values, const Tensor& gradients, const Tensor& first_moment,
                 const Tensor& second_moment, const Tensor& scalars, const AdamW&);
void check_sgd_momentum(const Stream&, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                        const Tensor& scalars, const SgdMomentum&);
void check_lars(const Stream&, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                const Tensor& norms, const Tensor& scalars, const Lars&);
void check_lamb_moments(const Stream&, const Tensor& squares, const Tensor& values, const Tensor& gradients,
                        const Tensor& first_moment, const Tensor& second_moment, const Tensor& scalars, const Lamb&);
void check_lamb_step(const Stream&, const Tensor& values, const Tensor& first_moment, const Tensor& second_moment,
                     const Tensor& norms, const Tensor& scalars, const Lamb&);

}  // namespace quadrille
