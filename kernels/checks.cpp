// SPDX-License-Identifier: Apache-2.0
// The demands of every op, in the order of ops.h; those of training stand in checks_training.cpp.
#include "kernels/checks.h"

#include <cmath>
#include <limits>

#include "core/error.h"
#include "kernels/demands.h"

namespace quadrille {

namespace {

constexpr std::int64_t kAnywhere = std::numeric_limits<std::int64_t>::max();  // a whole without an end

}  // namespace

void check_convert(const Stream& stream, const Tensor& out, const Tensor& in) {
  const Check check("convert", stream);
  check.real({{"in", in}});
  check.real({{"out", out}});
  check.count({"out", out}, in.count(), "as many as there are in");
  check.apart({"out", out}, {{"in", in}});
}

MatmulExtents check_matmul(const Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b,
                           const Tensor& bias, const Matmul& how) {
  const Check check("matmul", stream);
  check.real({{"a", a}, {"b", b}});
  check.maybe_wide({"out", out}, a.dtype());
  require(!how.tf32 || a.dtype() == DType::f32, "matmul: tf32 was asked for operands of {}, wanted f32",
          name_of(a.dtype()));
  const Extents of_out = check.matrix({"out", out}), of_a = check.matrix({"a", a}), of_b = check.matrix({"b", b});
  MatmulExtents e{of_a.rows, of_b.columns, of_a.columns};
  if (how.a == Transpose::yes) e.m = of_a.columns, e.k = of_a.rows;
  std::int64_t k_of_b = of_b.rows;
  if (how.b == Transpose::yes) e.n = of_b.rows, k_of_b = of_b.columns;
  require(e.k == k_of_b && of_out.rows == e.m && of_out.columns == e.n,
          "matmul: out {} from a {}{} and b {}{}: the extents do not fit", out.shape().text(), a.shape().text(),
          how.a == Transpose::yes ? " transposed" : "", b.shape().text(), how.b == Transpose::yes ? " transposed" : "");
  check.apart({"out", out}, {{"a", a}, {"b", b}, {"bias", bias}});
  if (bias) {
    check.type(a.dtype(), {{"bias", bias}});
    check.count({"bias", bias}, e.n, "the columns of out");
  }
  return e;
}

void check_add(const Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) {
  const Check check("add", stream);
  check.alike({{"out", out}, {"a", a}});
  check.real({{"b", b}});
  check.maybe_wide({"out", out}, b.dtype());
  check.same_shape({"b", b}, {"out", out});
  check.apart_or_same({"out", out}, {{"a", a}, {"b", b}});
}

Extents check_add_bias(const Stream& stream, const Tensor& out, const Tensor& x, const Tensor& bias) {
  const Check check("add_bias", stream);
  check.alike({{"out", out}, {"x", x}});
  check.type(x.dtype(), {{"bias", bias}});
  const Extents e = check.matrix({"x", x});
  check.count({"bias", bias}, e.columns, "the columns of x");
  check.apart_or_same({"out", out}, {{"x", x}});
  check.apart({"out", out}, {{"bias", bias}});
  return e;
}

Extents check_sum_rows(const Stream& stream, const Tensor& out, const Tensor& x) {
  const Check check("sum_rows", stream);
  check.real({{"x", x}});
  check.maybe_wide({"out", out}, x.dtype());
  const Extents e = check.matrix({"x", x});
  check.count({"out", out}, e.columns, "the columns of x");
  check.apart({"out", out}, {{"x", x}});
  return e;
}

void check_gelu(const Stream& stream, const Tensor& out, const Tensor& x) {
  const Check check("gelu", stream);
  check.alike({{"out", out}, {"x", x}});
  check.apart_or_same({"out", out}, {{"x", x}});
}

void check_relu(const Stream& stream, const Tensor& out, const Tensor& x) {
  const Check check("relu", stream);
  check.alike({{"out", out}, {"x", x}});
  check.apart_or_same({"out", out}, {{"x", x}});
}

void check_gelu_backward(const Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x) {
  const Check check("gelu_backward", stream);
  check.alike({{"dx", dx}, {"dy", dy}, {"x", x}});
  check.apart_or_same({"dx", dx}, {{"dy", dy}, {"x", x}});
}

void check_tanh(const Stream& stream, const Tensor& out, const Tensor& x) {
  const Check check("tanh", stream);
  check.alike({{"out", out}, {"x", x}});
  check.apart_or_same({"out", out}, {{"x", x}});
}

void check_tanh_backward(const Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y) {
  const Check check("tanh_backward", stream);
  check.alike({{"dx", dx}, {"dy", dy}, {"y", y}});
  check.apart_or_same({"dx", dx}, {{"dy", dy}, {"y", y}});
}

void check_gated_silu(const Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up) {
  const Check check("gated_silu", stream);
  check.alike({{"out", out}, {"gate", gate}, {"up", up}});
  check.apart_or_same({"out", out}, {{"gate", gate}, {"up", up}});
}

void check_gated_silu_backward(const Stream& stream, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                               const Tensor& gate, const Tensor& up) {
  const Check check("gated_silu_backward", stream);
  check.alike({{"dgate", dgate}, {"dup", dup}, {"dy", dy}, {"gate", gate}, {"up", up}});
  check.apart({"dgate", dgate}, {{"dup", dup}});
  check.apart_or_same({"dgate", dgate}, {{"dy", dy}, {"gate", gate}, {"up", up}});
  check.apart_or_same({"dup", dup}, {{"dy", dy}, {"gate", gate}, {"up", up}});
}

void check_dropout(const Stream& stream, const Tensor& out, const Tensor& x, const Dropout& how) {
  const Check check("dropout", stream);
  check.alike({{"out", out}, {"x", x}});
  check.apart_or_same({"out", out}, {{"x", x}});
  check.that(x.shape().rank() == 3, "three dims: rows, tokens, features", x.shape().text());
  check.that(how.probability >= 0 && how.probability < 1, "a probability in [0, 1)", how.probability);
  check.that(how.first_row >= 0, "a first row of at least 0", how.first_row);
  check.positions("tokens", how.first_token, how.jump, x.shape()[1], how.tokens);
  check.part("features", how.first_feature, x.shape()[2], how.features);
}

Extents check_norm_sums(const Stream& stream, const Tensor& sums, const Tensor& x) {
  const Check check("norm_sums", stream);
  check.real({{"x", x}});
  check.type(DType::f64, {{"sums", sums}});
  const Extents e = check.matrix({"x", x});
  check.count({"sums", sums}, e.rows * 2, "rows of x * 2");
  check.apart({"sums", sums}, {{"x", x}});
  return e;
}

namespace {
// What the four later halves of a norm have in common.
Extents check_norm_operands(const Check& check, const Tensor& x, const Tensor& forward_sums, const Norm& how) {
  check.real({{"x", x}});
  check.type(DType::f64, {{"forward_sums", forward_sums}});
  const Extents e = check.matrix({"x", x});
  check.count({"forward_sums", forward_sums}, e.rows * 2, "rows of x * 2");
  check.that(how.width >= e.columns && how.width > 0, "a norm width of at least the columns of x", how.width);
  check.that(how.epsilon >= 0 && std::isfinite(how.epsilon), "an epsilon of at least 0", how.epsilon);
  return e;
}
void check_gain(const Check& check, std::string_view name, const Tensor& gain, const Tensor& x, std::int64_t columns) {
  check.type(x.dtype(), {{name, gain}});
  check.count({name, gain}, columns, "the columns of x");
}
}  // namespace

Extents check_norm(const Stream& stream, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
                   const Tensor& bias, const Norm& how) {
  const Check check("norm", stream);
  const Extents e = check_norm_operands(check, x, sums, how);
  check.alike({{"out", out}, {"x", x}});
  check_gain(check, "gain", gain, x, e.columns);
  require(!(how.kind == NormKind::rms && bias), "norm: a bias was given to an rms norm, which has none");
  if (bias) check_gain(check, "bias", bias, x, e.columns);
  check.apart({"out", out}, {{"x", x}, {"sums", sums}, {"gain", gain}, {"bias", bias}});
  return e;
}

Extents check_norm_backward_sums(const Stream& stream, const Tensor& sums, const Tensor& dy, const Tensor& x,
                                 const Tensor& forward_sums, const Tensor& gain, const Norm& how) {
  const Check check("norm_backward_sums", stream);
  const Extents e = check_norm_operands(check, x, forward_sums, how);
  check.alike({{"x", x}, {"dy", dy}});
  check_gain(check, "gain", gain, x, e.columns);
  check.type(DType::f64, {{"sums", sums}});
  check.count({"sums", sums}, e.rows * 2, "rows of x * 2");
  check.apart({"sums", sums}, {{"dy", dy}, {"x", x}, {"forward_sums", forward_sums}, {"gain", gain}});
  return e;
}

Extents check_norm_backward(const Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                            const Tensor& forward_sums, const Tensor& backward_sums, const Tensor& gain,
                            const Norm& how) {
  const Check check("norm_backward", stream);
  const Extents e = check_norm_operands(check, x, forward_sums, how);
  check.alike({{"x", x}, {"dx", dx}, {"dy", dy}});
  check_gain(check, "gain", gain, x, e.columns);
  check.type(DType::f64, {{"backward_sums", backward_sums}});
  check.count({"backward_sums", backward_sums}, e.rows * 2, "rows of x * 2");
  check.apart({"dx", dx},
              {{"dy", dy}, {"x", x}, {"forward_sums", forward_sums}, {"backward_sums", backward_sums}, {"gain", gain}});
  return e;
}

Extents check_norm_backward_parameters(const Stream& stream, const Tensor& dgain, const Tensor& dbias, const Tensor& dy,
                                       const Tensor& x, const Tensor& forward_sums, const Norm& how) {
  const Check check("norm_backward_parameters", stream);
  const Extents e = check_norm_operands(check, x, forward_sums, how);
  check.alike({{"x", x}, {"dy", dy}});
  for (const Named& d : {Named{"dgain", dgain}, Named{"dbias", dbias}}) {
    if (!d.tensor) continue;
    check.maybe_wide(d, x.dtype());
    check.count(d, e.columns, "the columns of x");
  }
  check.apart({"dgain", dgain}, {{"dbias", dbias}, {"dy", dy}, {"x", x}, {"forward_sums", forward_sums}});
  check.apart({"dbias", dbias}, {{"dy", dy}, {"x", x}, {"forward_sums", forward_sums}});
  return e;
}

namespace {
Extents check_lookup(const Check& check, Named table, Named rows, Named ids, std::int64_t first_row) {
  check.type(DType::i32, {ids});
  check.that(table.tensor.shape().rank() == 2, "a table of two dims", table.tensor.shape().text());
  const Extents e = check.matrix(rows);
  check.that(e.columns == table.tensor.shape()[1], "columns as many as the table's", rows.tensor.shape().text());
  check.count(ids, e.rows, "one id per row");
  check.that(first_row >= 0, "a first row of at least 0", first_row);
  return e;
}
}  // namespace

Extents check_embedding(const Stream& stream, const Tensor& out, const Tensor& table, const Tensor& ids,
                        std::int64_t first_row) {
  const Check check("embedding", stream);
  check.real({{"table", table}, {"out", out}});
  const Extents e = check_lookup(check, {"table", table}, {"out", out}, {"ids", ids}, first_row);
  check.apart({"out", out}, {{"table", table}, {"ids", ids}});
  return e;
}

Extents check_embedding_backward(const Stream& stream, const Tensor& dtable, const Tensor& dout, const Tensor& ids,
                                 std::int64_t first_row) {
  const Check check("embedding_backward", stream);
  check.real({{"dout", dout}});
  check.maybe_wide({"dtable", dtable}, dout.dtype());
  const Extents e = check_lookup(check, {"dtable", dtable}, {"dout", dout}, {"ids", ids}, first_row);
  check.apart({"dtable", dtable}, {{"dout", dout}, {"ids", ids}});
  return e;
}

Extents check_positions(const Stream& stream, const Tensor& ids, std::int64_t first, const Jump& jump) {
  const Check check("positions", stream);
  check.type(DType::i32, {{"ids", ids}});
  check.that(ids.shape().rank() == 2, "two dims: rows, tokens", ids.shape().text());
  const Extents e = check.matrix({"ids", ids});
  check.positions("tokens", first, jump, e.columns, std::numeric_limits<std::int32_t>::max());
  return e;
}

void check_sinusoids(const Stream& stream, const Tensor& out, const Tensor& x, const Sinusoids& how) {
  const Check check("sinusoids", stream);
  check.alike({{"out", out}, {"x", x}});
  check.apart_or_same({"out", out}, {{"x", x}});
  check.that(x.shape().rank() == 3, "three dims: rows, tokens, features", x.shape().text());
  check.that(std::isfinite(how.factor) && std::isfinite(how.amplitude), "a finite factor and amplitude",
             fmt::format("{} and {}", how.factor, how.amplitude));
  check.positions("tokens", how.first_token, how.jump, x.shape()[1], std::numeric_limits<std::int32_t>::max());
  check.part("features", how.first_feature, x.shape()[2], how.features);
}

Extents check_rows_of_places(const Stream& stream, const Tensor& rows, const Tensor& places, std::int64_t tokens,
                             std::int64_t first, const Jump& jump) {
  const Check check("rows_of_places", stream);
  check.type(DType::i32, {{"rows", rows}, {"places", places}});
  check.same_shape({"rows", rows}, {"places", places});
  check.that(places.shape().rank() == 2, "two dims: rows, places", places.shape().text());
  const Extents e = check.matrix({"places", places});
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  check.positions("tokens", first, jump, tokens, kMost);
  check.that(tokens == 0 || e.rows <= kMost / tokens, "tokens that an i32 can number",
             fmt::format("{} rows of {}", e.rows, tokens));
  check.apart({"rows", rows}, {{"places", places}});
  return e;
}

Extents check_row_lengths(const Stream& stream, const Tensor& lengths, const Tensor& ids) {
  const Check check("row_lengths", stream);
  check.type(DType::i32, {{"lengths", lengths}, {"ids", ids}});
  check.that(ids.shape().rank() == 2, "two dims: rows, tokens", ids.shape().text());
  const Extents e = check.matrix({"ids", ids});
  check.count({"lengths", lengths}, e.rows, "rows of ids");
  check.apart({"lengths", lengths}, {{"ids", ids}});
  return e;
}

namespace {
std::int64_t q_count(const Attention& how) { return how.rows * how.q_tokens * how.groups * how.q_width; }
std::int64_t kv_count(const Attention& how) { return how.rows * how.kv_tokens * how.groups * how.kv_width; }
std::int64_t out_count(const Attention& how) { return how.rows * how.q_tokens * how.groups * how.queries * how.head; }
std::int64_t log_sum_count(const Attention& how) { return how.rows * how.q_tokens * how.groups * how.queries; }

void check_attention_layout(const Check& check, const Tensor& q, const Tensor& kv, const Tensor& out,
                            const Tensor& log_sum, const Tensor& lengths, const Attention& how) {
  check.real({{"q", q}, {"kv", kv}, {"out", out}});
  check.type(wide(q.dtype()), {{"log_sum", log_sum}});
  check.that(how.rows >= 0 && how.q_tokens >= 0 && how.kv_tokens >= 0, "no negative rows or tokens",
             fmt::format("{} rows, {} and {} tokens", how.rows, how.q_tokens, how.kv_tokens));
  check.that(how.groups > 0 && how.queries > 0 && how.head > 0, "groups, queries and head of at least 1",
             fmt::format("{} groups, {} queries, head {}", how.groups, how.queries, how.head));
  check.that(how.q_width >= how.queries * how.head, "a q_width of at least queries * head", how.q_width);
  check.that(how.kv_offset >= 0 && how.kv_width >= how.kv_offset + 2 * how.head,
             "a kv_width of at least kv_offset + 2 * head", how.kv_width);
  check.positions("query positions", how.q_first, how.q_jump, how.q_tokens, kAnywhere);
  check.positions("key positions", how.kv_first, how.kv_jump, how.kv_tokens, kAnywhere);
  check.that(std::isfinite(how.scale), "a finite scale", how.scale);
  check.count({"q", q}, q_count(how), "rows * q_tokens * groups * q_width");
  check.count({"kv", kv}, kv_count(how), "rows * kv_tokens * groups * kv_width");
  check.count({"out", out}, out_count(how), "rows * q_tokens * groups * queries * head");
  check.count({"log_sum", log_sum}, log_sum_count(how), "rows * groups * queries * q_tokens");
  if (lengths) {
    check.type(DType::i32, {{"lengths", lengths}});
    check.count({"lengths", lengths}, how.rows, "rows");
  }
  check.that(how.dropout >= 0 && how.dropout < 1, "a dropout probability in [0, 1)", how.dropout);
  if (how.dropout == 0) return;
  check.that(how.first_row >= 0, "a first row of at least 0", how.first_row);
  check.part("heads", how.first_head, how.groups * how.queries, how.heads_global);
  check.positions("query positions", how.q_first, how.q_jump, how.q_tokens, how.q_global);
  check.positions("key positions", how.kv_first, how.kv_jump, how.kv_tokens, how.kv_global);
}
}  // namespace

void check_attention(const Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                     const Tensor& lengths, const Attention& how) {
  const Check check("attention", stream);
  check_attention_layout(check, q, kv, out, log_sum, lengths, how);
  check.apart({"out", out}, {{"log_sum", log_sum}, {"q", q}, {"kv", kv}});
  check.apart({"log_sum", log_sum}, {{"q", q}, {"kv", kv}});
}

void check_attention_backward(const Stream& stream, const Tensor& dq, const Tensor& dkv, const Tensor& dout,
                              const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                              const Tensor& lengths, const Attention& how) {
  const Check check("attention_backward", stream);
  check_attention_layout(check, q, kv, out, log_sum, lengths, how);
  check.type(q.dtype(), {{"dq", dq}, {"dkv", dkv}, {"dout", dout}});
  check.count({"dq", dq}, q_count(how), "rows * q_tokens * groups * q_width");
  check.count({"dkv", dkv}, kv_count(how), "rows * kv_tokens * groups * kv_width");
  check.count({"dout", dout}, out_count(how), "rows * q_tokens * groups * queries * head");
  for (const Named& d : {Named{"dq", dq}, Named{"dkv", dkv}})
    check.apart(d, {{"dout", dout}, {"out", out}, {"log_sum", log_sum}, {"q", q}, {"kv", kv}});
  check.apart_or_same({"dq", dq}, {{"dkv", dkv}});
  if (!dq.overlaps(dkv)) return;
  const std::int64_t width = (how.queries + 2) * how.head;
  check.that(how.q_tokens == how.kv_tokens && how.q_width == width && how.kv_width == width &&
                 how.kv_offset == how.queries * how.head,
             "the packed layout of ops.h when dq and dkv are one tensor",
             fmt::format("q_width {}, kv_width {}, kv_offset {}", how.q_width, how.kv_width, how.kv_offset));
}

MergeExtents check_attention_merge(const Stream& stream, const Tensor& out, const Tensor& log_sum,
                                   const Tensor& part_out, const Tensor& part_log_sum) {
  const Check check("attention_merge", stream);
  check.alike({{"out", out}, {"part_out", part_out}});
  check.alike({{"log_sum", log_sum}, {"part_log_sum", part_log_sum}});
  check.type(wide(out.dtype()), {{"log_sum", log_sum}});
  const Shape &o = out.shape(), &l = log_sum.shape();
  check.that(o.rank() == 4 && l.rank() == 4,
             "out [rows, tokens, groups, width], log_sum [rows, groups, queries, tokens]",
             o.text() + " and " + l.text());
  check.that(o[0] == l[0] && o[1] == l[3] && o[2] == l[1] && l[2] > 0 && o[3] % l[2] == 0,
             "rows, tokens and groups alike, and heads of equal width", o.text() + " and " + l.text());
  check.apart({"out", out}, {{"log_sum", log_sum}, {"part_out", part_out}, {"part_log_sum", part_log_sum}});
  check.apart({"log_sum", log_sum}, {{"part_out", part_out}, {"part_log_sum", part_log_sum}});
  return {o[0], o[1], o[2], l[2], o[3] / l[2]};
}

void check_rotary(const Stream& stream, const Tensor& out, const Tensor& x, const Rotary& how) {
  const Check check("rotary", stream);
  check.alike({{"out", out}, {"x", x}});
  check.apart_or_same({"out", out}, {{"x", x}});
  check.that(how.rows >= 0 && how.tokens >= 0 && how.groups > 0, "rows and tokens of at least 0, groups of at least 1",
             fmt::format("{} rows, {} tokens, {} groups", how.rows, how.tokens, how.groups));
  check.that(how.head > 0 && how.head % 2 == 0, "an even head width", how.head);
  check.that(how.heads >= 0 && how.heads * how.head <= how.width, "heads that fit into the width of a group",
             how.heads);
  check.that(how.base > 0 && std::isfinite(how.base), "a base above 0", how.base);
  check.positions("tokens", how.first_token, how.jump, how.tokens, kAnywhere);
  check.count({"x", x}, how.rows * how.tokens * how.groups * how.width, "rows * tokens * groups * width");
}

namespace {
void check_vocabulary(const Check& check, const CrossEntropy& how, std::int64_t held) {
  check.part("words", how.first_word, held, how.words);
  check.that(how.smoothing >= 0 && how.smoothing < 1, "a smoothing in [0, 1)", how.smoothing);
}
void check_row_facts(const Check& check, const Tensor& max, const Tensor& sums, const Tensor& labels,
                     std::int64_t rows) {
  check.type(DType::f64, {{"max", max}, {"sums", sums}});
  check.type(DType::i32, {{"labels", labels}});
  check.count({"max", max}, rows, "one per row");
  check.count({"sums", sums}, rows * 3, "three per row");
  check.count({"labels", labels}, rows, "one per row");
}
}  // namespace

Extents check_cross_entropy_max(const Stream& stream, const Tensor& max, const Tensor& logits) {
  const Check check("cross_entropy_max", stream);
  check.real({{"logits", logits}});
  check.type(DType::f64, {{"max", max}});
  const Extents e = check.matrix({"logits", logits});
  check.count({"max", max}, e.rows, "one per row");
  check.apart({"max", max}, {{"logits", logits}});
  return e;
}

Extents check_cross_entropy_sums(const Stream& stream, const Tensor& sums, const Tensor& logits, const Tensor& max,
                                 const Tensor& labels, const CrossEntropy& how) {
  const Check check("cross_entropy_sums", stream);
  check.real({{"logits", logits}});
  const Extents e = check.matrix({"logits", logits});
  check_row_facts(check, max, sums, labels, e.rows);
  check_vocabulary(check, how, e.columns);
  check.apart({"sums", sums}, {{"logits", logits}, {"max", max}, {"labels", labels}});
  return e;
}

std::int64_t check_cross_entropy_loss(const Stream& stream, const Tensor& loss, const Tensor& sums, const Tensor& max,
                                      const Tensor& labels, const CrossEntropy& how) {
  const Check check("cross_entropy_loss", stream);
  check.type(DType::f64, {{"loss", loss}});
  check.count({"loss", loss}, 2, "loss and count");
  check.type(DType::i32, {{"labels", labels}});
  check_row_facts(check, max, sums, labels, labels.count());
  check_vocabulary(check, how, 0);
  check.apart({"loss", loss}, {{"sums", sums}, {"max", max}, {"labels", labels}});
  return labels.count();
}

Extents check_label_matches(const Stream& stream, const Tensor& matches, const Tensor& logits, const Tensor& max,
                            const Tensor& labels, const CrossEntropy& how) {
  const Check check("label_matches", stream);
  check.real({{"logits", logits}});
  const Extents e = check.matrix({"logits", logits});
  check.type(DType::f64, {{"matches", matches}, {"max", max}});
  check.type(DType::i32, {{"labels", labels}});
  check.count({"matches", matches}, 2 * e.rows, "two numbers for each row");
  check.count({"max", max}, e.rows, "rows");
  check.count({"labels", labels}, e.rows, "rows");
  check_vocabulary(check, how, e.columns);
  check.apart({"matches", matches}, {{"logits", logits}, {"max", max}, {"labels", labels}});
  return e;
}

std::int64_t check_count_correct(const Stream& stream, const Tensor& correct, const Tensor& matches,
                                 const Tensor& labels) {
  const Check check("count_correct", stream);
  check.type(DType::f64, {{"correct", correct}, {"matches", matches}});
  check.type(DType::i32, {{"labels", labels}});
  check.count({"correct", correct}, 1, "one number");
  check.count({"matches", matches}, 2 * labels.count(), "two numbers for each label");
  check.apart({"correct", correct}, {{"matches", matches}, {"labels", labels}});
  return labels.count();
}

Extents check_cross_entropy_backward(const Stream& stream, const Tensor& dlogits, const Tensor& logits,
                                     const Tensor& max, const Tensor& sums, const Tensor& labels, const Tensor& counts,
                                     const CrossEntropy& how) {
  const Check check("cross_entropy_backward", stream);
  check.alike({{"logits", logits}, {"dlogits", dlogits}});
  const Extents e = check.matrix({"logits", logits});
  check_row_facts(check, max, sums, labels, e.rows);
  check_vocabulary(check, how, e.columns);
  if (counts) {
    check.type(DType::f64, {{"counts", counts}});
    check.count({"counts", counts}, 2, "two counts");
    check.apart({"dlogits", dlogits}, {{"counts", counts}});
  }
  check.apart_or_same({"dlogits", dlogits}, {{"logits", logits}});
  check.apart({"dlogits", dlogits}, {{"max", max}, {"sums", sums}, {"labels", labels}});
  return e;
}

void check_labels(std::span<const std::int32_t> labels, const CrossEntropy& how) {
  for (const std::int32_t label : labels)
    require(label < how.words, "cross entropy: label {} is beyond the vocabulary of {} words", label, how.words);
}

void check_move_block(const Stream& stream, const Tensor& out, const Tensor& in, const BlockMove& how) {
  const Check check("move_block", stream);
  check.here({"out", out});
  check.type(out.dtype(), {{"in", in}});
  check.that(how.outer >= 0 && how.rows >= 0 && how.inner >= 0, "no negative extents",
             fmt::format("outer {}, rows {}, inner {}", how.outer, how.rows, how.inner));
  check.part("rows of out", how.out_first, how.rows, how.out_rows);
  check.part("rows of in", how.in_first, how.rows, how.in_rows);
  check.count({"out", out}, how.outer * how.out_rows * how.inner, "outer * out_rows * inner");
  check.count({"in", in}, how.outer * how.in_rows * how.inner, "outer * in_rows * inner");
  check.apart({"out", out}, {{"in", in}});
}

}  // namespace quadrille
