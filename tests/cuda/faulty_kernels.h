// SPDX-License-Identifier: Apache-2.0
// Small kernels, right ones and ones with a planted fault, by which the stand-in is proved. Each call only queues its
// kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace quadrille {

inline constexpr int kThreads = 128;

// out[block] = Σ in of its 128 numbers: warp shuffles, static shared memory, a barrier.
void block_sums(cudaStream_t, float* out, const float* in, int blocks);
// out = in, backwards within 128 numbers, over dynamic shared memory. A barrier stands between writing and reading.
void reverse(cudaStream_t, float* out, const float* in, int blocks);
void reverse_without_barrier(cudaStream_t, float* out, const float* in, int blocks);
void read_unwritten_shared(cudaStream_t, float* out, int blocks);  // out = what the block finds in shared memory
void write_behind_shared(cudaStream_t, std::int64_t shared_bytes);

void fill(cudaStream_t, float* out, float value, std::int64_t count);
void add_one(cudaStream_t, float* out, const float* in, std::int64_t count);
void touch(cudaStream_t, float* p, std::int64_t at, bool write, float* out);  // one element, at any distance
struct Table {
  std::int64_t count;
  float* rows[3];
};
void fill_rows(cudaStream_t, const Table&, float value, std::int64_t width);  // pointers inside an argument

void half_of_block_at_barrier(cudaStream_t);
void barriers_at_two_places(cudaStream_t);
void shuffle_with_absent_lanes(cudaStream_t, float* out);
void shuffle_beyond_the_block(cudaStream_t, float* out);
void shuffle_without_itself(cudaStream_t, float* out);
void count_threads(cudaStream_t, int* out, int blocks);  // by atomicAdd

}  // namespace quadrille
