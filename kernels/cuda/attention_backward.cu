// SPDX-License-Identifier: Apache-2.0
// Attention backward: cuDNN's where it can, else two plain kernels, one that goes over the keys for each block of
// queries (dQ) and one that goes over the queries for each block of keys (dK, dV). So every sum is one thread's, in a
// fixed order; the price is that scores and dP are computed twice. With S the scaled scores, P their softmax, M the
// dropout multipliers: dP = M∘(dout Vᵀ), dS = P∘(dP - dout·out), dQ = scale dS K, dK = scale dSᵀ Q, dV = (P∘M)ᵀ dout.
// Bound by arithmetic: 6·head FLOPs a visible pair in the first kernel, 8·head in the second.
// Of these seven products three are made once more, and billed so (kRebuiltPlainly).
#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/library.h"
#include "kernels/cuda/ops.h"

namespace quadrille {

namespace {

template <class T>
struct Operands {
  T *dq, *dkv;
  const T *dout, *out;
  const Real<T>* log_sum;
  const T *q, *kv;
  const std::int32_t* lengths;  // null: all keys
  Attention how;
  Dropped dropped;
  bool packs;
};

// What the backward pass knows of each query of a tile: its log-sum and dout·out.
template <class R, int kRows>
struct QueryFacts {
  R log_sum[kRows], inner[kRows];
};
// Sets the facts of the calling thread's queries, by whole warps; a barrier must follow.
template <int kRows, class T>
__device__ __forceinline__ void set_facts(QueryFacts<Real<T>, kRows>& facts, const Operands<T>& x, const Head& head,
                                          std::int64_t first) {
  constexpr int I = kRows / kSide;
#pragma unroll 1
  for (int i = 0; i < I; ++i) {
    const std::int64_t token = first + down() * I + i;
    const bool there = token < x.how.q_tokens;
    Real<T> inner = 0;
    const std::int64_t at = there ? out_at(x.how, head, token) : 0;
#pragma unroll 4
    for (int d = across(); there && d < static_cast<int>(x.how.head); d += kSide)
      inner += widen(x.dout[at + d]) * widen(x.out[at + d]);
    inner = warp_sum<kSide>(inner);
    if (across() != 0) continue;
    facts.log_sum[down() * I + i] = there ? x.log_sum[log_sum_at(x.how, head, token)] : Real<T>(0);
    facts.inner[down() * I + i] = inner;
  }
}

// Of scores and dout·value, kept: the dropped probability in the scores' place, the gradient of the score in the
// other's.
template <class T, int I, int J>
__device__ __forceinline__ void differentiate(const Operands<T>& x, const Head& head, std::int64_t first,
                                              std::int64_t key, const QueryFacts<Real<T>, I * kSide>& facts,
                                              Real<T> (&scores)[I][J], Real<T> (&gradients)[I][J]) {
  using R = Real<T>;
  const R scale = static_cast<R>(x.how.scale);
  const std::int64_t length = length_of(x.lengths, head);
#pragma unroll
  for (int i = 0; i < I; ++i) {
    const std::int64_t token = first + down() * I + i;
    const int seen = seen_of<J * kSide>(x.how, token, key, length);
    const Multiplier<R> multiplier(x.how, head, token);
    const R log_sum = facts.log_sum[down() * I + i], inner = facts.inner[down() * I + i];
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const int at = across() + kSide * j;
      const R probability = at < seen ? exponential(scores[i][j] * scale - log_sum) : R(0);
      const R kept = multiplier(x.how, x.dropped, key + at);
      scores[i][j] = probability * kept;
      gradients[i][j] = at < seen ? scale * probability * (kept * gradients[i][j] - inner) : R(0);
    }
  }
}

// dQ of one block of query tokens of one head.
template <class T, int kChunks>
__device__ __forceinline__ void differentiate_queries(const Operands<T>& x, const Head& head, std::int64_t first) {
  using R = Real<T>;
  constexpr int K = kKeyBlock<R>, J = K / kSide;
  __shared__ Tiles<R, kQueryBlock, K> tiles;
  __shared__ Pack<R, kFour> weights[K * kFeatureLead / kFour];
  __shared__ QueryFacts<R, kQueryBlock> facts;
  const Attention& how = x.how;
  const int width = static_cast<int>(how.head), rows = tokens_left<kQueryBlock>(how.q_tokens, first);
  const auto q = q_rows(x.q, how, head, first, rows), dout = out_rows(x.dout, how, head, first, rows);
  __syncthreads();  // the facts of the queries before have been read
  set_facts(facts, x, head, first);
  R sums[kChunks][kFour][kFour] = {};
  const std::int64_t end = visible_keys(how, first + rows - 1, length_of(x.lengths, head));
  for (std::int64_t key = 0; key < end; key += K) {
    const int keys = tokens_left<K>(how.kv_tokens, key);
    const auto k = k_rows(x.kv, how, head, key, keys);
    R scores[kFour][J] = {}, gradients[kFour][J] = {};
    multiply_heads<kQueryBlock, K>(scores, tiles, q, k, width, x.packs);
    multiply_heads<kQueryBlock, K>(gradients, tiles, dout, v_rows(x.kv, how, head, key, keys), width, x.packs);
    differentiate<T>(x, head, first, key, facts, scores, gradients);
#pragma unroll
    for (int j = 0; j < J; ++j) {
      Pack<R, kFour> column;
#pragma unroll
      for (int i = 0; i < kFour; ++i) column.at[i] = gradients[i][j];
      weights[((across() + kSide * j) * kFeatureLead + down() * kFour) / kFour] = column;
    }
    add_weighted<K, kFeatureLead>(sums, weights[0].at, tiles, k, width, x.packs);
  }
#pragma unroll
  for (int i = 0; i < kFour; ++i) {
    const std::int64_t token = first + down() * kFour + i;
    if (token < how.q_tokens) store_row(x.dq + q_at(how, head, token), sums, i, R(1), width, x.packs);
  }
}

// In bf16 two blocks would leave it 128 registers a thread, of which it spills a few.
template <class T>
constexpr int query_blocks_at_once(int chunks) {
  return sizeof(T) < sizeof(Real<T>) ? 1 : blocks_at_once<Real<T>>(chunks);
}

template <class T, int kChunks>
__global__ void __launch_bounds__(kAttentionThreads, query_blocks_at_once<T>(kChunks))
    attention_queries_kernel(Operands<T> x, std::int64_t blocks) {
  const Attention& how = x.how;
  const std::int64_t heads = how.rows * how.groups * how.queries;
  for (std::int64_t item = blockIdx.x; item < blocks * heads; item += gridDim.x) {
    const std::int64_t of_block = item / heads, head = item - of_block * heads, group = head / how.queries;
    differentiate_queries<T, kChunks>(x, {group / how.groups, group % how.groups, head % how.queries},
                                      (blocks - 1 - of_block) * kQueryBlock);
  }
}

// Sums of a block of keys: for each of a thread's keys its features of dK and dV.
template <class R, int kChunks>
struct KeySums {
  static constexpr int kRows = kKeyBlock<R> / kSide;
  R dk[kChunks][kRows][kFour] = {}, dv[kChunks][kRows][kFour] = {};
};

// One tile of queries, as wide as the block of keys, adds its part to dK and dV.
template <class T, int kChunks>
__device__ __forceinline__ void add_queries(const Operands<T>& x, const Head& head, std::int64_t first,
                                            std::int64_t key, KeySums<Real<T>, kChunks>& sums) {
  using R = Real<T>;
  constexpr int K = kKeyBlock<R>, I = K / kSide, kLead = K + kFour;
  __shared__ Tiles<R, K, K> tiles;
  __shared__ Pack<R, kFour> weights[K * kLead / kFour];
  __shared__ QueryFacts<R, K> facts;
  const Attention& how = x.how;
  const int width = static_cast<int>(how.head), keys = tokens_left<K>(how.kv_tokens, key),
            rows = tokens_left<K>(how.q_tokens, first);
  const auto q = q_rows(x.q, how, head, first, rows), dout = out_rows(x.dout, how, head, first, rows);
  __syncthreads();  // the facts of the queries before have been read
  set_facts(facts, x, head, first);
  R scores[I][I] = {}, gradients[I][I] = {};
  multiply_heads<K, K>(scores, tiles, q, k_rows(x.kv, how, head, key, keys), width, x.packs);
  multiply_heads<K, K>(gradients, tiles, dout, v_rows(x.kv, how, head, key, keys), width, x.packs);
  differentiate<T>(x, head, first, key, facts, scores, gradients);
  const auto put = [&](const R(&from)[I][I]) {
#pragma unroll
    for (int i = 0; i < I; ++i)
#pragma unroll
      for (int j = 0; j < I; ++j) weights[0].at[(down() * I + i) * kLead + across() + kSide * j] = from[i][j];
  };
  put(scores);
  add_weighted<K, kLead>(sums.dv, weights[0].at, tiles, dout, width, x.packs);
  __syncthreads();
  put(gradients);
  add_weighted<K, kLead>(sums.dk, weights[0].at, tiles, q, width, x.packs);
}

// A block has a block of keys of one group, and goes over all its queries that see any of them. The first keys, which
// most queries see, come first.
template <class T, int kChunks>
__global__ void __launch_bounds__(kAttentionThreads, blocks_at_once<Real<T>>(kChunks))
    attention_keys_kernel(Operands<T> x, std::int64_t blocks) {
  using R = Real<T>;
  constexpr int K = kKeyBlock<R>;
  const Attention& how = x.how;
  const std::int64_t groups = how.rows * how.groups;
  for (std::int64_t item = blockIdx.x; item < blocks * groups; item += gridDim.x) {
    const std::int64_t of_block = item / groups, group = item - of_block * groups, key = of_block * K;
    Head head{group / how.groups, group % how.groups, 0};
    const std::int64_t begin = how.causal ? first_seeing(how, key) / K * K : 0;
    KeySums<R, kChunks> sums;
    for (head.r = 0; head.r < how.queries; ++head.r)
      for (std::int64_t first = begin; first < how.q_tokens; first += K)
        add_queries<T, kChunks>(x, head, first, key, sums);
#pragma unroll
    for (int i = 0; i < K / kSide; ++i) {
      const std::int64_t token = key + down() * (K / kSide) + i;
      if (token >= how.kv_tokens) continue;
      T* to = x.dkv + k_at(how, head, token);
      store_row(to, sums.dk, i, R(1), static_cast<int>(how.head), x.packs);
      store_row(to + how.head, sums.dv, i, R(1), static_cast<int>(how.head), x.packs);
    }
  }
}

template <class T>
void differentiate_plainly(Stream& stream, const Operands<T>& x) {
  const Attention& how = x.how;
  const cudaStream_t queue = cuda_stream(stream);
  const auto blocks_of = [](std::int64_t tokens, std::int64_t block) { return (tokens + block - 1) / block; };
  const std::int64_t of_queries = blocks_of(how.q_tokens, kQueryBlock),
                     of_keys = blocks_of(how.kv_tokens, kKeyBlock<Real<T>>), groups = how.rows * how.groups;
  with_chunks_of(how.head, [&]<int kChunks>(std::integral_constant<int, kChunks>) {
    launch(queue, {blocks_for(groups * how.queries * of_queries, 1, kMostBlocks), kAttentionThreads},
           attention_queries_kernel<T, kChunks>, x, of_queries);
    launch(queue, {blocks_for(groups * of_keys, 1, kMostBlocks), kAttentionThreads}, attention_keys_kernel<T, kChunks>,
           x, of_keys);
  });
}

}  // namespace

Cost CudaOps::attention_backward(Stream& stream, const Tensor& dq, const Tensor& dkv, const Tensor& dout,
                                 const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                                 const Tensor& lengths, const Attention& how) const {
  check_attention_backward(stream, dq, dkv, dout, out, log_sum, q, kv, lengths, how);
  // Written whole: parts of a group that are neither queries, keys nor values get zeros.
  const bool packed = dq.same_place(dkv);
  if (!packed && how.q_width != how.queries * how.head) stream.zero(dq);
  if (!packed && how.kv_width != 2 * how.head) stream.zero(dkv);
  const bool fused = how.rows * how.q_tokens * how.kv_tokens > 0 && !lengths && sdpa_supports(q, how);
  if (fused)
    sdpa_backward(stream, dq, dkv, dout, out, log_sum, q, kv, how);
  else
    with_number_type(q, [&]<class T>(T) {
      const bool packs = heads_in_packs<T>(how) && pack_aligned<kPackOf<T>>(dq.as<T>(), dkv.as<T>(), dout.as<T>(),
                                                                            out.as<T>(), q.as<T>(), kv.as<T>());
      differentiate_plainly<T>(
          stream, {dq.as<T>(), dkv.as<T>(), dout.as<T>(), out.as<T>(), log_sum.as<Real<T>>(), q.as<T>(), kv.as<T>(),
                   lengths_of(lengths), how, Dropped(how.key, how.dropout), packs});
    });
  return bill_attention_backward(dq, dkv, dout, out, log_sum, q, kv, how, kAttentionBlock,
                                 fused ? kRebuiltFused : kRebuiltPlainly);
}

}  // namespace quadrille
