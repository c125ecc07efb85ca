// SPDX-License-Identifier: Apache-2.0
// gemm.cpp and sdpa.cpp on the stand-in, whose cuBLASLt and cuDNN compute what the descriptions say: are rows, columns,
// transposes, biases, strides, parts and masks described rightly? Judged by the reference back end in f64.
#include <cmath>
#include <tuple>

#include "core/bf16.h"
#include "kernels/backend.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/library.h"
#include "tests/cuda/on_standin.h"

namespace quadrille {
namespace {

using Numbers = std::vector<double>;

class Libraries : public OnStandin {
 protected:
  // Different for each key, exact in bf16.
  static Numbers numbers(std::int64_t count, Key key) {
    Numbers values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(
          static_cast<float>(bf16(static_cast<float>(2 * uniform_at(key, static_cast<std::uint64_t>(i)) - 1))));
    return values;
  }
  Tensor on_host(const Shape& shape, const Numbers& values, DType type) {
    const Tensor t = host->empty(shape, type);
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const double v = values[static_cast<std::size_t>(i)];
      if (type == DType::f64) t.as<double>()[i] = v;
      if (type == DType::f32) t.as<float>()[i] = static_cast<float>(v);
      if (type == DType::bf16) t.as<bf16>()[i] = bf16(static_cast<float>(v));
    }
    return t;
  }
  Tensor put(const Shape& shape, const Numbers& values, DType type) {
    const Tensor t = device->empty(shape, type);
    stream->copy(t, on_host(shape, values, type));
    stream->synchronize();
    return t;
  }
  Numbers read(const Tensor& t) {
    const Tensor here = t.device().on_host() ? t : host->empty(t.shape(), t.dtype());
    if (!t.device().on_host()) stream->copy(here, t);
    stream->synchronize();
    Numbers values(static_cast<std::size_t>(here.count()));
    for (std::int64_t i = 0; i < here.count(); ++i)
      values[static_cast<std::size_t>(i)] =
          here.dtype() == DType::f64
              ? here.as<double>()[i]
              : static_cast<double>(here.dtype() == DType::f32 ? here.as<float>()[i]
                                                               : static_cast<float>(here.as<bf16>()[i]));
    return values;
  }
  static void expect_near(const Numbers& found, const Numbers& wanted, double tolerance, const std::string& what) {
    ASSERT_EQ(found.size(), wanted.size());
    double largest = 1e-30;
    for (double w : wanted)
      if (std::isfinite(w)) largest = std::max(largest, std::abs(w));
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_TRUE(found[i] == wanted[i] || std::abs(found[i] - wanted[i]) <= tolerance * largest)
          << what << " [" << i << "]: " << found[i] << ", wanted " << wanted[i];
  }
  std::unique_ptr<Stream> host_stream = host->make_stream();
};

// --- products ------------------------------------------------------------------------------------------------------

struct Types {
  DType in, out;
  double tolerance;
};
class Gemm : public Libraries,
             public testing::WithParamInterface<std::tuple<Types, Transpose, Transpose, Write, bool, MatmulExtents>> {};

TEST_P(Gemm, IsTheReferencesProduct) {
  const auto& [types, ta, tb, write, with_bias, e] = GetParam();
  const Matmul how{ta, tb, write};
  const Shape a{ta == Transpose::yes ? e.k : e.m, ta == Transpose::yes ? e.m : e.k};
  const Shape b{tb == Transpose::yes ? e.n : e.k, tb == Transpose::yes ? e.k : e.n}, out{e.m, e.n};
  const Numbers as = numbers(a.count(), 1), bs = numbers(b.count(), 2), cs = numbers(out.count(), 3),
                bias = numbers(e.n, 4);
  const Tensor wanted = on_host(out, cs, DType::f64), found = put(out, cs, types.out);
  const auto maybe = [&](auto make, DType type) { return with_bias ? make(Shape{e.n}, bias, type) : Tensor(); };
  const Tensor host_bias = maybe([&](auto... x) { return on_host(x...); }, DType::f64),
               device_bias = maybe([&](auto... x) { return put(x...); }, types.in);
  reference_ops().matmul(*host_stream, wanted, on_host(a, as, DType::f64), on_host(b, bs, DType::f64), host_bias, how);
  gemm(*stream, found, put(a, as, types.in), put(b, bs, types.in), device_bias, how, e);
  expect_near(read(found), read(wanted), types.tolerance, "out");
}

INSTANTIATE_TEST_SUITE_P(
    All, Gemm,
    testing::Combine(testing::Values(Types{DType::f32, DType::f32, 1e-6}, Types{DType::f64, DType::f64, 1e-14},
                                     Types{DType::bf16, DType::bf16, 8e-3}, Types{DType::bf16, DType::f32, 1e-6}),
                     testing::Values(Transpose::no, Transpose::yes), testing::Values(Transpose::no, Transpose::yes),
                     testing::Values(Write::replace, Write::accumulate), testing::Bool(),
                     testing::Values(MatmulExtents{3, 5, 7}, MatmulExtents{8, 1, 2}, MatmulExtents{4, 6, 0},
                                     MatmulExtents{0, 3, 2}, MatmulExtents{3, 0, 2})));

TEST_F(Libraries, APlanServesAnotherBiasAndLessAlignedOperands) {
  const MatmulExtents e{2, 3, 4};
  const Numbers values = numbers(40, 5);
  const Tensor many = put({40}, values, DType::f32), out = put({2, 3}, numbers(6, 6), DType::f32);
  const auto bias_at = [&](std::int64_t first) { return many.rows(first, 3); };
  for (const std::int64_t first : {0, 1, 2, 5}) {
    const Tensor a = many.rows(first, 8).reshaped({2, 4}), b = many.rows(first + 9, 12).reshaped({4, 3});
    gemm(*stream, out, a, b, bias_at(first + 22), {}, e);
    Numbers wanted(6);
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t j = 0; j < 3; ++j) {
        const auto f = static_cast<std::size_t>(first);
        wanted[i * 3 + j] = values[f + 22 + j];
        for (std::size_t l = 0; l < 4; ++l) wanted[i * 3 + j] += values[f + i * 4 + l] * values[f + 9 + l * 3 + j];
      }
    expect_near(read(out), wanted, 1e-6, "out");
  }
}

// --- attention -----------------------------------------------------------------------------------------------------

Attention packed(std::int64_t rows, std::int64_t tokens, std::int64_t groups, std::int64_t queries, std::int64_t head) {
  Attention how;
  how.rows = rows, how.q_tokens = how.kv_tokens = tokens, how.groups = groups, how.queries = queries, how.head = head;
  how.q_width = how.kv_width = (queries + 2) * head, how.kv_offset = queries * head;
  how.scale = 1 / std::sqrt(static_cast<double>(head));
  return how;
}
Attention apart(std::int64_t rows, std::int64_t q_tokens, std::int64_t kv_tokens, std::int64_t groups,
                std::int64_t queries, std::int64_t head) {
  Attention how = packed(rows, q_tokens, groups, queries, head);
  how.kv_tokens = kv_tokens, how.q_width = queries * head, how.kv_width = 2 * head, how.kv_offset = 0;
  return how;
}

class Sdpa : public Libraries {
 protected:
  void compare(const Attention& how) {
    const bool one = how.q_width == how.kv_width && how.kv_offset != 0;
    const Shape q{how.rows, how.q_tokens, how.groups, how.q_width},
        kv{how.rows, how.kv_tokens, how.groups, how.kv_width};
    const Shape out{how.rows, how.q_tokens, how.groups, how.queries * how.head},
        sums{how.rows, how.groups, how.queries, how.q_tokens};
    const Numbers qs = numbers(q.count(), 1), kvs = one ? qs : numbers(kv.count(), 2), dout = numbers(out.count(), 3);
    const auto unset = [](const Shape& shape) { return Numbers(static_cast<std::size_t>(shape.count()), 1e9); };
    struct Side {
      Tensor q, kv, dout, out, log_sum, dq, dkv;
    };
    const auto side = [&](const auto& make, DType type) {
      Side s{make(q, qs, type),
             {},
             make(out, dout, type),
             make(out, unset(out), type),
             make(sums, unset(sums), wide(type)),
             make(q, unset(q), type),
             {}};
      s.kv = one ? s.q : make(kv, kvs, type), s.dkv = one ? s.dq : make(kv, unset(kv), type);
      return s;
    };
    const Side want = side([&](auto... x) { return on_host(x...); }, DType::f64),
               find = side([&](auto... x) { return put(x...); }, DType::bf16);
    const Ops& judge = reference_ops();
    judge.attention(*host_stream, want.out, want.log_sum, want.q, want.kv, {}, how);
    judge.attention_backward(*host_stream, want.dq, want.dkv, want.dout, want.out, want.log_sum, want.q, want.kv, {},
                             how);
    ASSERT_TRUE(sdpa_supports(find.q, how));
    sdpa_forward(*stream, find.out, find.log_sum, find.q, find.kv, how);
    sdpa_backward(*stream, find.dq, find.dkv, find.dout, find.out, find.log_sum, find.q, find.kv, how);
    expect_near(read(find.out), read(want.out), 1e-2, "out");
    expect_near(read(find.log_sum), read(want.log_sum), 1e-5, "log_sum");
    expect_near(read(find.dq), read(want.dq), 2e-2, "dq");
    if (!one) expect_near(read(find.dkv), read(want.dkv), 2e-2, "dkv");
  }
  CudaLibraries& libraries() { return cuda_libraries(*device); }
  Sdpa() { libraries().sdpa_forward.clear(), libraries().sdpa_backward.clear(); }  // plans of tests before
  ~Sdpa() override { libraries().attention_room = kAttentionWorkspace; }
};

TEST_F(Sdpa, TheWorkspaceGrowsToWhatIsAsked) {
  const std::int64_t before = cuda_workspace_bytes();
  compare(packed(1, 5, 2, 1, 8));
  const std::int64_t first = cuda_workspace_bytes();
  EXPECT_LE(first - before, 1 << 20);
  compare(packed(2, 5, 2, 1, 8));
  EXPECT_EQ(cuda_workspace_bytes(), first);
}
TEST_F(Sdpa, PackedHeads) { compare(packed(2, 5, 3, 1, 8)); }
TEST_F(Sdpa, PackedGroupedHeads) { compare(packed(2, 5, 2, 3, 8)); }
TEST_F(Sdpa, SeparateKeys) { compare(apart(2, 4, 4, 3, 1, 16)); }
TEST_F(Sdpa, SeparateKeysOfGroupedHeads) { compare(apart(2, 5, 5, 2, 2, 8)); }
TEST_F(Sdpa, AllKeysAreSeen) {
  Attention how = apart(1, 3, 6, 2, 2, 8);
  how.causal = false;
  compare(how);
}
TEST_F(Sdpa, OlderKeysNeedNoMask) {
  Attention how = apart(1, 3, 4, 2, 1, 8);
  how.q_first = 4;
  compare(how);
  EXPECT_FALSE(libraries().sdpa_forward.begin()->first.causal);
}
TEST_F(Sdpa, MoreKeysThanQueriesFromTheSameStart) { compare(apart(1, 3, 6, 2, 1, 8)); }
TEST_F(Sdpa, GatheredKeysAreATensorOfTheirOwn) {
  Attention how = packed(2, 3, 2, 2, 8);
  how.kv_tokens = 6, how.q_first = how.kv_first = 0;
  const Shape q{2, 3, 2, how.q_width}, kv{2, 6, 2, how.kv_width}, out{2, 3, 2, 16}, sums{2, 2, 2, 3};
  const Numbers qs = numbers(q.count(), 1), kvs = numbers(kv.count(), 2), douts = numbers(out.count(), 3);
  const Tensor dq = put(q, qs, DType::bf16), dkv = put(kv, kvs, DType::bf16), o = put(out, douts, DType::bf16),
               l = put(sums, numbers(sums.count(), 4), DType::f32), x = put(q, qs, DType::bf16),
               y = put(kv, kvs, DType::bf16);
  ASSERT_TRUE(sdpa_supports(x, how));
  sdpa_forward(*stream, o, l, x, y, how);
  sdpa_backward(*stream, dq, dkv, put(out, douts, DType::bf16), o, l, x, y, how);
  const Numbers g = read(dq), k = read(dkv);
  for (std::size_t i = 0; i < g.size(); ++i)
    ASSERT_TRUE(static_cast<std::int64_t>(i) % how.q_width < 16 || g[i] == 0) << "where no query lies";
  for (std::size_t i = 0; i < k.size(); ++i)
    ASSERT_TRUE(static_cast<std::int64_t>(i) % how.kv_width >= 16 || k[i] == 0) << "where neither key nor value lies";
}

// Little room: several parts, of rows, of groups, and a smaller last one.
TEST_F(Sdpa, PartsOfRows) {
  libraries().attention_room = (64 << 10) + 2 * 3 * (64 * 128 * 2 + 5 * 4);
  compare(packed(5, 5, 3, 1, 8));
  EXPECT_EQ(libraries().sdpa_backward.size(), 2U) << "two rows at once, then one";
}
TEST_F(Sdpa, PartsOfGroups) {
  libraries().attention_room = (64 << 10) + 2 * (64 * 128 * 2 + 5 * 4);
  compare(packed(2, 5, 3, 1, 8));
  libraries().attention_room = (64 << 10) + 2 * 2 * (64 * 128 * 2 + 2 * 128 * 8 * 2 + 5 * 4);
  compare(packed(2, 5, 3, 2, 8));
}

TEST_F(Sdpa, WhatItDoesNotSupport) {
  const auto supports = [&](const Attention& how, DType type = DType::bf16) {
    const Shape q{how.rows, how.q_tokens, how.groups, how.q_width};
    return sdpa_supports(put(q, numbers(q.count(), 1), type), how);
  };
  const Attention good = packed(1, 4, 2, 1, 8);
  EXPECT_TRUE(supports(good));
  EXPECT_FALSE(supports(good, DType::f32));
  EXPECT_FALSE(supports(packed(1, 4, 2, 1, 12))) << "heads that 16-byte loads do not fit";
  EXPECT_FALSE(supports(packed(1, 4, 1, 1, 264))) << "cuDNN has no plan";
  EXPECT_FALSE(supports(packed(0, 4, 2, 1, 8))) << "no rows";
  Attention how = good;
  how.dropout = 0.1;
  EXPECT_FALSE(supports(how));
  how = apart(1, 4, 4, 1, 1, 8), how.q_first = 2;
  EXPECT_FALSE(supports(how)) << "a mask whose diagonal does not begin in the corner";
  how = apart(1, 4, 4, 1, 1, 8), how.q_jump = how.kv_jump = {2, 4};
  EXPECT_FALSE(supports(how)) << "positions with a jump";
  how.causal = false;
  EXPECT_TRUE(supports(how)) << "without a mask positions do not matter";
}

}  // namespace
}  // namespace quadrille
