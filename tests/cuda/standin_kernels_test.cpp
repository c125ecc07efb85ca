// SPDX-License-Identifier: Apache-2.0
// The stand-in runs right kernels rightly and catches planted faults inside a block.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "tests/cuda/faulty_kernels.h"
#include "tests/cuda/on_standin.h"

namespace quadrille {
namespace {

using StandinKernels = OnStandin;

std::vector<float> counting_up(int count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 1.0F);
  return out;
}

TEST_F(StandinKernels, ShufflesSharedMemoryAndBarriersGiveSums) {
  const std::vector<float> in = counting_up(5 * kThreads);
  const Tensor x = put(in), sums = device->empty({5}, DType::f32);
  block_sums(cuda_stream(*stream), sums.as<float>(), x.as<float>(), 5);
  const std::vector<float> got = read(sums);
  for (std::size_t b = 0; b < 5; ++b)
    EXPECT_EQ(got[b], std::accumulate(in.begin() + static_cast<std::ptrdiff_t>(b * kThreads),
                                      in.begin() + static_cast<std::ptrdiff_t>((b + 1) * kThreads), 0.0F));
}

TEST_F(StandinKernels, DynamicSharedMemoryIsReversed) {
  const std::vector<float> in = counting_up(3 * kThreads);
  const Tensor x = put(in), out = device->empty({3 * kThreads}, DType::f32);
  reverse(cuda_stream(*stream), out.as<float>(), x.as<float>(), 3);
  const std::vector<float> got = read(out);
  EXPECT_EQ(got[0], in[kThreads - 1]);
  EXPECT_EQ(got[3 * kThreads - 1], in[2 * kThreads]);
}

TEST_F(StandinKernels, AMissingBarrierGivesWrongNumbersEveryTime) {
  const std::vector<float> in = counting_up(kThreads);
  const Tensor x = put(in), out = device->empty({kThreads}, DType::f32);
  for (int again = 0; again < 20; ++again) {
    reverse_without_barrier(cuda_stream(*stream), out.as<float>(), x.as<float>(), 1);
    const std::vector<float> got = read(out);
    std::vector<float> wanted(in.rbegin(), in.rend());
    EXPECT_NE(got, wanted);
  }
}

TEST_F(StandinKernels, SharedMemoryHoldsNothingOfTheBlockBefore) {
  const Tensor out = device->empty({3 * kThreads}, DType::f32);
  read_unwritten_shared(cuda_stream(*stream), out.as<float>(), 3);
  for (const float v : read(out)) EXPECT_TRUE(std::isnan(v));
}

TEST_F(StandinKernels, AtomicsCountEveryThread) {
  const Tensor out = device->empty({1}, DType::i32);
  stream->zero(out);
  count_threads(cuda_stream(*stream), out.as<std::int32_t>(), 7);
  const Tensor here = host->empty({1}, DType::i32);
  stream->copy(here, out);
  stream->synchronize();
  EXPECT_EQ(here.host<std::int32_t>()[0], 7 * kThreads);
}

TEST_F(StandinKernels, ADivergentBarrierIsCaught) {
  half_of_block_at_barrier(cuda_stream(*stream));
  expect_fault({"half_kernel", "block (0, 0, 0)", "64 threads wait at __syncthreads, 64 have ended"});
  barriers_at_two_places(cuda_stream(*stream));
  expect_fault({"two_places_kernel", "__syncthreads at faulty_kernels.cu"});
}

TEST_F(StandinKernels, AShuffleWithAbsentLanesIsCaught) {
  const Tensor out = device->empty({kThreads}, DType::f32);
  shuffle_with_absent_lanes(cuda_stream(*stream), out.as<float>());
  expect_fault({"shuffle_kernel", "lane 16", "has ended"});
  shuffle_beyond_the_block(cuda_stream(*stream), out.as<float>());
  expect_fault({"shuffle_kernel", "lane 8", "does not exist"});
  shuffle_without_itself(cuda_stream(*stream), out.as<float>());
  expect_fault({"shuffle_kernel", "without itself"});
}

TEST_F(StandinKernels, AWriteBehindDynamicSharedMemoryIsCaught) {
  write_behind_shared(cuda_stream(*stream), 64);
  expect_fault({"write_behind_kernel", "behind its 64 bytes of dynamic shared memory"});
}

}  // namespace
}  // namespace quadrille
