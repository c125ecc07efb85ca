// SPDX-License-Identifier: Apache-2.0
// What only the cuda back end's own kernels promise: work of more than one block, round and tile is right, in packs and
// in single numbers; the same bits again and again; a label that no word has does not pass silently. On the stand-in.
// The op cases proper run in tests/kernels/every_backend_test.cpp.
#include <gtest/gtest.h>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>

#include "core/error.h"
#include "kernels/backend.h"
#include "tests/kernels/cpu_cases.h"
#include "tests/kernels/op_cases.h"

namespace quadrille {
namespace {

// Heads of each width class of the plain kernel, wider than a chunk and not a whole number of packs; with dropout,
// which cuDNN does not take.
void add_heads(std::vector<OpCase>& cases) {
  struct Heads {
    std::int64_t q_tokens, kv_tokens, groups, queries, head;
    double dropout;
  };
  for (const Heads h : {Heads{67, 67, 1, 1, 128, 0.1},
                        {40, 70, 1, 2, 100, 0.1},
                        {33, 65, 1, 1, 256, 0.1},
                        {20, 36, 1, 2, 201, 0.1},
                        {70, 66, 2, 1, 64, 0.1}}) {
    Attention how;
    how.rows = 1, how.q_tokens = h.q_tokens, how.kv_tokens = h.kv_tokens, how.groups = h.groups;
    how.queries = h.queries, how.head = h.head;
    how.q_width = how.kv_width = (h.queries + 2) * h.head, how.kv_offset = h.queries * h.head;
    how.q_first = h.kv_tokens, how.causal = h.q_tokens == h.kv_tokens;
    how.scale = 1 / std::sqrt(static_cast<double>(h.head));
    how.dropout = h.dropout, how.key = 3, how.heads_global = h.groups * h.queries;
    how.q_global = how.q_first + h.q_tokens, how.kv_global = h.kv_tokens;
    if (how.causal) how.q_first = 0;
    const Shape q{1, h.q_tokens, h.groups, how.q_width}, kv{1, h.kv_tokens, h.groups, how.kv_width};
    const Shape out{1, h.q_tokens, h.groups, h.queries * h.head}, sums{1, h.groups, h.queries, h.q_tokens};
    cases.push_back({"attention", fmt::format("attention, head {}, {} tokens", h.head, h.q_tokens), [=](Bench& b) {
                       const Tensor x = b.normal(q), y = b.normal(kv), to = b.unset(out), log_sum = b.unset_sum(sums);
                       const Tensor dout = b.normal(out), dx = b.unset(q), dy = b.unset(kv);
                       b.bill(b.ops().attention(b.stream(), to, log_sum, x, y, {}, how));
                       b.bill(b.ops().attention_backward(b.stream(), dx, dy, dout, to, log_sum, x, y, {}, how));
                       b.result("out", to, 1e-5);
                       b.result("log_sum", log_sum, 1e-5);
                       // The backward pass of bf16 begins from an `out` that was rounded.
                       const double tolerance = b.real() == DType::bf16 ? 0x1p-8 : 2e-5;
                       b.result("dq", dx, tolerance);
                       b.result("dkv", dy, tolerance);
                     }});
  }
}

// More ids than a block looks through at once, more columns than a block has: in packs and one by one. Ids that many
// rows share, in the first round and the last, and ids of one row each.
void add_lookups(std::vector<OpCase>& cases) {
  struct Lookup {
    std::int64_t rows, words, columns;
  };
  for (const Lookup l : {Lookup{2060, 3, 8}, {150, 400, 4}, {20, 5, 2056}, {20, 5, 301}, {3, 1, 1}})
    cases.push_back({"embedding_backward", fmt::format("embedding_backward of {} rows for {} words", l.rows, l.words),
                     [l](Bench& b) {
                       const Tensor table = b.normal_sum({l.words, l.columns}), dout = b.normal({l.rows, l.columns});
                       Ids ids = b.ids(l.rows, 0, l.words);
                       ids.front() = ids.back() = 0;
                       b.bill(b.ops().embedding_backward(b.stream(), table, dout, b.put_ids({l.rows}, ids), 0));
                       b.result("dtable", table, 5e-6);
                     }});
}

// Rows of an odd number of words begin off a 16-byte boundary, each elsewhere; so does a part of a tensor.
void add_words(std::vector<OpCase>& cases) {
  for (const std::int64_t words : {std::int64_t{4099}, std::int64_t{4096}, std::int64_t{5}})
    for (const std::int64_t skipped : {0, 1})
      cases.push_back({"cross_entropy", fmt::format("cross_entropy of {} words, after {} rows", words, skipped),
                       [words, skipped](Bench& b) {
                         const std::int64_t rows = 5;
                         const CrossEntropy how{.words = words, .smoothing = 0.1};
                         const Tensor logits = b.normal({rows + skipped, words}, 3).rows(skipped, rows);
                         const Tensor max = b.unset({rows}, DType::f64), sums = b.unset({rows, 3}, DType::f64),
                                      loss = b.put_wide({2}, {0, 0}),
                                      labels = b.put_ids({rows}, b.ids(rows, -1, words)),
                                      apart = b.unset({rows, words});
                         b.bill(b.ops().cross_entropy_max(b.stream(), max, logits));
                         b.bill(b.ops().cross_entropy_sums(b.stream(), sums, logits, max, labels, how));
                         b.bill(b.ops().cross_entropy_loss(b.stream(), loss, sums, max, labels, how));
                         b.bill(b.ops().cross_entropy_backward(b.stream(), apart, logits, max, sums, labels, {}, how));
                         b.result("max", max, 1e-9);
                         b.result_by_column("sums", sums, 3e-6);
                         b.result("loss", loss, 1e-6);
                         b.result("dlogits", apart, 2e-6);
                         b.bill(b.ops().cross_entropy_backward(b.stream(), logits, logits, max, sums, labels, {}, how));
                         b.result("in place", logits, 2e-6);
                       }});
}

// Operands that begin anywhere: the parts of tensors of odd rows.
void add_unaligned(std::vector<OpCase>& cases) {
  const auto part = [](const Tensor& t) { return t.rows(1, t.shape()[0] - 1); };
  cases.push_back({"elementwise", "elementwise, unaligned", [=](Bench& b) {
                     const Shape shape{4, 259};
                     const Tensor x = part(b.normal(shape)), y = part(b.normal(shape)), z = part(b.normal(shape)),
                                  out = part(b.unset(shape)), also = part(b.unset(shape)), sums = b.unset_sum({259});
                     b.bill(b.ops().gelu(b.stream(), out, x));
                     b.result("gelu", out, 1e-6);
                     b.bill(b.ops().gated_silu_backward(b.stream(), out, also, x, y, z));
                     b.result("dgate", out, 1e-6);
                     b.result("dup", also, 1e-6);
                     b.bill(b.ops().add_bias(b.stream(), out, x, b.normal({259})));
                     b.result("add_bias", out, 1e-6);
                     b.bill(b.ops().sum_rows(b.stream(), sums, x, Write::replace));
                     b.result("sum_rows", sums, 3e-6);
                   }});
  // A pack of the narrow type beside one of the wide one.
  cases.push_back({"convert", "convert to and fro", [](Bench& b) {
                     for (const std::int64_t n : {5, 4099}) {
                       const Tensor x = b.normal({n}), wide = b.normal_sum({n}), back = b.unset({n});
                       const Tensor widest = b.unset({n}, DType::f64);
                       b.bill(b.ops().add(b.stream(), wide, wide, x));
                       b.bill(b.ops().convert(b.stream(), back, wide));
                       b.bill(b.ops().convert(b.stream(), widest, wide));
                       b.result("sum", wide, 1e-6);
                       b.result("narrow", back, 1e-6);
                       b.result("f64", widest, 1e-6);
                     }
                   }});
  // Runs of 2, 4, 8 and 16 bytes as the largest unit that all places are multiples of.
  for (const std::int64_t inner : {1, 2, 4, 8, 24})
    for (const Write write : {Write::replace, Write::accumulate})
      cases.push_back({"move_block", fmt::format("move_block of {}", inner), [inner, write](Bench& b) {
                         const BlockMove how{.outer = 37,
                                             .rows = 9,
                                             .inner = inner,
                                             .out_rows = 12,
                                             .out_first = 1,
                                             .in_rows = 11,
                                             .in_first = 2,
                                             .write = write};
                         const Tensor out = b.normal({37, 12, inner}), in = b.normal({37, 11, inner});
                         b.bill(b.ops().move_block(b.stream(), out, in, how));
                         b.result("out", out, 1e-6);
                       }});
}

// More than one round of a block's angles; a norm with more columns than a warp has packs; more squares than blocks.
void add_long(std::vector<OpCase>& cases) {
  cases.push_back({"rotary", "rotary, head of 528", [](Bench& b) {
                     const Rotary how{.rows = 2, .tokens = 3, .groups = 1, .width = 1064, .heads = 2, .head = 528};
                     const Tensor x = b.normal({2, 3, 1, 1064});
                     b.bill(b.ops().rotary(b.stream(), x, x, how));
                     b.result("in place", x, 1e-6);
                   }});
  for (const std::int64_t columns : {520, 601})
    cases.push_back({"norm", fmt::format("norm of {} columns", columns), [columns](Bench& b) {
                       const Norm how{.kind = NormKind::layer, .epsilon = 1e-5, .width = columns};
                       const Tensor x = b.normal({11, columns}, 1, 2), dy = b.normal({11, columns}),
                                    gain = b.normal({columns}), bias = b.normal({columns}),
                                    out = b.unset({11, columns}), dx = b.unset({11, columns}),
                                    sums = b.unset({11, 2}, DType::f64), back = b.unset({11, 2}, DType::f64),
                                    dgain = b.normal_sum({columns}), dbias = b.normal_sum({columns});
                       b.bill(b.ops().norm_sums(b.stream(), sums, x));
                       b.bill(b.ops().norm(b.stream(), out, x, sums, gain, bias, how));
                       b.bill(b.ops().norm_backward_sums(b.stream(), back, dy, x, sums, gain, how));
                       b.bill(b.ops().norm_backward(b.stream(), dx, dy, x, sums, back, gain, how, Write::replace));
                       b.bill(b.ops().norm_backward_parameters(b.stream(), dgain, dbias, dy, x, sums, how));
                       b.result("out", out, 1e-5);
                       b.result("dx", dx, 1e-5);
                       b.result("dgain", dgain, 1e-5);
                       b.result("dbias", dbias, 1e-5);
                     }});
  cases.push_back({"sum_of_squares", "sum_of_squares of many", [](Bench& b) {
                     const std::int64_t n = (1 << 20) + 12345;
                     const Tensor x = b.put({n}, Numbers(static_cast<std::size_t>(n), 0.5)), sum = b.put_wide({1}, {1});
                     b.bill(b.ops().sum_of_squares(b.stream(), sum, x));
                     b.result("sum", sum, 1e-9);
                   }});
}

std::vector<OpCase> own_cases() {
  std::vector<OpCase> cases;
  add_heads(cases);
  add_lookups(cases);
  add_words(cases);
  add_unaligned(cases);
  add_long(cases);
  return cases;
}

void expect_agreement(const OpCase& c, Device& device, DType real) {
  const Verdict v = judge(c, cuda_backend().ops(), device, real, cuda_backend().attention);
  EXPECT_TRUE(v.agrees()) << fmt::format("{}: {}", c.name, fmt::join(v.complaints, "; "));
}

class CudaKernelsOfType : public testing::TestWithParam<DType> {};

TEST_P(CudaKernelsOfType, UnevenWorkAgreesWithTheReference) {
  const std::unique_ptr<Device> device = cuda_backend().open_device(0);
  for (const OpCase& c : own_cases()) expect_agreement(c, *device, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaKernelsOfType, testing::Values(DType::f32, DType::bf16, DType::f64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// What the cpu back end is given to share among threads; its attention is too long for the stand-in.
TEST(CudaKernels, LargeWorkAgreesWithTheReference) {
  const std::unique_ptr<Device> device = cuda_backend().open_device(0);
  for (const LargeCase& large : large_cases())
    if (large.op != "matmul" && !large.op.starts_with("attention") && !large.images)
      expect_agreement(large.as_op_case(), *device, DType::f32);
}

// Whatever order blocks and threads run in.
TEST(CudaKernels, GiveTheSameBitsTwice) {
  const std::unique_ptr<Device> device = cuda_backend().open_device(0);
  for (const OpCase& c : own_cases()) {
    Bench once(cuda_backend().ops(), *device, DType::f32, 7), again(cuda_backend().ops(), *device, DType::f32, 7);
    c.run(once);
    c.run(again);
    for (std::size_t i = 0; i < once.results().size(); ++i)
      for (std::size_t j = 0; j < once.results()[i].values.size(); ++j)
        ASSERT_EQ(std::bit_cast<std::uint64_t>(once.results()[i].values[j]),
                  std::bit_cast<std::uint64_t>(again.results()[i].values[j]))
            << c.name << " " << once.results()[i].name << "[" << j << "]";
  }
}

// The host cannot look at labels without waiting for them.
TEST(CudaLoss, OfALabelBeyondTheVocabularyIsNotANumber) {
  const std::unique_ptr<Device> device = cuda_backend().open_device(0);
  for (const std::int32_t label : {6, 7}) {
    Bench b(cuda_backend().ops(), *device, DType::f32, 1);
    const CrossEntropy how{.words = 7};
    const Tensor max = b.put_wide({2}, {0, 0}), sums = b.put_wide({2, 3}, {7, 0, 0, 7, 0, 0}),
                 loss = b.put_wide({2}, {0, 0}), labels = b.put_ids({2}, {3, label});
    b.ops().cross_entropy_loss(b.stream(), loss, sums, max, labels, how);
    EXPECT_EQ(std::isnan(b.read(loss)[0]), label == 7) << label;
  }
}

TEST(CudaAttention, RefusesHeadsThatItsTilesCannotHold) {
  const std::unique_ptr<Device> device = cuda_backend().open_device(0);
  Bench b(cuda_backend().ops(), *device, DType::f32, 1);
  Attention how;
  how.rows = how.q_tokens = how.kv_tokens = how.groups = 1, how.head = 257;
  how.q_width = how.kv_width = 3 * 257, how.kv_offset = 257;
  const Tensor x = b.normal({1, 1, 1, 3 * 257});
  EXPECT_THROW(b.ops().attention(b.stream(), b.unset({1, 1, 1, 257}), b.unset({1, 1, 1, 1}), x, x, {}, how), Error);
}

}  // namespace
}  // namespace quadrille
