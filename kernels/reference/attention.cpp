// SPDX-License-Identifier: Apache-2.0
// Attention and rotary positions of the reference. One query at a time: its scores over the keys it sees, their
// softmax, the weighted values. With S the scaled scores, P their softmax, M the dropout multipliers (0 or 1/(1-p)):
//   out = (P∘M) V,  dP = M∘(dout Vᵀ),  dS = P∘(dP - dout·out),  dQ = scale dS K,  dK = scale dSᵀ Q,  dV = (P∘M)ᵀ dout.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/ops.h"

namespace quadrille {

namespace {

// Which query: row, group, query of the group, token.
struct Query {
  std::int64_t b = 0, g = 0, r = 0, t = 0;
};

std::int64_t q_at(const Attention& how, const Query& at) {
  return ((at.b * how.q_tokens + at.t) * how.groups + at.g) * how.q_width + at.r * how.head;
}
std::int64_t k_at(const Attention& how, const Query& at, std::int64_t token) {
  return ((at.b * how.kv_tokens + token) * how.groups + at.g) * how.kv_width + how.kv_offset;
}
std::int64_t out_at(const Attention& how, const Query& at) {
  return (((at.b * how.q_tokens + at.t) * how.groups + at.g) * how.queries + at.r) * how.head;
}
std::int64_t log_sum_at(const Attention& how, const Query& at) {
  return ((at.b * how.groups + at.g) * how.queries + at.r) * how.q_tokens + at.t;
}

// How many keys a query sees, from the first on.
std::int64_t keys_of(const Attention& how, const Query& at, const Tensor& lengths) {
  return visible_keys(how, at.t, lengths ? numbers<std::int32_t>(lengths)[at.b] : kWholeLength);
}

// What dropout multiplies the probability of a key with.
double multiplier(const Attention& how, const Query& at, std::int64_t token) {
  if (how.dropout == 0) return 1;
  const std::int64_t head = how.first_head + at.g * how.queries + at.r;
  const std::int64_t index =
      (((how.first_row + at.b) * how.heads_global + head) * how.q_global + position_of(how.q_first, how.q_jump, at.t)) *
          how.kv_global +
      position_of(how.kv_first, how.kv_jump, token);
  return uniform_at(how.key, static_cast<std::uint64_t>(index)) >= how.dropout ? 1 / (1 - how.dropout) : 0;
}

template <class T>
double dot(const T* a, const T* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

template <class T>
void attend(const Attention& how, const Query& at, T* out, T* log_sum, const T* q, const T* kv, std::int64_t keys) {
  std::vector<double> scores(static_cast<std::size_t>(keys)), sums(static_cast<std::size_t>(how.head), 0.0);
  double max = -std::numeric_limits<double>::infinity(), total = 0;
  for (std::int64_t j = 0; j < keys; ++j) {
    double& score = scores[static_cast<std::size_t>(j)];
    score = how.scale * dot(q + q_at(how, at), kv + k_at(how, at, j), how.head);
    max = std::max(max, score);
  }
  for (std::int64_t j = 0; j < keys; ++j) {
    const double weight = std::exp(scores[static_cast<std::size_t>(j)] - max);
    const double kept = weight * multiplier(how, at, j);
    const T* value = kv + k_at(how, at, j) + how.head;
    total += weight;
    for (std::int64_t d = 0; d < how.head; ++d) sums[static_cast<std::size_t>(d)] += kept * value[d];
  }
  for (std::int64_t d = 0; d < how.head; ++d)  // a query that sees no key: zeros, and a log-sum of minus infinity
    out[out_at(how, at) + d] = keys == 0 ? T{0} : static_cast<T>(sums[static_cast<std::size_t>(d)] / total);
  log_sum[log_sum_at(how, at)] = static_cast<T>(keys == 0 ? max : max + std::log(total));
}

template <class T>
void merge(const Attention& how, const Query& at, T* out, T* log_sum, const T* part_out, const T* part_log_sum) {
  const double mine = log_sum[log_sum_at(how, at)], part = part_log_sum[log_sum_at(how, at)];
  const double max = std::max(mine, part);
  if (max == -std::numeric_limits<double>::infinity()) return;  // no key so far
  const double sum = max + std::log(std::exp(mine - max) + std::exp(part - max));
  for (std::int64_t d = out_at(how, at); d < out_at(how, at) + how.head; ++d)
    out[d] = static_cast<T>(std::exp(mine - sum) * out[d] + std::exp(part - sum) * part_out[d]);
  log_sum[log_sum_at(how, at)] = static_cast<T>(sum);
}

// Operands of the backward pass, and the sums over queries in double.
template <class T>
struct Backward {
  const T *dout, *out, *log_sum, *q, *kv;
  std::vector<double>&dq, &dkv;
};

template <class T>
void attend_back(const Attention& how, const Query& at, const Backward<T>& x, std::int64_t keys) {
  const T* dout = x.dout + out_at(how, at);
  const T* q = x.q + q_at(how, at);
  double* dq = x.dq.data() + q_at(how, at);
  const double inner = dot(dout, x.out + out_at(how, at), how.head);
  for (std::int64_t j = 0; j < keys; ++j) {
    const T* k = x.kv + k_at(how, at, j);
    const T* v = k + how.head;
    double* dk = x.dkv.data() + k_at(how, at, j);
    double* dv = dk + how.head;
    const double probability = std::exp(how.scale * dot(q, k, how.head) - x.log_sum[log_sum_at(how, at)]);
    const double kept = multiplier(how, at, j);
    const double dscore = how.scale * probability * (kept * dot(dout, v, how.head) - inner);
    for (std::int64_t d = 0; d < how.head; ++d) {
      dq[d] += dscore * k[d];
      dk[d] += dscore * q[d];
      dv[d] += probability * kept * dout[d];
    }
  }
}

template <class F>
void for_each_query(const Attention& how, F&& work) {
  for (std::int64_t b = 0; b < how.rows; ++b)
    for (std::int64_t g = 0; g < how.groups; ++g)
      for (std::int64_t r = 0; r < how.queries; ++r)
        for (std::int64_t t = 0; t < how.q_tokens; ++t) work(Query{b, g, r, t});
}

template <class T>
void write_whole(const Tensor& to, const std::vector<double>& from) {
  std::transform(from.begin(), from.end(), numbers<T>(to), [](double v) { return static_cast<T>(v); });
}

template <class T>
void turn(const Rotary& how, T* x, double position) {  // x: one head
  const std::int64_t half = how.head / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const double angle = position * std::pow(how.base, -2.0 * static_cast<double>(i) / static_cast<double>(how.head));
    const double cosine = std::cos(angle), sine = how.inverse ? -std::sin(angle) : std::sin(angle);
    const double first = x[i], second = x[i + half];
    x[i] = static_cast<T>(first * cosine - second * sine);
    x[i + half] = static_cast<T>(first * sine + second * cosine);
  }
}

}  // namespace

Cost ReferenceOps::attention(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& q,
                             const Tensor& kv, const Tensor& lengths, const Attention& how) const {
  check_attention(stream, out, log_sum, q, kv, lengths, how);
  with_type_of(out, [&]<class T>(T) {
    for_each_query(how, [&](const Query& at) {
      attend(how, at, numbers<T>(out), numbers<T>(log_sum), numbers<T>(q), numbers<T>(kv), keys_of(how, at, lengths));
    });
  });
  return bill_attention(out, log_sum, q, kv, how, kAttentionBlock);
}

Cost ReferenceOps::attention_backward(Stream& stream, const Tensor& dq, const Tensor& dkv, const Tensor& dout,
                                      const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                                      const Tensor& lengths, const Attention& how) const {
  check_attention_backward(stream, dq, dkv, dout, out, log_sum, q, kv, lengths, how);
  const bool packed = dq.same_place(dkv);
  std::vector<double> dq_sums(static_cast<std::size_t>(dq.count()), 0.0);
  std::vector<double> dkv_sums(packed ? 0 : static_cast<std::size_t>(dkv.count()), 0.0);
  with_type_of(out, [&]<class T>(T) {
    const Backward<T> operands{numbers<T>(dout), numbers<T>(out), numbers<T>(log_sum),        numbers<T>(q),
                               numbers<T>(kv),   dq_sums,         packed ? dq_sums : dkv_sums};
    for_each_query(how, [&](const Query& at) { attend_back(how, at, operands, keys_of(how, at, lengths)); });
    write_whole<T>(dq, dq_sums);
    if (!packed) write_whole<T>(dkv, dkv_sums);
  });
  return bill_attention_backward(dq, dkv, dout, out, log_sum, q, kv, how, kAttentionBlock);
}

Cost ReferenceOps::attention_merge(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& part_out,
                                   const Tensor& part_log_sum) const {
  const MergeExtents e = check_attention_merge(stream, out, log_sum, part_out, part_log_sum);
  Attention how;
  how.rows = e.rows, how.q_tokens = e.tokens, how.groups = e.groups, how.queries = e.queries, how.head = e.head;
  with_type_of(out, [&]<class T>(T) {
    for_each_query(how, [&](const Query& at) {
      merge(how, at, numbers<T>(out), numbers<T>(log_sum), numbers<T>(part_out), numbers<T>(part_log_sum));
    });
  });
  return bill_attention_merge(out, log_sum, part_out, part_log_sum);
}

Cost ReferenceOps::rotary(Stream& stream, const Tensor& out, const Tensor& x, const Rotary& how) const {
  check_rotary(stream, out, x, how);
  with_type_of(out, [&]<class T>(T) {
    if (!out.same_place(x)) std::copy_n(numbers<T>(x), x.count(), numbers<T>(out));
    for (std::int64_t b = 0; b < how.rows; ++b)
      for (std::int64_t t = 0; t < how.tokens; ++t)
        for (std::int64_t g = 0; g < how.groups; ++g)
          for (std::int64_t h = 0; h < how.heads; ++h)
            turn(how, numbers<T>(out) + ((b * how.tokens + t) * how.groups + g) * how.width + h * how.head,
                 static_cast<double>(position_of(how.first_token, how.jump, t)));
  });
  return bill_rotary(out, x);
}

}  // namespace quadrille
