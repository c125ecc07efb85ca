// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix, in a fixed order and without memory of their own. A block has a few columns and all
// rows: 32 bytes of each row, the least that memory gives, so that many blocks share even a narrow matrix (768 columns
// of bf16: 48 blocks). A thread adds every kRows-th row of its pack, then one warp a column adds the threads.
#pragma once

#include "kernels/cuda/device_code.cuh"

namespace quadrille {

inline constexpr int kColumnThreads = 512;
template <class T>
inline constexpr int kBlockColumns = 32 / static_cast<int>(sizeof(T));

template <class T, int N>
struct ColumnBlock {
  static constexpr int kColumns = kBlockColumns<T>, kPacks = kColumns / N, kRows = kColumnThreads / kPacks;
  using Sums = Real<T>[kRows][kColumns + 1];  // one more: the rows of a column then lie in different banks

  // Of the calling thread: its row of each kRows, and the first column of its pack in the block and in the matrix.
  __device__ static int row() { return static_cast<int>(threadIdx.x) / kPacks; }
  __device__ static int column() { return static_cast<int>(threadIdx.x) % kPacks * N; }
  __device__ static std::int64_t first() { return std::int64_t{blockIdx.x} * kColumns; }

  __device__ static void put(Sums& sums, const Pack<Real<T>, N>& mine) {
#pragma unroll
    for (int k = 0; k < N; ++k) sums[row()][column() + k] = mine.at[k];
  }
  // After a barrier: column `warp` of the block is added up by the warp of that number.
  __device__ static double total(const Sums& sums, int warp) {
    double sum = 0;
    for (int i = static_cast<int>(threadIdx.x) % kWarp; i < kRows; i += kWarp)
      sum += static_cast<double>(sums[i][warp]);
    return warp_sum(sum);
  }
};

}  // namespace quadrille
