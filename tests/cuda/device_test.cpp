// SPDX-License-Identifier: Apache-2.0
// The CUDA device itself (core/cuda), on the stand-in: copies between all kinds of devices, accounts, refusals.
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <vector>

#include "core/arena.h"
#include "core/cuda/check.h"
#include "tests/cuda/on_standin.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

class CudaDevices : public OnStandin {
 protected:
  template <class Action>
  void expect_refusal(Action action, const std::vector<std::string>& words) {
    const std::string message = message_of(action);
    for (const std::string& w : words) EXPECT_TRUE(contains(message, w)) << w << " in: " << message;
  }
};

TEST_F(CudaDevices, CopiesGoBetweenHostAndDevices) {
  const Tensor a = put({1, 2, 3, 4}), b = device->empty({4}, DType::f32);
  stream->copy(b, a);
  stream->copy(b.rows(0, 2), a.rows(2, 2));
  EXPECT_EQ(read(b), (std::vector<float>{3, 4, 3, 4}));
}

TEST_F(CudaDevices, WhatWasOnlyCountedReadsAsZero) {
  const auto counting = make_counting_device();
  const Tensor a = put({1, 2}), counted = counting->empty({2}, DType::f32);
  stream->copy(counted, a);
  stream->copy(a, counted);
  EXPECT_EQ(read(a), (std::vector<float>{0, 0}));
}

TEST_F(CudaDevices, CopiesOfOtherSizesOrTypesAreRefused) {
  const Tensor a = device->empty({4}, DType::f32);
  EXPECT_THROW(stream->copy(a, device->empty({3}, DType::f32)), Error);
  EXPECT_THROW(stream->copy(a, device->empty({4}, DType::i32)), Error);
}

TEST_F(CudaDevices, BytesAreAccounted) {
  const auto fresh = open_cuda_device(2);
  {
    const Tensor a = fresh->empty({256}, DType::f32);
    EXPECT_EQ(fresh->bytes_now(), 1024);
  }
  EXPECT_EQ(fresh->bytes_now(), 0);
  EXPECT_EQ(fresh->bytes_peak(), 1024);
  Arena arena(*fresh, 4096);
  const Tensor b = arena.empty({16}, DType::f32, End::low);
  EXPECT_EQ(fresh->bytes_now(), 4096);
}

TEST_F(CudaDevices, TensorsWithoutNumbersAreFine) {
  const Tensor none = device->empty({0, 4}, DType::f32);
  stream->zero(none);
  stream->copy(none, none);
  stream->synchronize();
}

TEST_F(CudaDevices, AskingForTooMuchMemorySaysHowMuchThereIs) {
  expect_refusal([&] { device->empty({std::int64_t{1} << 33}, DType::f32); },
                 {"out of memory on cuda:0", "34359738368 bytes wanted", "of 8589934592 are free"});
}

TEST_F(CudaDevices, AGpuThatIsNotThereIsRefused) {
  EXPECT_EQ(cuda_device_count(), 4);
  expect_refusal([] { open_cuda_device(4); }, {"GPU 4 was asked for, this machine shows 4"});
  expect_refusal([] { open_cuda_device(-1); }, {"GPU -1"});
}

TEST_F(CudaDevices, OtherDevicesHaveNoCudaStream) {
  const auto plain = host->make_stream();
  expect_refusal([&] { cuda_stream(*plain); }, {"a CUDA device was wanted", "\"host\""});
  expect_refusal([&] { cuda_index(*host); }, {"a CUDA device was wanted"});
  expect_refusal([&] { make_cuda_stream(*host, true); }, {"a CUDA device was wanted"});
  EXPECT_EQ(cuda_index(*device), 0);
}

TEST_F(CudaDevices, PinnedMemoryBelongsToTheHost) {
  const auto pinned = device->host_side();
  EXPECT_TRUE(pinned->on_host());
  const Tensor here = pinned->empty({3}, DType::f32);
  const auto at_once = pinned->make_stream();
  at_once->zero(here);
  EXPECT_EQ(here.host<float>()[1], 0);
  EXPECT_EQ(pinned->bytes_now(), 12);
  EXPECT_TRUE(make_host_device()->host_side()->on_host());
}

TEST_F(CudaDevices, MessagesNameThePlaceAndTheRuntimesWords) {
  expect_refusal([] { check(cudaSetDevice(9)); },
                 {"CUDA at device_test.cpp:", "invalid device ordinal (cudaErrorInvalidDevice)"});
  testing::internal::CaptureStderr();
  check_quietly(cudaErrorNoKernelImageForDevice);
  check_quietly(cudaErrorCudartUnloading);
  EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(), "CMAKE_CUDA_ARCHITECTURES=native"));
}

TEST_F(CudaDevices, RangesAreShownToProfilers) {
  stream->begin_range("forward");
  EXPECT_EQ(standin::ranges().open, std::vector<std::string>{"forward"});
  stream->end_range();
  EXPECT_EQ(standin::ranges().ended.back(), "forward");
  EXPECT_TRUE(standin::ranges().open.empty());
}

}  // namespace
}  // namespace quadrille
