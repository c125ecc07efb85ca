// SPDX-License-Identifier: Apache-2.0
// The local maths: what one rank computes on its own numbers, each op returning its bill. Implemented by `reference`
// (naive loops, double accumulation, the judge), `cpu` (fast) and `counting` (computes nothing, bills alike). One table
// of cases in tests/kernels judges them all. Ops know no ranks and no parallelism.
//
// Number types: a call's tensors are of one floating type (f32, f64 or bf16) unless said; i32 for ids and labels; f64
// for sums that cross ranks. Where "wide" is said, the type may also be that of wide(): f32 beside bf16, because sums
// of many small terms (weight gradients, log-sums) lose too much in 8 bits. Arithmetic on bf16 is done in f32 and
// rounded once, when the result is stored.
//
// Dims: B batch rows, T tokens, E features, G key/value groups, R queries per group, D head width, V vocabulary rows
// held. All tensors row-major. Where a name ends in R and more letters, any leading dims count as rows R. No rows at
// all is fine everywhere. All tensors of a call live on the stream's device. `out` comes first after the stream; unless
// said otherwise it may not overlap an input. kernels/checks.h holds what each op demands, kernels/bills.h what it
// costs.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/device.h"
#include "core/ledger.h"
#include "core/random.h"
#include "core/tensor.h"

namespace quadrille {

enum class Transpose : std::uint8_t { no, yes };
enum class Write : std::uint8_t { replace, accumulate };

struct Matmul {  // out[m,n] = a'[m,k] b'[k,n] (+ bias[n]), a' = a or its transpose
  Transpose a = Transpose::no, b = Transpose::no;
  Write write = Write::replace;
  bool tf32 = false;  // f32 operands may be rounded to 10 bits of mantissa (tensor cores); the CPU back ends refuse it
};

enum class NormKind : std::uint8_t { layer, rms };
struct Norm {
  NormKind kind = NormKind::layer;
  double epsilon = 1e-5;
  std::int64_t width = 0;  // features of the whole row, over all ranks
};

// Tokens of a call lie at consecutive positions but for one jump: those from token `after` on lie `by` further. That is
// how a rank holds two runs of a sequence.
struct Jump {
  std::int64_t after = 0, by = 0;
};
constexpr std::int64_t position_of(std::int64_t first, const Jump& jump, std::int64_t token) {
  return first + token + (token >= jump.after ? jump.by : 0);
}

// The reverse: which of `tokens` tokens lies at this position; -1: none.
constexpr std::int64_t token_at(std::int64_t first, const Jump& jump, std::int64_t tokens, std::int64_t position) {
  const std::int64_t before = position - first, after = before - jump.by;
  if (before >= 0 && before < (jump.after < tokens ? jump.after : tokens)) return before;
  return after >= jump.after && after >= 0 && after < tokens ? after : -1;
}

// An element's address for dropout: index = ((row0 + b) * T_global + position) * E_global + e0 + e under `key`.
// Kept when uniform_at(key, index) >= probability, then divided by (1 - probability).
struct Dropout {
  double probability = 0;
  Key key = 0;
  std::int64_t first_row = 0, first_token = 0, first_feature = 0;  // of this rank's part
  std::int64_t tokens = 0, features = 0;                           // of the whole
  Jump jump = {};                                                  // of the tokens
};

// Where an attention op finds its operands. q element (b,t,g,r,d) is q[((b*q_tokens + t)*groups + g)*q_width + r*head +
// d]; k element (b,t,g,d) is kv[((b*kv_tokens + t)*groups + g)*kv_width + kv_offset + d]; v lies `head` further on.
// Packed self-attention: one tensor for both, q_width = kv_width = (queries + 2)*head, kv_offset = queries*head.
struct Attention {
  std::int64_t rows = 0, q_tokens = 0, kv_tokens = 0, groups = 0, queries = 1, head = 0;
  std::int64_t q_width = 0, kv_width = 0, kv_offset = 0;
  std::int64_t q_first = 0, kv_first = 0;  // position of the first token: causal means kv position <= q position
  Jump q_jump = {}, kv_jump = {};
  bool causal = true;
  double scale = 1;  // of the scores, usually 1/sqrt(head)
  // Dropout of probabilities: index = (((row0+b)*heads_global + head0 + g*queries+r)*q_global + q_pos)*kv_global +
  // kv_pos.
  double dropout = 0;
  Key key = 0;
  std::int64_t first_row = 0, first_head = 0, heads_global = 0, q_global = 0, kv_global = 0;
};

// out = factor·x + amplitude·P, with the sinusoids of Vaswani et al. 2017: P(t, 2i) = sin(t·10000^(-2i/features)),
// P(t, 2i + 1) = cos of the same, t the position and 2i the global feature. Backward: the same without amplitude.
struct Sinusoids {
  double factor = 1, amplitude = 1;
  std::int64_t first_token = 0, first_feature = 0;  // of this rank's part
  std::int64_t features = 0;                        // of the whole
  Jump jump = {};                                   // of the tokens
};
// P at a position, of one of so many features.
inline double sinusoid_at(std::int64_t position, std::int64_t feature, std::int64_t features) {
  const double angle = static_cast<double>(position) *
                       std::pow(10000.0, -static_cast<double>(feature - feature % 2) / static_cast<double>(features));
  return feature % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

// Rotary positions (Su et al. 2021): pairs (i, i + head/2) of each of `heads` consecutive heads at the front of a group
// are turned by position * base^(-2i/head).
struct Rotary {
  std::int64_t rows = 0, tokens = 0, groups = 0, width = 0 /* of a group */, heads = 0 /* turned per group */, head = 0;
  std::int64_t first_token = 0;
  double base = 10000;
  bool inverse = false;  // turn back: the backward pass
  Jump jump = {};        // of the tokens
};

struct CrossEntropy {
  std::int64_t first_word = 0;  // of this rank's part of the vocabulary
  std::int64_t words = 0;       // of the whole vocabulary; smoothing spreads over these
  double smoothing = 0;
};

// A window slides over the height and width of an image: output pixel (i, j) sees input rows [i·stride - pad_top,
// i·stride - pad_top + kernel_h) and columns likewise. Four pads, so that a run of the height with borrowed rows above
// and below is no special case. Output height: (height + pad_top + pad_bottom - kernel_h) / stride + 1, rounded down,
// or none at all.
struct Conv {
  std::int64_t kernel_h = 1, kernel_w = 1, stride = 1;
  std::int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
};

struct BatchNorm {
  double epsilon = 1e-5;
  bool relu = false;  // negative results become 0
};

// Moves a block of columns-of-runs: for o in [0, outer): out[(o*out_rows + out_first + r)*inner + i] takes
// in[(o*in_rows + in_first + r)*inner + i] for r in [0, rows). How gathers and scatters along any dim pack and unpack.
struct BlockMove {
  std::int64_t outer = 1, rows = 0, inner = 1;
  std::int64_t out_rows = 0, out_first = 0, in_rows = 0, in_first = 0;
  Write write = Write::replace;
};

// With g = kFactor·gradient, t = kStep (Loshchilov and Hutter 2019): m = β1 m + (1-β1) g, v = β2 v + (1-β2) g²,
// value -= rate·((m / (1-β1ᵗ)) / (sqrt(v / (1-β2ᵗ)) + ε) + weight_decay·value), the value before the step. Adam with L2
// (Kingma and Ba 2015) has the decay in g instead: g = kFactor·gradient + weight_decay·value.
struct AdamW {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool decay_in_gradient = false;
};
// With g = kFactor·gradient + weight_decay·value: v = momentum·v + g, value -= rate·v; nesterov: rate·(g + momentum·v).
struct SgdMomentum {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

// LARS (You et al. 2017) and LAMB (You et al. 2020) scale the step of a whole parameter w by a ratio of norms; where
// one of them is 0, and where an op is given no norms, the ratio is 1. How the norms come together over ranks:
// training/optimizer.h.
//
// With g = kFactor·gradient: ratio = trust·‖w‖ / (‖g‖ + weight_decay·‖w‖ + ε), d = g + weight_decay·value,
// v = momentum·v + rate·ratio·d, value -= v; nesterov: value -= momentum·v + rate·ratio·d. Scaled momentum: the
// velocity does not hold the rates of past steps, v = momentum·v + d, value -= rate·ratio·v; nesterov: of d +
// momentum·v.
struct Lars {
  double momentum = 0.9, weight_decay = 0, trust = 0.001, epsilon = 0;
  bool nesterov = false, scaled_momentum = false;
};
// m and v as AdamW's; update = (m / (1-β1ᵗ)) / (sqrt(v / (1-β2ᵗ)) + ε) + weight_decay·value, without bias correction
// m / (sqrt(v) + ε) + weight_decay·value; value -= rate·(‖w‖ / ‖update‖)·update.
struct Lamb {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0;
  bool bias_correction = true;
};

// Step scalars: one f64 tensor per step on the device, written by `step_scalars`, read by optimizers and reports.
enum StepScalar : int {
  kLossSum,       // Σ loss over the global batch, nats; kLossSum/kCount is the sum of the mean losses
  kCount,         // Σ labels that count
  kNormSquared,   // Σ g² of the *sum* of losses, over all parameters once
  kGradientNorm,  // of the mean loss: sqrt(kNormSquared)/kCount, before clipping
  kFactor,        // what a gradient is multiplied by: min(1, clip/kGradientNorm)/count; 0 when not finite
  kRate,          // learning rate of this step
  kFinite,        // 1 or 0: loss and norm are finite and something counts
  kStep,          // 1-based, for bias correction
  kStepScalars    // how many
};

class Ops {
 public:
  virtual ~Ops() = default;
  virtual std::string_view name() const = 0;

  // Another number type: rounds to the nearest, ties to even. f32, f64, bf16 in any pair.
  virtual Cost convert(Stream&, const Tensor& out, const Tensor& in) const = 0;

  // Products, out may be wide. a: [m,k] or, transposed, [k,m]; b: [k,n] or [n,k]; bias: [n] or empty. Any leading dims
  // count as rows: the last dim is the column dim after the caller's reshape to rank 2.
  virtual Cost matmul(Stream&, const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                      const Matmul&) const = 0;

  // Element-wise; shapes equal, out may be any input. add: out and a may both be wide, which adds b to a sum in f32.
  virtual Cost add(Stream&, const Tensor& out, const Tensor& a, const Tensor& b) const = 0;
  virtual Cost add_bias(Stream&, const Tensor& out_RE, const Tensor& x_RE, const Tensor& bias_E) const = 0;
  virtual Cost sum_rows(Stream&, const Tensor& out_E, const Tensor& x_RE,
                        Write) const = 0;                                    // bias gradient; out may be wide
  virtual Cost gelu(Stream&, const Tensor& out, const Tensor& x) const = 0;  // x Φ(x), erf form
  virtual Cost gelu_backward(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& x) const = 0;  // dx may be dy
  virtual Cost relu(Stream&, const Tensor& out, const Tensor& x) const = 0;  // its backward stands with those of images
  virtual Cost tanh(Stream&, const Tensor& out, const Tensor& x) const = 0;
  virtual Cost tanh_backward(Stream&, const Tensor& dx /* may be dy */, const Tensor& dy, const Tensor& y) const = 0;
  virtual Cost gated_silu(Stream&, const Tensor& out, const Tensor& gate, const Tensor& up) const = 0;  // silu(gate)·up
  virtual Cost gated_silu_backward(Stream&, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                                   const Tensor& gate, const Tensor& up) const = 0;
  virtual Cost dropout(Stream&, const Tensor& out_BTE, const Tensor& x_BTE,
                       const Dropout&) const = 0;  // its own backward

  // Norms in two halves, so that rows may be split over ranks: the sums cross ranks in between. sums: f64 [rows, 2].
  virtual Cost norm_sums(Stream&, const Tensor& sums_R2, const Tensor& x_RE) const = 0;  // Σx, Σx²
  virtual Cost norm(Stream&, const Tensor& out_RE, const Tensor& x_RE, const Tensor& sums_R2, const Tensor& gain_E,
                    const Tensor& bias_E /* empty for rms */, const Norm&) const = 0;
  virtual Cost norm_backward_sums(Stream&, const Tensor& sums_R2, const Tensor& dy_RE, const Tensor& x_RE,
                                  const Tensor& forward_sums_R2, const Tensor& gain_E,
                                  const Norm&) const = 0;  // Σg, Σg·x̂ with g = dy·gain
  virtual Cost norm_backward(Stream&, const Tensor& dx_RE, const Tensor& dy_RE, const Tensor& x_RE,
                             const Tensor& forward_sums_R2, const Tensor& backward_sums_R2, const Tensor& gain_E,
                             const Norm&, Write) const = 0;
  // dgain += Σ dy·x̂, dbias += Σ dy; either may be empty, both may be wide.
  virtual Cost norm_backward_parameters(Stream&, const Tensor& dgain_E, const Tensor& dbias_E, const Tensor& dy_RE,
                                        const Tensor& x_RE, const Tensor& forward_sums_R2, const Norm&) const = 0;

  // table: [V, E], the rows [first_row, first_row + V) of the whole; ids outside give zeros. ids: i32 [rows].
  virtual Cost embedding(Stream&, const Tensor& out_RE, const Tensor& table_VE, const Tensor& ids_R,
                         std::int64_t first_row) const = 0;
  virtual Cost embedding_backward(
      Stream&, const Tensor& dtable_VE, const Tensor& dout_RE, const Tensor& ids_R,
      std::int64_t first_row) const = 0;  // accumulates, in a fixed order; dtable may be wide

  // ids_BT: i32; token t of every row gets its position, position_of(first, jump, t).
  virtual Cost positions(Stream&, const Tensor& ids_BT, std::int64_t first, const Jump&) const = 0;
  virtual Cost sinusoids(Stream&, const Tensor& out_BTE /* may be x */, const Tensor& x_BTE,
                         const Sinusoids&) const = 0;
  // i32: how many ids of a row are not padding, that is at least 0.
  virtual Cost row_lengths(Stream&, const Tensor& lengths_B, const Tensor& ids_BT) const = 0;

  // Of rows that hold `tokens` tokens at position_of(first, jump, t), laid end to end: where the tokens at these places
  // lie. rows_BP, places_BP: i32; rows[b, p] = b*tokens + t, or -1 where no token of this part is at places[b, p], such
  // as -1.
  virtual Cost rows_of_places(Stream&, const Tensor& rows_BP, const Tensor& places_BP, std::int64_t tokens,
                              std::int64_t first, const Jump&) const = 0;

  // out: [rows, q_tokens, groups, queries*head]; log_sum: [rows, groups, queries, q_tokens], log Σ exp of the scaled
  // scores, without dropout, always wide. A query that sees no key gives zeros and -infinity.
  // lengths: i32 [rows], or empty: keys at positions from there on are padding, which no query of the row sees. The
  // bill does not know them.
  virtual Cost attention(Stream&, const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                         const Tensor& lengths_B, const Attention&) const = 0;
  // dq and dkv have the layouts of q and kv (one tensor when packed) and are written whole, never added to: what no
  // query, key or value lies in gets zeros. q and kv may be two tensors that are each packed (gathered keys).
  virtual Cost attention_backward(Stream&, const Tensor& dq, const Tensor& dkv, const Tensor& dout, const Tensor& out,
                                  const Tensor& log_sum, const Tensor& q, const Tensor& kv, const Tensor& lengths_B,
                                  const Attention&) const = 0;
  // Two results of attention, of the same queries over different keys, become one: out and log_sum take the part in.
  // With l' = log(exp l + exp l_part): out = out exp(l - l') + part_out exp(l_part - l'), l = l'. A part that saw no
  // key (log-sum of -infinity) changes nothing. Shapes as above, of four dims.
  virtual Cost attention_merge(Stream&, const Tensor& out, const Tensor& log_sum, const Tensor& part_out,
                               const Tensor& part_log_sum) const = 0;
  virtual Cost rotary(Stream&, const Tensor& out, const Tensor& x,
                      const Rotary&) const = 0;  // out may be x; all else of a group is copied

  // Cross-entropy over a vocabulary that may be split. Labels i32 [rows], below 0: not counted. max: f64 [rows].
  // sums: f64 [rows, 3] = Σ exp(logit - max), logit of the label (0 if held elsewhere), Σ logits; of all rows. Labels
  // are below `words`. No words held: max is -infinity. A logit that is not a number may be passed over by max, but
  // makes the sums not finite.
  virtual Cost cross_entropy_max(Stream&, const Tensor& max_R, const Tensor& logits_RV) const = 0;
  virtual Cost cross_entropy_sums(Stream&, const Tensor& sums_R3, const Tensor& logits_RV, const Tensor& max_R,
                                  const Tensor& labels_R, const CrossEntropy&) const = 0;
  virtual Cost cross_entropy_loss(Stream&, const Tensor& loss_2 /* f64: += Σ loss, += count */, const Tensor& sums_R3,
                                  const Tensor& max_R, const Tensor& labels_R, const CrossEntropy&) const = 0;
  // How often the label has the largest logit, for evaluations. matches: f64 [rows, 2] = words held whose logit is max
  // (which is that of all ranks), and 1 if the label is one of them. Added over the vocabulary's ranks; then correct +=
  // Σ matches[1] / matches[0] over the rows that count, so that k equal largest logits share what is right.
  virtual Cost label_matches(Stream&, const Tensor& matches_R2, const Tensor& logits_RV, const Tensor& max_R,
                             const Tensor& labels_R, const CrossEntropy&) const = 0;
  virtual Cost count_correct(Stream&, const Tensor& correct_1 /* f64 */, const Tensor& matches_R2,
                             const Tensor& labels_R) const = 0;
  // counts: f64 [2], or empty: gradients are multiplied by counts[0] / counts[1].
  virtual Cost cross_entropy_backward(Stream&, const Tensor& dlogits_RV /* may be logits */, const Tensor& logits_RV,
                                      const Tensor& max_R, const Tensor& sums_R3, const Tensor& labels_R,
                                      const Tensor& counts_2, const CrossEntropy&) const = 0;

  // Images, NHWC: B rows, H height, W width, C channels in, F out, K kernel. Products as matmul's; cells of a window
  // that lie in the padding are zeros, and count as work.
  virtual Cost conv(Stream&, const Tensor& out_BHWF, const Tensor& x_BHWC, const Tensor& w_KKCF, const Conv&) const = 0;
  virtual Cost conv_backward_input(Stream&, const Tensor& dx_BHWC, const Tensor& dy_BHWF, const Tensor& w_KKCF,
                                   const Conv&, Write) const = 0;
  virtual Cost conv_backward_weight(Stream&, const Tensor& dw_KKCF /* may be wide */, const Tensor& dy_BHWF,
                                    const Tensor& x_BHWC, const Conv&, Write) const = 0;

  // Batch norm (Ioffe and Szegedy 2015) in two halves, so that statistics may cross ranks in between. Any leading dims
  // count as rows; rows lie in G equal groups one after the other, each with sums of its own: f64 [G, C, 3] = Σx, Σx²,
  // n. Of n = 0 nothing is read. x̂ = (x - mean) / sqrt(variance + epsilon); out = x̂·gain + bias, then ReLU if asked
  // for.
  virtual Cost channel_sums(Stream&, const Tensor& sums_GC3, const Tensor& x_RC) const = 0;
  virtual Cost batch_norm(Stream&, const Tensor& out_RC, const Tensor& x_RC, const Tensor& sums_GC3,
                          const Tensor& gain_C, const Tensor& bias_C, const BatchNorm&) const = 0;
  // f64 [G, C, 2] = Σg, Σg·x̂ of these rows, g = dy where out is above 0 (without ReLU: dy, and out may be empty).
  virtual Cost batch_norm_backward_sums(Stream&, const Tensor& sums_GC2, const Tensor& dy_RC, const Tensor& x_RC,
                                        const Tensor& out_RC, const Tensor& forward_sums_GC3,
                                        const BatchNorm&) const = 0;
  virtual Cost batch_norm_backward(Stream&, const Tensor& dx_RC /* may be dy */, const Tensor& dy_RC,
                                   const Tensor& x_RC, const Tensor& out_RC, const Tensor& forward_sums_GC3,
                                   const Tensor& backward_sums_GC2 /* of all ranks */, const Tensor& gain_C,
                                   const BatchNorm&, Write) const = 0;
  // dgain += Σ g·x̂, dbias += Σ g over the groups, from the sums of this rank's rows; either may be empty, both wide.
  virtual Cost batch_norm_backward_parameters(Stream&, const Tensor& dgain_C, const Tensor& dbias_C,
                                              const Tensor& sums_GC2) const = 0;
  // Moving averages for evaluation, f64 [C, 3] = mean, variance, 1: average = momentum·average + (1 - momentum)·now,
  // where `now` is the mean over the groups, of variances as sampled: n / (n - 1).
  virtual Cost update_averages(Stream&, const Tensor& averages_C3, const Tensor& sums_GC3, double momentum) const = 0;
  // The sums under which batch_norm uses these averages. Those of several ranks may have been added up.
  virtual Cost sums_of_averages(Stream&, const Tensor& sums_C3, const Tensor& averages_C3) const = 0;

  virtual Cost add_relu(Stream&, const Tensor& out, const Tensor& a, const Tensor& b) const = 0;  // out may be an input
  virtual Cost relu_backward(Stream&, const Tensor& dx /* may be dy */, const Tensor& dy, const Tensor& out) const = 0;
  // The largest of a window, cells in the padding left out. Backward: the first of several that are largest has it all;
  // dx is written whole.
  virtual Cost max_pool(Stream&, const Tensor& out_BHWC, const Tensor& x_BHWC, const Conv&) const = 0;
  virtual Cost max_pool_backward(Stream&, const Tensor& dx_BHWC, const Tensor& dy_BHWC, const Tensor& x_BHWC,
                                 const Conv&) const = 0;
  virtual Cost sum_pixels(Stream&, const Tensor& out_BC, const Tensor& x_BHWC, double scale) const = 0;
  virtual Cost spread_pixels(Stream&, const Tensor& dx_BHWC, const Tensor& dy_BC, double scale) const = 0;

  virtual Cost move_block(Stream&, const Tensor& out, const Tensor& in, const BlockMove&) const = 0;  // any type

  // Training. gradients are of the sum of losses; scalars: f64 [kStepScalars]. A step that is not finite changes
  // nothing.
  virtual Cost sum_of_squares(Stream&, const Tensor& sum_1 /* f64: += Σ x² */, const Tensor& x) const = 0;
  // The rate and the number of the step (from 1) come from the device: a captured step can then be replayed.
  // totals: f64 [3 + 2k] = loss, count, norm², and of k further losses (loss, count) each: of these the mean counts
  // once, that of none 0.
  virtual Cost step_scalars(Stream&, const Tensor& scalars, const Tensor& totals,
                            const Tensor& settings_2 /* f64: rate, step */, double clip_norm /* 0: none */) const = 0;
  virtual Cost adamw(Stream&, const Tensor& values, const Tensor& gradients, const Tensor& first_moment,
                     const Tensor& second_moment, const Tensor& scalars, const AdamW&) const = 0;
  virtual Cost sgd_momentum(Stream&, const Tensor& values, const Tensor& gradients,
                            const Tensor& velocity /* empty: plain */, const Tensor& scalars,
                            const SgdMomentum&) const = 0;
  virtual Cost lars(Stream&, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                    const Tensor& norms_2 /* f64: Σ value², Σ gradient², of the whole parameter; or empty */,
                    const Tensor& scalars, const Lars&) const = 0;
  // LAMB in two halves, because the norm of the update crosses ranks in between: new moments and their squares, then
  // new values. The update is computed in both and never stored.
  virtual Cost lamb_moments(Stream&, const Tensor& squares_1 /* f64: += Σ update²; or empty */, const Tensor& values,
                            const Tensor& gradients, const Tensor& first_moment, const Tensor& second_moment,
                            const Tensor& scalars, const Lamb&) const = 0;
  virtual Cost lamb_step(Stream&, const Tensor& values, const Tensor& first_moment, const Tensor& second_moment,
                         const Tensor& norms_2 /* f64: Σ value², Σ update², of the whole parameter; or empty */,
                         const Tensor& scalars, const Lamb&) const = 0;
};

}  // namespace quadrille
