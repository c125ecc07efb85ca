// SPDX-License-Identifier: Apache-2.0
// What the plain attention kernels are made of. A block of 16 x 16 threads multiplies tiles of queries with tiles of
// keys in shared memory, as products of small outer products in registers (Volkov and Demmel 2008), in f32 (f64) for
// every type; the softmax runs along (Milakov and Gimelshein 2018), so scores are never stored. Heads of up to 256
// numbers: the results of a thread are chunks of 4 x 4, one for each 64 features. Shared memory stays below 48 KB.
// These kernels do what cuDNN does not: f32 and f64, dropout, jumps, uneven causal parts. They use no tensor cores:
// of the machine they can at best get the f32 rate of its ordinary cores.
#pragma once

#include "kernels/bills.h"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/dropped.cuh"
#include "kernels/cuda/ops.h"

namespace quadrille {

inline constexpr int kSide = 16, kAttentionThreads = kSide * kSide;
inline constexpr int kQueryBlock = static_cast<int>(CudaOps::kAttentionBlock);  // query tokens of a block
template <class R>
inline constexpr int kKeyBlock = sizeof(R) == 4 ? 64 : 32;
// Blocks that a multiprocessor should hold at once, so that one computes while another loads: two, where the sums of
// heads of up to 64 features leave registers enough for it.
template <class R>
constexpr int blocks_at_once(int chunks) {
  return sizeof(R) == 4 && chunks == 1 ? 2 : 1;
}
inline constexpr int kDepth = 32;     // features of a head multiplied at once
inline constexpr int kFeatures = 64;  // features of a result in one chunk
inline constexpr int kFour = 4;
// Rows of tiles lie four numbers further apart than they are long: the four of a row are read at once, and rows that
// neighbours read lie in different banks.
inline constexpr int kDepthLead = kDepth + kFour, kFeatureLead = kFeatures + kFour;

__device__ __forceinline__ int across() { return static_cast<int>(threadIdx.x) % kSide; }
__device__ __forceinline__ int down() { return static_cast<int>(threadIdx.x) / kSide; }

// Rows of a tensor that a tile is filled from.
template <class T>
struct RowsOf {
  const T* first;
  std::int64_t stride;
  int count;  // how many there are; beyond them are zeros
};

// `count` rows, columns [column, column + kColumns) of them, of which those below `columns` exist.
template <int kRows, int kColumns, int kLead, class R, class T>
__device__ __forceinline__ void load_tile(R* to, const RowsOf<T>& from, int column, int columns, bool packs) {
  constexpr int N = kPackOf<T>, kPiece = N < kFour ? N : kFour;
  const int thread = static_cast<int>(threadIdx.x);
  if (packs) {
#pragma unroll 1
    for (int i = thread; i < kRows * (kColumns / N); i += kAttentionThreads) {
      const int row = i / (kColumns / N), at = i % (kColumns / N) * N;
      Pack<R, N> v{};
      if (row < from.count && column + at < columns) v = load_pack<N>(from.first + row * from.stride + column + at);
#pragma unroll
      for (int k = 0; k < N; k += kPiece) {
        Pack<R, kPiece> piece;
#pragma unroll
        for (int p = 0; p < kPiece; ++p) piece.at[p] = v.at[k + p];
        *reinterpret_cast<Pack<R, kPiece>*>(to + row * kLead + at + k) = piece;
      }
    }
  } else {
#pragma unroll 1
    for (int i = thread; i < kRows * kColumns; i += kAttentionThreads) {
      const int row = i / kColumns, at = i % kColumns;
      to[row * kLead + at] =
          row < from.count && column + at < columns ? widen(from.first[row * from.stride + column + at]) : R(0);
    }
  }
}

// Tiles of both factors of a product over features, or of one factor of a product over tokens, a row for each.
template <class R, int kLeft, int kRight, int kTokens = kRight>
union alignas(kFour * sizeof(R)) Tiles {
  struct {
    R left[kLeft * kDepthLead], right[kRight * kDepthLead];
  } rows;
  R features[kTokens * kFeatureLead];
};

// to[i][j] += Σ over features of left row (down·I + i) times right row (across + 16 j), from tiles.
template <int I, int J, class R>
__device__ __forceinline__ void multiply_rows(R (&to)[I][J], const R* left, const R* right) {
  using Four = Pack<R, kFour>;
#pragma unroll 1
  for (int d = 0; d < kDepth; d += kFour) {
    Four a[I];
#pragma unroll
    for (int i = 0; i < I; ++i) a[i] = *reinterpret_cast<const Four*>(left + (down() * I + i) * kDepthLead + d);
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const auto b = *reinterpret_cast<const Four*>(right + (across() + kSide * j) * kDepthLead + d);
#pragma unroll
      for (int i = 0; i < I; ++i)
#pragma unroll
        for (int k = 0; k < kFour; ++k) to[i][j] += a[i].at[k] * b.at[k];
    }
  }
}
// The same over whole heads, from the tensors. All threads call it; what the tiles held is overwritten.
template <int kLeft, int kRight, class R, class T>
__device__ __forceinline__ void multiply_heads(R (&to)[kLeft / kSide][kRight / kSide], Tiles<R, kLeft, kRight>& tiles,
                                               const RowsOf<T>& left, const RowsOf<T>& right, int head, bool packs) {
  for (int d = 0; d < head; d += kDepth) {
    __syncthreads();
    load_tile<kLeft, kDepth, kDepthLead>(tiles.rows.left, left, d, head, packs);
    load_tile<kRight, kDepth, kDepthLead>(tiles.rows.right, right, d, head, packs);
    __syncthreads();
    multiply_rows(to, tiles.rows.left, tiles.rows.right);
  }
}

// to[chunk][i][j] += Σ over tokens k of weights[k][down·I + i] times feature (64 chunk + 4 across + j) of row k.
// `weights`: kTokens rows, kLead apart. All threads call it: the weights are written before, and may be overwritten
// after the next barrier.
template <int kTokens, int kLead, int kChunks, int I, int kLeft, int kRight, class R, class T>
__device__ __forceinline__ void add_weighted(R (&to)[kChunks][I][kFour], const R* weights,
                                             Tiles<R, kLeft, kRight>& tiles, const RowsOf<T>& rows, int head,
                                             bool packs) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    __syncthreads();
    load_tile<kTokens, kFeatures, kFeatureLead>(tiles.features, rows, c * kFeatures, head, packs);
    __syncthreads();
#pragma unroll 2
    for (int k = 0; k < kTokens; ++k) {
      const auto a = *reinterpret_cast<const Pack<R, I>*>(weights + k * kLead + down() * I);
      const auto b = *reinterpret_cast<const Pack<R, kFour>*>(tiles.features + k * kFeatureLead + across() * kFour);
#pragma unroll
      for (int i = 0; i < I; ++i)
#pragma unroll
        for (int j = 0; j < kFour; ++j) to[c][i][j] += a.at[i] * b.at[j];
    }
  }
}

// A thread's chunks of one row, times `factor`, to where the row's head begins.
template <int kChunks, int I, class R, class T>
__device__ __forceinline__ void store_row(T* to, const R (&from)[kChunks][I][kFour], int i, R factor, int head,
                                          bool packs) {
  constexpr int N = kPackOf<T> < kFour ? kPackOf<T> : kFour;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = c * kFeatures + across() * kFour;
#pragma unroll
    for (int j = 0; j < kFour; j += N) {
      if (packs && column + j < head) {
        Pack<R, N> piece;
#pragma unroll
        for (int k = 0; k < N; ++k) piece.at[k] = from[c][i][j + k] * factor;
        store_pack(to + column + j, piece);
      } else {
#pragma unroll
        for (int k = j; k < j + N; ++k)
          if (column + k < head) to[column + k] = narrow<T>(from[c][i][k] * factor);
      }
    }
  }
}

// Which head: row of the batch, group, query of the group; and where it lies in each tensor, see ops.h.
struct Head {
  std::int64_t b = 0, g = 0, r = 0;
};
__device__ __forceinline__ std::int64_t q_at(const Attention& how, const Head& h, std::int64_t t) {
  return ((h.b * how.q_tokens + t) * how.groups + h.g) * how.q_width + h.r * how.head;
}
__device__ __forceinline__ std::int64_t k_at(const Attention& how, const Head& h, std::int64_t t) {
  return ((h.b * how.kv_tokens + t) * how.groups + h.g) * how.kv_width + how.kv_offset;
}
__device__ __forceinline__ std::int64_t out_at(const Attention& how, const Head& h, std::int64_t t) {
  return (((h.b * how.q_tokens + t) * how.groups + h.g) * how.queries + h.r) * how.head;
}
__device__ __forceinline__ std::int64_t log_sum_at(const Attention& how, const Head& h, std::int64_t t) {
  return ((h.b * how.groups + h.g) * how.queries + h.r) * how.q_tokens + t;
}
template <int kMost>
__device__ __forceinline__ int tokens_left(std::int64_t all, std::int64_t first) {
  return static_cast<int>(min(std::int64_t{kMost}, all - first));
}
template <class T>
__device__ __forceinline__ RowsOf<T> q_rows(const T* q, const Attention& how, const Head& h, std::int64_t t,
                                            int count) {
  return {q + q_at(how, h, t), how.groups * how.q_width, count};
}
template <class T>
__device__ __forceinline__ RowsOf<T> k_rows(const T* kv, const Attention& how, const Head& h, std::int64_t t,
                                            int count) {
  return {kv + k_at(how, h, t), how.groups * how.kv_width, count};
}
template <class T>
__device__ __forceinline__ RowsOf<T> v_rows(const T* kv, const Attention& how, const Head& h, std::int64_t t,
                                            int count) {
  return {kv + k_at(how, h, t) + how.head, how.groups * how.kv_width, count};
}
template <class T>
__device__ __forceinline__ RowsOf<T> out_rows(const T* out, const Attention& how, const Head& h, std::int64_t t,
                                              int count) {
  return {out + out_at(how, h, t), how.groups * how.queries * how.head, count};
}

// Of the row of a head: see Ops::attention.
inline const std::int32_t* lengths_of(const Tensor& lengths) { return lengths ? lengths.as<std::int32_t>() : nullptr; }
__device__ __forceinline__ std::int64_t length_of(const std::int32_t* lengths, const Head& h) {
  return lengths ? lengths[h.b] : kWholeLength;
}

// How many keys, of the `kKeys` from `key` on, the query token sees. A token beyond the last sees none.
template <int kKeys>
__device__ __forceinline__ int seen_of(const Attention& how, std::int64_t token, std::int64_t key,
                                       std::int64_t length) {
  if (token >= how.q_tokens) return 0;
  return static_cast<int>(max(std::int64_t{0}, min(visible_keys(how, token, length) - key, std::int64_t{kKeys})));
}

// What dropout multiplies the probability of (query token, key token) with.
template <class R>
struct Multiplier {
  bool any;
  R keep;
  std::int64_t row;  // address of the query's first key
  __device__ Multiplier(const Attention& how, const Head& h, std::int64_t token)
      : any(how.dropout > 0), keep(static_cast<R>(1 / (1 - how.dropout))), row(0) {
    if (!any) return;
    const std::int64_t head = how.first_head + h.g * how.queries + h.r;
    row = (((how.first_row + h.b) * how.heads_global + head) * how.q_global +
           position_of(how.q_first, how.q_jump, token)) *
          how.kv_global;
  }
  __device__ __forceinline__ R operator()(const Attention& how, const Dropped& dropped, std::int64_t key) const {
    if (!any) return R(1);
    return dropped(row + position_of(how.kv_first, how.kv_jump, key)) ? R(0) : keep;
  }
};

// Whether heads can be read in packs: every place in q, kv and out at which one begins is a multiple.
template <class T>
bool heads_in_packs(const Attention& how) {
  constexpr std::int64_t N = kPackOf<T>;
  return how.head % N == 0 && how.q_width % N == 0 && how.kv_width % N == 0 && how.kv_offset % N == 0;
}

// Starts the instance of a kernel for heads of this width: work(chunks) with a constant.
template <class F>
void with_chunks_of(std::int64_t head, F&& work) {
  if (head <= kFeatures)
    work(std::integral_constant<int, 1>());
  else if (head <= 2 * kFeatures)
    work(std::integral_constant<int, 2>());
  else if (head <= kMostHead)
    work(std::integral_constant<int, kMostHead / kFeatures>());
  else
    refuse_head(head);
}

}  // namespace quadrille
