// SPDX-License-Identifier: Apache-2.0
// Attention forward: cuDNN's where it can, else the plain kernel; and the merge of two parts.
// The kernel is bound by arithmetic: 4·head FLOPs a visible (query, key) pair. Memory: q and out once, keys and values
// once for every 64 queries (from the cache), 4 or 8 bytes of log-sum a query and head.
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
  T* out;
  Real<T>* log_sum;
  const T *q, *kv;
  const std::int32_t* lengths;  // null: all keys
  Attention how;
  Dropped dropped;
  bool packs;
};

// The softmax of the queries of a thread as far as keys have come: four rows, shared by 16 threads.
template <class R>
struct Softmax {
  R most[kFour], total[kFour];  // of the scores so far; Σ exp(score - most), of this thread's keys
};

// Scores become weights exp(score - most), what was summed before shrinks to the new maximum. Weights go, transposed
// and dropped, to shared memory.
template <class T, int kChunks, int J>
__device__ __forceinline__ void weigh(const Operands<T>& x, const Head& head, std::int64_t first, std::int64_t key,
                                      Real<T> (&scores)[kFour][J], Softmax<Real<T>>& state,
                                      Real<T> (&sums)[kChunks][kFour][kFour], Real<T>* weights) {
  using R = Real<T>;
  const std::int64_t length = length_of(x.lengths, head);
#pragma unroll
  for (int i = 0; i < kFour; ++i) {
    const std::int64_t token = first + down() * kFour + i;
    const int seen = seen_of<J * kSide>(x.how, token, key, length);
    R peak = state.most[i];
#pragma unroll
    for (int j = 0; j < J; ++j) {
      scores[i][j] = across() + kSide * j < seen ? scores[i][j] * static_cast<R>(x.how.scale) : R(-INFINITY);
      peak = larger(peak, scores[i][j]);
    }
    peak = warp_max<kSide>(peak);
    const R base = peak == R(-INFINITY) ? R(0) : peak, shrink = exponential(state.most[i] - base);
    state.most[i] = peak;
    state.total[i] *= shrink;
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int j = 0; j < kFour; ++j) sums[c][i][j] *= shrink;
    const Multiplier<R> kept(x.how, head, token);
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const R weight = exponential(scores[i][j] - base);
      state.total[i] += weight;
      scores[i][j] = weight * kept(x.how, x.dropped, key + across() + kSide * j);
    }
  }
#pragma unroll
  for (int j = 0; j < J; ++j) {
    Pack<R, kFour> column;
#pragma unroll
    for (int i = 0; i < kFour; ++i) column.at[i] = scores[i][j];
    *reinterpret_cast<Pack<R, kFour>*>(weights + (across() + kSide * j) * kFeatureLead + down() * kFour) = column;
  }
}

// One block of query tokens of one head.
template <class T, int kChunks>
__device__ __forceinline__ void attend(const Operands<T>& x, const Head& head, std::int64_t first) {
  using R = Real<T>;
  constexpr int K = kKeyBlock<R>;
  __shared__ Tiles<R, kQueryBlock, K> tiles;
  __shared__ Pack<R, kFour> weights[K * kFeatureLead / kFour];
  const Attention& how = x.how;
  const int width = static_cast<int>(how.head), rows = tokens_left<kQueryBlock>(how.q_tokens, first);
  const auto q = q_rows(x.q, how, head, first, rows);
  Softmax<R> state;
#pragma unroll
  for (int i = 0; i < kFour; ++i) state.most[i] = R(-INFINITY), state.total[i] = 0;
  R sums[kChunks][kFour][kFour] = {};
  const std::int64_t length = length_of(x.lengths, head), end = visible_keys(how, first + rows - 1, length);
  for (std::int64_t key = 0; key < end; key += K) {
    const int keys = tokens_left<K>(how.kv_tokens, key);
    R scores[kFour][K / kSide] = {};
    multiply_heads<kQueryBlock, K>(scores, tiles, q, k_rows(x.kv, how, head, key, keys), width, x.packs);
    weigh<T>(x, head, first, key, scores, state, sums, weights[0].at);
    add_weighted<K, kFeatureLead>(sums, weights[0].at, tiles, v_rows(x.kv, how, head, key, keys), width, x.packs);
  }
#pragma unroll
  for (int i = 0; i < kFour; ++i) {
    const std::int64_t token = first + down() * kFour + i;
    const R total = warp_sum<kSide>(state.total[i]);
    if (token >= how.q_tokens) continue;
    const bool blind = visible_keys(how, token, length) == 0;
    store_row(x.out + out_at(how, head, token), sums, i, blind ? R(0) : R(1) / total, width, x.packs);
    if (across() == 0)
      x.log_sum[log_sum_at(how, head, token)] = blind ? R(-INFINITY) : state.most[i] + logarithm(total);
  }
}

// A block has a block of query tokens of one head. The last tokens, which see most keys, come first.
template <class T, int kChunks>
__global__ void __launch_bounds__(kAttentionThreads, blocks_at_once<Real<T>>(kChunks))
    attention_kernel(Operands<T> x, std::int64_t blocks) {
  const Attention& how = x.how;
  const std::int64_t heads = how.rows * how.groups * how.queries;
  for (std::int64_t item = blockIdx.x; item < blocks * heads; item += gridDim.x) {
    const std::int64_t of_block = item / heads, head = item - of_block * heads, group = head / how.queries;
    attend<T, kChunks>(x, {group / how.groups, group % how.groups, head % how.queries},
                       (blocks - 1 - of_block) * kQueryBlock);
  }
}

template <class T>
void attend_plainly(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                    const Tensor& lengths, const Attention& how) {
  const std::int64_t blocks = (how.q_tokens + kQueryBlock - 1) / kQueryBlock;
  const bool packs = heads_in_packs<T>(how) && pack_aligned<kPackOf<T>>(out.as<T>(), q.as<T>(), kv.as<T>());
  const Operands<T> x{out.as<T>(), log_sum.as<Real<T>>(),         q.as<T>(), kv.as<T>(), lengths_of(lengths),
                      how,         Dropped(how.key, how.dropout), packs};
  with_chunks_of(how.head, [&]<int kChunks>(std::integral_constant<int, kChunks>) {
    launch(cuda_stream(stream),
           {blocks_for(how.rows * how.groups * how.queries * blocks, 1, kMostBlocks), kAttentionThreads},
           attention_kernel<T, kChunks>, x, blocks);
  });
}

// Reads both parts, writes one; a warp has one head of one token.
constexpr int kMergeRows = 8;
template <class T>
__global__ void __launch_bounds__(kWarp* kMergeRows)
    attention_merge_kernel(MergeExtents e, T* out, Real<T>* log_sum, const T* part_out, const Real<T>* part_log_sum) {
  using R = Real<T>;
  const std::int64_t heads = e.groups * e.queries;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kMergeRows + threadIdx.y; i < e.rows * e.tokens * heads;
       i += std::int64_t{gridDim.x} * kMergeRows) {
    const std::int64_t token = i / heads % e.tokens, row = i / heads / e.tokens;
    const std::int64_t at = (row * heads + i % heads) * e.tokens + token;
    const R mine = log_sum[at], part = part_log_sum[at], most = larger(mine, part);
    if (most == R(-INFINITY)) continue;  // no key so far
    const R sum = most + logarithm(exponential(mine - most) + exponential(part - most));
    const R of_mine = exponential(mine - sum), of_part = exponential(part - sum);
    for (std::int64_t d = i * e.head + threadIdx.x; d < (i + 1) * e.head; d += kWarp)
      out[d] = narrow<T>(of_mine * widen(out[d]) + of_part * widen(part_out[d]));
    __syncwarp();  // every lane has read the sums
    if (threadIdx.x == 0) log_sum[at] = sum;
  }
}

}  // namespace

Cost CudaOps::attention(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                        const Tensor& lengths, const Attention& how) const {
  check_attention(stream, out, log_sum, q, kv, lengths, how);
  if (how.rows * how.q_tokens * how.kv_tokens > 0 && !lengths && sdpa_supports(q, how))
    sdpa_forward(stream, out, log_sum, q, kv, how);
  else
    with_number_type(q, [&]<class T>(T) { attend_plainly<T>(stream, out, log_sum, q, kv, lengths, how); });
  return bill_attention(out, log_sum, q, kv, how, kAttentionBlock);
}

Cost CudaOps::attention_merge(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& part_out,
                              const Tensor& part_log_sum) const {
  const MergeExtents e = check_attention_merge(stream, out, log_sum, part_out, part_log_sum);
  with_number_type(out, [&]<class T>(T) {
    launch(cuda_stream(stream), {blocks_for(e.rows * e.tokens * e.groups * e.queries, kMergeRows), {kWarp, kMergeRows}},
           attention_merge_kernel<T>, e, out.as<T>(), log_sum.as<Real<T>>(), part_out.as<T>(),
           part_log_sum.as<Real<T>>());
  });
  return bill_attention_merge(out, log_sum, part_out, part_log_sum);
}

}  // namespace quadrille
