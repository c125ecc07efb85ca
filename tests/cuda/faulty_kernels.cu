// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/faulty_kernels.h"

#include "core/cuda/launch.h"

namespace quadrille {

extern __shared__ uint4 dynamic_shared_memory[];

namespace {

__global__ void block_sums_kernel(float* out, const float* in) {
  __shared__ float partial[kThreads / 32];
  float sum = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int lanes = warpSize / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, lanes);
  if (threadIdx.x % warpSize == 0) partial[threadIdx.x / warpSize] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0;
    for (const float p : partial) total += p;
    out[blockIdx.x] = total;
  }
}

template <bool barrier>
__global__ void reverse_kernel(float* out, const float* in) {
  auto* tile = reinterpret_cast<float*>(dynamic_shared_memory);
  const unsigned first = blockIdx.x * blockDim.x;
  tile[threadIdx.x] = in[first + threadIdx.x];
  if constexpr (barrier) __syncthreads();
  out[first + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__global__ void read_unwritten_kernel(float* out) {
  __shared__ float tile[kThreads];
  out[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x];
  __syncthreads();
  tile[threadIdx.x] = 1;
}

__global__ void write_behind_kernel(std::int64_t bytes) { reinterpret_cast<char*>(dynamic_shared_memory)[bytes] = 1; }

__global__ void fill_kernel(float* out, float value, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) out[i] = value;
}

__global__ void add_one_kernel(float* out, const float* in, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] + 1;
}

__global__ void touch_kernel(float* p, std::int64_t at, bool write, float* out) {
  if (write)
    p[at] = 1;
  else
    *out = p[at];
}

__global__ void fill_rows_kernel(Table table, float value, std::int64_t width) {
  for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x) table.rows[blockIdx.x][i] = value;
}

__global__ void half_kernel() {
  if (threadIdx.x < kThreads / 2) __syncthreads();
}

__global__ void two_places_kernel() {
  if (threadIdx.x < kThreads / 2)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void shuffle_kernel(float* out, unsigned mask, unsigned lanes_that_come) {
  float value = static_cast<float>(threadIdx.x);
  if (threadIdx.x % warpSize < lanes_that_come) value = __shfl_xor_sync(mask, value, 1);
  out[threadIdx.x] = value;
}

__global__ void count_kernel(int* out) { atomicAdd(out, 1); }

unsigned blocks_for(std::int64_t count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

}  // namespace

void block_sums(cudaStream_t stream, float* out, const float* in, int blocks) {
  launch(stream, {static_cast<unsigned>(blocks), kThreads}, block_sums_kernel, out, in);
}
void reverse(cudaStream_t stream, float* out, const float* in, int blocks) {
  launch(stream, {static_cast<unsigned>(blocks), kThreads, kThreads * sizeof(float)}, reverse_kernel<true>, out, in);
}
void reverse_without_barrier(cudaStream_t stream, float* out, const float* in, int blocks) {
  launch(stream, {static_cast<unsigned>(blocks), kThreads, kThreads * sizeof(float)}, reverse_kernel<false>, out, in);
}
void read_unwritten_shared(cudaStream_t stream, float* out, int blocks) {
  launch(stream, {static_cast<unsigned>(blocks), kThreads}, read_unwritten_kernel, out);
}
void write_behind_shared(cudaStream_t stream, std::int64_t shared_bytes) {
  launch(stream, {1, 1, static_cast<std::size_t>(shared_bytes)}, write_behind_kernel, shared_bytes);
}
void fill(cudaStream_t stream, float* out, float value, std::int64_t count) {
  launch(stream, {blocks_for(count), kThreads}, fill_kernel, out, value, count);
}
void add_one(cudaStream_t stream, float* out, const float* in, std::int64_t count) {
  launch(stream, {blocks_for(count), kThreads}, add_one_kernel, out, in, count);
}
void touch(cudaStream_t stream, float* p, std::int64_t at, bool write, float* out) {
  launch(stream, {1, 1}, touch_kernel, p, at, write, out);
}
void fill_rows(cudaStream_t stream, const Table& table, float value, std::int64_t width) {
  launch(stream, {static_cast<unsigned>(table.count), kThreads}, fill_rows_kernel, table, value, width);
}
void half_of_block_at_barrier(cudaStream_t stream) { launch(stream, {1, kThreads}, half_kernel); }
void barriers_at_two_places(cudaStream_t stream) { launch(stream, {1, kThreads}, two_places_kernel); }
void shuffle_with_absent_lanes(cudaStream_t stream, float* out) {
  launch(stream, {1, kThreads}, shuffle_kernel, out, 0xffffffffU, 16U);
}
void shuffle_beyond_the_block(cudaStream_t stream, float* out) {
  launch(stream, {1, 40}, shuffle_kernel, out, 0xffffffffU, 32U);
}
void shuffle_without_itself(cudaStream_t stream, float* out) {
  launch(stream, {1, 32}, shuffle_kernel, out, 0x0000ffffU, 32U);
}
void count_threads(cudaStream_t stream, int* out, int blocks) {
  launch(stream, {static_cast<unsigned>(blocks), kThreads}, count_kernel, out);
}

}  // namespace quadrille
