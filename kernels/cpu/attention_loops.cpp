// SPDX-License-Identifier: Apache-2.0
// Tiled attention with an online softmax (Milakov and Gimelshein 2018; Dao et al. 2022): tiles of queries against tiles
// of keys, scores and probabilities never leave the cache; the backward pass rebuilds them from the log-sums. All
// products run through one register tile of kBlock rows by two vectors. Operands with a row index per column (K and V
// in Q Kᵀ and dO Vᵀ) are packed transposed, in panels as wide as the register tile and padded with zeros.
//
// Causal: every block of kBlock queries is multiplied only with the keys that its last query sees; what a query of the
// block does not see gets probability zero.
#include "kernels/cpu/attention_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/random.h"
#include "kernels/bills.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_loops.cpp"
#include <hwy/foreach_target.h>  // compiles this file once for each instruction set
#include <hwy/highway.h>
#include "kernels/cpu/exponential-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;

constexpr std::int64_t kBlock = kAttentionBlock;
constexpr std::int64_t kQueries = 8 * kBlock;  // of a tile
constexpr std::int64_t kKeys = 96;             // of a tile; 96 keys by 32 columns of V are 12 KiB, within L1
constexpr std::int64_t kBand = 6 * kQueries;   // queries for which packed keys are kept: forward accumulators

std::int64_t width() { return 2 * static_cast<std::int64_t>(hn::Lanes(Tag())); }  // of a panel
std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(Tag())); }
std::int64_t up(std::int64_t count, std::int64_t unit) { return (count + unit - 1) / unit * unit; }

// Operand A of a product: element (i, k) at data[i * row + k * column].
struct Left {
  const float* data;
  std::int64_t row, column;
};

// c[kBlock, width] = (c +) A B over `depth` terms; B has rows of `stride`. Accumulators by name: an indexed array that
// the compiler does not unroll would live in memory.
HWY_INLINE void multiply(float* c, std::int64_t c_stride, Left a, const float* b, std::int64_t stride,
                         std::int64_t depth, bool add) {
  const Tag d;
  const std::int64_t n = lanes(), row = a.row;
  V c00 = hn::Zero(d), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00, c30 = c00, c31 = c00, c40 = c00,
    c41 = c00, c50 = c00, c51 = c00;
  const float *lower = a.data, *upper = a.data + 3 * row;
  for (std::int64_t k = 0; k < depth; ++k, lower += a.column, upper += a.column, b += stride) {
    // One broadcast at a time: with 16 registers a second one would push an accumulator into memory.
    const V b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + n);
    V left = hn::Set(d, lower[0]);
    c00 = hn::MulAdd(left, b0, c00), c01 = hn::MulAdd(left, b1, c01);
    left = hn::Set(d, lower[row]);
    c10 = hn::MulAdd(left, b0, c10), c11 = hn::MulAdd(left, b1, c11);
    left = hn::Set(d, lower[2 * row]);
    c20 = hn::MulAdd(left, b0, c20), c21 = hn::MulAdd(left, b1, c21);
    left = hn::Set(d, upper[0]);
    c30 = hn::MulAdd(left, b0, c30), c31 = hn::MulAdd(left, b1, c31);
    left = hn::Set(d, upper[row]);
    c40 = hn::MulAdd(left, b0, c40), c41 = hn::MulAdd(left, b1, c41);
    left = hn::Set(d, upper[2 * row]);
    c50 = hn::MulAdd(left, b0, c50), c51 = hn::MulAdd(left, b1, c51);
  }
  const auto store = [&](std::int64_t i, V low, V high) HWY_ATTR {
    float* to = c + i * c_stride;
    hn::StoreU(add ? hn::Add(hn::LoadU(d, to), low) : low, d, to);
    hn::StoreU(add ? hn::Add(hn::LoadU(d, to + n), high) : high, d, to + n);
  };
  store(0, c00, c01), store(1, c10, c11), store(2, c20, c21), store(3, c30, c31), store(4, c40, c41),
      store(5, c50, c51);
}

// A run of token rows in a tensor.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride, count;
};

// Copies and fills up with zeros. Not memcpy: the runs are so short that calls would cost more than copies.
HWY_INLINE void copy_padded(float* to, const float* from, std::int64_t count, std::int64_t padded) {
  const Tag d;
  std::int64_t j = 0;
  for (; j + lanes() <= count; j += lanes()) hn::StoreU(hn::LoadU(d, from + j), d, to + j);
  for (; j < count; ++j) to[j] = from[j];
  for (; j < padded; ++j) to[j] = 0;
}

// [panel][feature][width] = the transpose of the rows, zeros beyond the last. Four rows at a time.
void pack_transposed(float* to, Rows<const float> from, std::int64_t head) {
  const hn::CappedTag<float, 4> quad;
  const auto features = static_cast<std::int64_t>(hn::Lanes(quad));
  const std::int64_t w = width();
  for (std::int64_t panel = 0; panel < from.count; panel += w, to += head * w) {
    const std::int64_t count = std::min(w, from.count - panel);
    std::int64_t j = 0;
    for (; j + 4 <= count; j += 4) {
      const float *r0 = from.data + (panel + j) * from.stride, *r1 = r0 + from.stride, *r2 = r1 + from.stride,
                  *r3 = r2 + from.stride;
      std::int64_t e = 0;
      for (; e + features <= head; e += features) {
        HWY_ALIGN float block[16];
        hn::StoreInterleaved4(hn::LoadU(quad, r0 + e), hn::LoadU(quad, r1 + e), hn::LoadU(quad, r2 + e),
                              hn::LoadU(quad, r3 + e), quad, block);
        for (std::int64_t k = 0; k < features; ++k) std::copy_n(block + 4 * k, 4, to + (e + k) * w + j);
      }
      for (; e < head; ++e)
        to[e * w + j] = r0[e], to[e * w + j + 1] = r1[e], to[e * w + j + 2] = r2[e], to[e * w + j + 3] = r3[e];
    }
    for (; j < count; ++j)
      for (std::int64_t e = 0; e < head; ++e) to[e * w + j] = from.data[(panel + j) * from.stride + e];
    for (std::int64_t e = 0; e < head && count < w; ++e) std::fill(to + e * w + count, to + e * w + w, 0.0f);
  }
}
// [panel of features][row][width], zeros beyond the last feature.
void pack_panels(float* to, Rows<const float> from, std::int64_t head) {
  const std::int64_t w = width();
  for (std::int64_t panel = 0; panel < head; panel += w)
    for (std::int64_t j = 0; j < from.count; ++j, to += w)
      copy_padded(to, from.data + j * from.stride + panel, std::min(w, head - panel), w);
}
// [row][padded head], zeros beyond the last feature and up to a whole block of rows.
void pack_rows(float* to, Rows<const float> from, std::int64_t head, std::int64_t padded) {
  for (std::int64_t j = 0; j < up(from.count, kBlock); ++j, to += padded)
    copy_padded(to, from.data + j * from.stride, j < from.count ? head : 0, padded);
}
float dot(const float* a, const float* b, std::int64_t count) {
  const Tag d;
  V sum = hn::Zero(d);
  std::int64_t j = 0;
  for (; j + lanes() <= count; j += lanes()) sum = hn::MulAdd(hn::LoadU(d, a + j), hn::LoadU(d, b + j), sum);
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; j < count; ++j) total += a[j] * b[j];
  return total;
}

// Where the parts of one item lie.
struct Item {
  const Attention& how;
  const AttentionOperands& x;
  std::int64_t row, group, padded;
  std::int64_t length = x.lengths ? x.lengths[row] : kWholeLength;

  template <class T>
  Rows<T> queries(T* base, std::int64_t query, std::int64_t first, std::int64_t count) const {
    const std::int64_t stride = how.groups * how.q_width;
    return {base + (row * how.q_tokens + first) * stride + group * how.q_width + query * how.head, stride, count};
  }
  template <class T>
  Rows<T> outputs(T* base, std::int64_t query, std::int64_t first, std::int64_t count) const {
    const std::int64_t stride = how.groups * how.queries * how.head;
    return {base + (row * how.q_tokens + first) * stride + (group * how.queries + query) * how.head, stride, count};
  }
  template <class T>
  Rows<T> keys(T* base, std::int64_t first, std::int64_t count, bool values) const {
    const std::int64_t stride = how.groups * how.kv_width, offset = how.kv_offset + (values ? how.head : 0);
    return {base + (row * how.kv_tokens + first) * stride + group * how.kv_width + offset, stride, count};
  }
  float* log_sums(std::int64_t query, std::int64_t first) const {
    return x.log_sum + ((row * how.groups + group) * how.queries + query) * how.q_tokens + first;
  }
  // Keys of the tile [first, first + count) that query token t sees.
  std::int64_t seen(std::int64_t t, std::int64_t first, std::int64_t count) const {
    return std::clamp<std::int64_t>(visible_keys(how, t, length) - first, 0, count);
  }
  // What dropout multiplies the probabilities of a row with.
  void drop(float* row_of_tile, std::int64_t query, std::int64_t t, std::int64_t first_key, std::int64_t count) const {
    if (how.dropout == 0) return;
    const std::int64_t head = how.first_head + group * how.queries + query;
    const std::int64_t query_at =
        ((how.first_row + row) * how.heads_global + head) * how.q_global + position_of(how.q_first, how.q_jump, t);
    const auto kept = static_cast<float>(1 / (1 - how.dropout));
    const auto drop_run = [&](std::int64_t from, std::int64_t end, std::int64_t index) {
      for (std::int64_t j = from; j < end; ++j)
        row_of_tile[j] *= uniform_at(how.key, static_cast<std::uint64_t>(index + j)) >= how.dropout ? kept : 0.0f;
    };
    const std::int64_t at = query_at * how.kv_global + how.kv_first + first_key;
    const std::int64_t before = std::clamp<std::int64_t>(how.kv_jump.after - first_key, 0, count);  // the jump of keys
    drop_run(0, before, at);
    drop_run(before, count, at + how.kv_jump.by);
  }
};

// A tile of queries against a tile of keys.
struct Tile {
  std::int64_t query, first_query, queries, first_key, keys;
};

// c[queries, keys] = A Bᵀ: A rows of `padded`, B packed transposed; only keys that the block sees.
void scores(const Item& item, const Tile& tile, float* c, const float* a, const float* packed) {
  const std::int64_t w = width(), head = item.how.head;
  for (std::int64_t panel = 0; panel < tile.keys; panel += w, packed += head * w)
    for (std::int64_t i = 0; i < tile.queries; i += kBlock) {
      const std::int64_t last = tile.first_query + std::min(i + kBlock, tile.queries) - 1;
      if (item.seen(last, tile.first_key, tile.keys) <= panel) continue;
      multiply(c + i * kKeys + panel, kKeys, {a + i * item.padded, item.padded, 1}, packed, w, head, false);
    }
}
// c[queries, padded] (+)= P B: B in panels of features; terms only up to the last key that the block sees.
void weighted_sum(const Item& item, const Tile& tile, float* c, const float* p, const float* panels, bool add) {
  const std::int64_t w = width();
  for (std::int64_t panel = 0; panel < item.padded; panel += w, panels += tile.keys * w)
    for (std::int64_t i = 0; i < tile.queries; i += kBlock) {
      const std::int64_t last = tile.first_query + std::min(i + kBlock, tile.queries) - 1;
      const std::int64_t depth = item.seen(last, tile.first_key, tile.keys);
      if (depth > 0 || !add)
        multiply(c + i * item.padded + panel, item.padded, {p + i * kKeys, kKeys, 1}, panels, w, depth, add);
    }
}
// c[keys, padded] += Pᵀ B: B rows of queries; terms only from the first query that sees the block of keys.
void transposed_sum(const Item& item, const Tile& tile, float* c, const float* p, const float* b) {
  for (std::int64_t i = 0; i < tile.keys; i += kBlock) {
    std::int64_t from = 0;
    if (item.how.causal)
      from = std::max<std::int64_t>(0, first_seeing(item.how, tile.first_key + i) - tile.first_query);
    if (from >= tile.queries) return;
    for (std::int64_t panel = 0; panel < item.padded; panel += width())
      multiply(c + i * item.padded + panel, item.padded, {p + from * kKeys + i, 1, kKeys},
               b + from * item.padded + panel, item.padded, tile.queries - from, true);
  }
}

struct Running {  // of a softmax over the keys so far
  float max = -std::numeric_limits<float>::infinity(), sum = 0;
};

// One row of scores becomes exp(scale s - max), zero from `seen` on; returns by how much earlier sums shrink.
float soften(float* row, std::int64_t seen, float scale, Running& running) {
  const Tag d;
  const V factor = hn::Set(d, scale);
  V most = hn::Set(d, running.max);
  for (std::int64_t j = 0; j < seen; j += lanes()) {
    const auto inside = hn::FirstN(d, static_cast<std::size_t>(seen - j));
    most = hn::IfThenElse(inside, hn::Max(most, hn::Mul(factor, hn::Load(d, row + j))), most);
  }
  const float max = hn::GetLane(hn::MaxOfLanes(d, most));
  const V shift = hn::Set(d, max);
  V sum = hn::Zero(d);
  std::int64_t j = 0;
  for (; j < seen; j += lanes()) {
    const auto inside = hn::FirstN(d, static_cast<std::size_t>(seen - j));
    const V e = hn::IfThenElseZero(inside, exp_nonpositive(d, hn::MulSub(factor, hn::Load(d, row + j), shift)));
    sum = hn::Add(sum, e);
    hn::Store(e, d, row + j);
  }
  for (; j < kKeys; j += lanes()) hn::Store(hn::Zero(d), d, row + j);
  const float shrink = running.max == max ? 1.0f : std::exp(running.max - max);
  running.max = max;
  running.sum = running.sum * shrink + hn::GetLane(hn::SumOfLanes(d, sum));
  return shrink;
}
void scale_row(float* row, float factor, std::int64_t padded) {
  const Tag d;
  for (std::int64_t j = 0; j < padded; j += lanes())
    hn::Store(hn::Mul(hn::Load(d, row + j), hn::Set(d, factor)), d, row + j);
}

struct ForwardScratch {
  float *sums, *q, *scores, *keys, *values;
  Running* running;
};

void forward_tile(const Item& item, const Tile& tile, const ForwardScratch& s, std::int64_t at /* of the band */) {
  pack_rows(s.q, item.queries(item.x.q, tile.query, tile.first_query, tile.queries), item.how.head, item.padded);
  scores(item, tile, s.scores, s.q, s.keys);
  const auto scale = static_cast<float>(item.how.scale);
  for (std::int64_t i = 0; i < up(tile.queries, kBlock); ++i) {
    const std::int64_t t = tile.first_query + i;
    const std::int64_t seen = i < tile.queries ? item.seen(t, tile.first_key, tile.keys) : 0;
    float* row = s.scores + i * kKeys;
    if (seen == 0) {
      std::fill(row, row + kKeys, 0.0f);
      continue;
    }
    const float shrink = soften(row, seen, scale, s.running[at + i]);
    if (shrink != 1) scale_row(s.sums + (at + i) * item.padded, shrink, item.padded);
    item.drop(row, tile.query, t, tile.first_key, seen);
  }
  weighted_sum(item, tile, s.sums + at * item.padded, s.scores, s.values, true);
}

void forward_band(const Item& item, const ForwardScratch& s, std::int64_t query, std::int64_t first,
                  std::int64_t count) {
  const std::int64_t head = item.how.head, seen = visible_keys(item.how, first + count - 1, item.length);
  std::fill(s.sums, s.sums + up(count, kBlock) * item.padded, 0.0f);
  std::fill(s.running, s.running + up(count, kBlock), Running{});
  for (std::int64_t key = 0; key < seen; key += kKeys) {
    const std::int64_t keys = std::min(kKeys, item.how.kv_tokens - key);
    pack_transposed(s.keys, item.keys(item.x.kv, key, keys, false), head);
    pack_panels(s.values, item.keys(item.x.kv, key, keys, true), head);
    for (std::int64_t at = 0; at < count; at += kQueries) {
      const Tile tile{query, first + at, std::min(kQueries, count - at), key, keys};
      if (item.seen(tile.first_query + tile.queries - 1, key, keys) > 0) forward_tile(item, tile, s, at);
    }
  }
  const Rows<float> out = item.outputs(item.x.out, query, first, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const Running& running = s.running[i];
    const float factor = running.sum > 0 || running.sum != running.sum ? 1 / running.sum : 0;  // no key seen: zeros
    for (std::int64_t e = 0; e < head; ++e) out.data[i * out.stride + e] = s.sums[i * item.padded + e] * factor;
    item.log_sums(query, first)[i] = running.max + std::log(running.sum);
  }
}

void forward(const AttentionItem& which, const AttentionOperands& x, float* scratch) noexcept {
  const Attention& how = *which.how;
  const Item item{how, x, which.row, which.group, up(how.head, width())};
  ForwardScratch s{};
  s.sums = scratch;
  s.q = s.sums + kBand * item.padded;
  s.scores = s.q + kQueries * item.padded;
  s.values = s.scores + kQueries * kKeys;
  s.keys = s.values + kKeys * item.padded;
  s.running = reinterpret_cast<Running*>(s.keys + up(kKeys, width()) * item.padded);
  for (std::int64_t query = 0; query < how.queries; ++query)
    for (std::int64_t first = 0; first < how.q_tokens; first += kBand)
      forward_band(item, s, query, first, std::min(kBand, how.q_tokens - first));
}

struct BackwardScratch {
  float *dkeys, *dvalues, *q, *dout, *dq, *probabilities, *dscores, *keys_transposed, *values_transposed, *keys;
};

// P from the scores, and dS = scale P (M dP - dout·out); P becomes P M, what the values were weighted with.
void score_gradients(const Item& item, const Tile& tile, const BackwardScratch& s) {
  const Tag d;
  const Rows<float> out = item.outputs(item.x.out, tile.query, tile.first_query, tile.queries);
  const V scale = hn::Set(d, static_cast<float>(item.how.scale));
  for (std::int64_t i = 0; i < up(tile.queries, kBlock); ++i) {
    const std::int64_t t = tile.first_query + i;
    const std::int64_t seen = i < tile.queries ? item.seen(t, tile.first_key, tile.keys) : 0;
    float *p = s.probabilities + i * kKeys, *g = s.dscores + i * kKeys;
    std::int64_t j = 0;
    if (seen > 0) {
      const V less = hn::Set(d, dot(s.dout + i * item.padded, out.data + i * out.stride, item.how.head)),
              log_sum = hn::Set(d, item.log_sums(tile.query, t)[0]);
      item.drop(g, tile.query, t, tile.first_key, seen);
      for (; j < seen; j += lanes()) {
        const auto inside = hn::FirstN(d, static_cast<std::size_t>(seen - j));
        const V e = hn::IfThenElseZero(inside, exp_nonpositive(d, hn::MulSub(scale, hn::Load(d, p + j), log_sum)));
        hn::Store(e, d, p + j);
        hn::Store(hn::IfThenElseZero(inside, hn::Mul(hn::Mul(scale, e), hn::Sub(hn::Load(d, g + j), less))), d, g + j);
      }
      item.drop(p, tile.query, t, tile.first_key, seen);
    }
    for (; j < kKeys; j += lanes()) hn::Store(hn::Zero(d), d, p + j), hn::Store(hn::Zero(d), d, g + j);
  }
}

void backward_tile(const Item& item, const Tile& tile, const BackwardScratch& s) {
  const std::int64_t head = item.how.head;
  pack_rows(s.q, item.queries(item.x.q, tile.query, tile.first_query, tile.queries), head, item.padded);
  pack_rows(s.dout, item.outputs(item.x.dout, tile.query, tile.first_query, tile.queries), head, item.padded);
  scores(item, tile, s.probabilities, s.q, s.keys_transposed);
  scores(item, tile, s.dscores, s.dout, s.values_transposed);
  score_gradients(item, tile, s);
  transposed_sum(item, tile, s.dvalues, s.probabilities, s.dout);
  transposed_sum(item, tile, s.dkeys, s.dscores, s.q);
  weighted_sum(item, tile, s.dq, s.dscores, s.keys, false);
  const Rows<float> dq = item.queries(item.x.dq, tile.query, tile.first_query, tile.queries);
  for (std::int64_t i = 0; i < tile.queries; ++i)
    for (std::int64_t e = 0; e < head; ++e) dq.data[i * dq.stride + e] += s.dq[i * item.padded + e];
}

void backward_keys(const Item& item, const BackwardScratch& s, std::int64_t key, std::int64_t keys) {
  const Attention& how = item.how;
  const Rows<const float> k = item.keys(item.x.kv, key, keys, false);
  pack_transposed(s.keys_transposed, k, how.head);
  pack_transposed(s.values_transposed, item.keys(item.x.kv, key, keys, true), how.head);
  pack_panels(s.keys, k, how.head);
  std::fill(s.dkeys, s.dkeys + kKeys * item.padded, 0.0f);
  std::fill(s.dvalues, s.dvalues + kKeys * item.padded, 0.0f);
  for (std::int64_t query = 0; query < how.queries; ++query)
    for (std::int64_t first = 0; first < how.q_tokens; first += kQueries) {
      const Tile tile{query, first, std::min(kQueries, how.q_tokens - first), key, keys};
      if (item.seen(first + tile.queries - 1, key, keys) > 0) backward_tile(item, tile, s);
    }
  const Rows<float> dk = item.keys(item.x.dkv, key, keys, false);
  for (std::int64_t i = 0; i < keys; ++i) {
    copy_padded(dk.data + i * dk.stride, s.dkeys + i * item.padded, how.head, how.head);
    copy_padded(dk.data + i * dk.stride + how.head, s.dvalues + i * item.padded, how.head, how.head);
  }
}

void backward(const AttentionItem& which, const AttentionOperands& x, float* scratch) noexcept {
  const Attention& how = *which.how;
  const Item item{how, x, which.row, which.group, up(how.head, width())};
  const std::int64_t tokens = kQueries * item.padded, keys = up(kKeys, width()) * item.padded, pairs = kQueries * kKeys;
  BackwardScratch s{};
  const auto take = [&scratch](std::int64_t count) { return (scratch += count) - count; };
  s.dkeys = take(keys), s.dvalues = take(keys), s.keys_transposed = take(keys), s.values_transposed = take(keys),
  s.keys = take(keys);
  s.q = take(tokens), s.dout = take(tokens), s.dq = take(tokens);
  s.probabilities = take(pairs), s.dscores = take(pairs);
  for (std::int64_t query = 0; query < how.queries; ++query) {
    const Rows<float> dq = item.queries(x.dq, query, 0, how.q_tokens);
    for (std::int64_t t = 0; t < how.q_tokens; ++t) std::fill_n(dq.data + t * dq.stride, how.head, 0.0f);
  }
  for (std::int64_t key = 0; key < how.kv_tokens; key += kKeys)
    backward_keys(item, s, key, std::min(kKeys, how.kv_tokens - key));
}

std::int64_t scratch(const Attention& how) {
  const std::int64_t padded = up(how.head, width()), keys = up(kKeys, width()) * padded, tokens = kQueries * padded,
                     pairs = kQueries * kKeys;
  const std::int64_t forwards =
      kBand * padded + tokens + pairs + 2 * keys + kBand * static_cast<std::int64_t>(sizeof(Running) / sizeof(float));
  return up(std::max(forwards, 5 * keys + 3 * tokens + 2 * pairs), 16);
}

const AttentionLoops* table() {
  static constexpr AttentionLoops loops{scratch, forward, backward};
  return &loops;
}

}  // namespace
}  // namespace quadrille::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille {
HWY_EXPORT(table);
const AttentionLoops& attention_loops() { return *HWY_DYNAMIC_DISPATCH(table)(); }
}  // namespace quadrille
#endif
