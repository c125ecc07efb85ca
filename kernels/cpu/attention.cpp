// SPDX-License-Identifier: Apache-2.0
// Attention over the threads of a rank: an item is one batch row and key/value group, see attention_loops.h. Rotary
// positions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cpu/attention_loops.h"
#include "kernels/cpu/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"

namespace quadrille {

namespace {

using Pass = void (*)(const AttentionItem&, const AttentionOperands&, float*) noexcept;

const std::int32_t* lengths_of(const Tensor& lengths) { return lengths ? lengths.as<std::int32_t>() : nullptr; }

void over_items(Pass pass, const AttentionOperands& operands, const Attention& how) {
  const std::int64_t each = attention_loops().scratch(how);
  float* scratch = scratch_of_rank(omp_get_max_threads(), each);
  const std::int64_t items = how.rows * how.groups;
  parallel_items(items, items * how.queries * how.q_tokens * how.kv_tokens,
                 [&](std::int64_t item, int thread) noexcept {
                   pass({&how, item / how.groups, item % how.groups}, operands, scratch + thread * each);
                 });
}

}  // namespace

Cost CpuOps::attention(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                       const Tensor& lengths, const Attention& how) const {
  check_attention(stream, out, log_sum, q, kv, lengths, how);
  AttentionOperands operands{};
  operands.lengths = lengths_of(lengths), operands.q = floats(q), operands.kv = floats(kv), operands.out = floats(out),
  operands.log_sum = floats(log_sum);
  over_items(attention_loops().forward, operands, how);
  return bill_attention(out, log_sum, q, kv, how, kAttentionBlock);
}

Cost CpuOps::attention_backward(Stream& stream, const Tensor& dq, const Tensor& dkv, const Tensor& dout,
                                const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                                const Tensor& lengths, const Attention& how) const {
  check_attention_backward(stream, dq, dkv, dout, out, log_sum, q, kv, lengths, how);
  // Written whole: parts of a group that are neither queries, keys nor values get zeros.
  const bool packed = dq.same_place(dkv);
  if (!packed && how.q_width != how.queries * how.head) stream.zero(dq);
  if (!packed && how.kv_width != 2 * how.head) stream.zero(dkv);
  over_items(
      attention_loops().backward,
      {lengths_of(lengths), floats(q), floats(kv), floats(out), floats(log_sum), floats(dout), floats(dq), floats(dkv)},
      how);
  return bill_attention_backward(dq, dkv, dout, out, log_sum, q, kv, how, kAttentionBlock);
}

Cost CpuOps::attention_merge(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& part_out,
                             const Tensor& part_log_sum) const {
  const MergeExtents e = check_attention_merge(stream, out, log_sum, part_out, part_log_sum);
  // An item is one token of one group; its log-sums lie `tokens` apart.
  parallel_parts(e.rows * e.tokens * e.groups, out.count(), 1,
                 [&e, to = floats(out), sums = floats(log_sum), from = floats(part_out),
                  parts = floats(part_log_sum)](Slice s) noexcept {
                   for (std::int64_t i = s.first; i < s.end(); ++i) {
                     const std::int64_t group = i % e.groups, row = i / e.groups / e.tokens,
                                        token = i / e.groups % e.tokens;
                     for (std::int64_t r = 0; r < e.queries; ++r) {
                       const std::int64_t at = ((row * e.groups + group) * e.queries + r) * e.tokens + token;
                       const float max = std::max(sums[at], parts[at]);
                       if (max == -std::numeric_limits<float>::infinity()) continue;  // no key so far
                       const float sum = max + std::log(std::exp(sums[at] - max) + std::exp(parts[at] - max));
                       const float mine = std::exp(sums[at] - sum), part = std::exp(parts[at] - sum);
                       const std::int64_t first = (i * e.queries + r) * e.head;
                       for (std::int64_t d = first; d < first + e.head; ++d) to[d] = mine * to[d] + part * from[d];
                       sums[at] = sum;
                     }
                   }
                 });
  return bill_attention_merge(out, log_sum, part_out, part_log_sum);
}

Cost CpuOps::rotary(Stream& stream, const Tensor& out, const Tensor& x, const Rotary& how) const {
  check_rotary(stream, out, x, how);
  if (!out.same_place(x)) stream.copy(out, x);
  const std::int64_t half = how.head / 2;
  parallel_parts(how.tokens, out.count(), 1, [&, data = floats(out)](Slice s) noexcept {
    constexpr std::int64_t kPairs = 64;  // sines and cosines of a token, kept for its rows and heads
    float cosines[kPairs], sines[kPairs];
    for (std::int64_t t = s.first; t < s.end(); ++t)
      for (std::int64_t first = 0; first < half; first += kPairs) {
        const std::int64_t pairs = std::min(kPairs, half - first);
        for (std::int64_t i = 0; i < pairs; ++i) {
          const double power =
              std::pow(how.base, -2.0 * static_cast<double>(first + i) / static_cast<double>(how.head));
          const double angle = static_cast<double>(position_of(how.first_token, how.jump, t)) * power;
          cosines[i] = static_cast<float>(std::cos(angle));
          sines[i] = static_cast<float>(how.inverse ? -std::sin(angle) : std::sin(angle));
        }
        for (std::int64_t bg = 0; bg < how.rows * how.groups; ++bg)
          for (std::int64_t h = 0; h < how.heads; ++h) {
            const std::int64_t at =
                ((bg / how.groups * how.tokens + t) * how.groups + bg % how.groups) * how.width + h * how.head + first;
            float *low = data + at, *high = low + half;
            for (std::int64_t i = 0; i < pairs; ++i) {
              const float a = low[i], b = high[i];
              low[i] = a * cosines[i] - b * sines[i];
              high[i] = a * sines[i] + b * cosines[i];
            }
          }
      }
  });
  return bill_rotary(out, x);
}

}  // namespace quadrille
