// SPDX-License-Identifier: Apache-2.0
// Memory of the stand-in: poisoned, guarded, and of one device; touching anything else is caught and named.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/cuda/check.h"
#include "tests/cuda/faulty_kernels.h"
#include "tests/cuda/on_standin.h"

namespace quadrille {
namespace {

class StandinMemory : public OnStandin {
 protected:
  void touch_at(const Tensor& t, std::int64_t at, bool write) {
    touch(cuda_stream(*stream), t.as<float>(), at, write, sink.as<float>());
  }
  Tensor sink = device->empty({1}, DType::f32);
};

TEST_F(StandinMemory, FreshMemoryIsNotANumber) {
  for (const DType type : {DType::f32, DType::f64, DType::i32}) {
    const Tensor t = device->empty({3}, type), here = host->empty({3}, type);
    stream->copy(here, t);
    stream->synchronize();
    if (type == DType::f32) {
      EXPECT_TRUE(std::isnan(here.host<float>()[2]));
    } else if (type == DType::f64) {
      EXPECT_TRUE(std::isnan(here.host<double>()[2]));
    } else {
      EXPECT_GT(here.host<std::int32_t>()[2], 1 << 30);
    }
  }
}

TEST_F(StandinMemory, AReadOutOfBoundsIsCaught) {
  const Tensor t = put(std::vector<float>(64));
  touch_at(t, 64, false);
  expect_fault(
      {"touch_kernel", "block (0, 0, 0) thread (0, 0, 0)", "byte 256 of an allocation of 256 bytes of device 0"});
  touch_at(t, -1000, false);
  expect_fault({"touch_kernel", "4000 bytes before an allocation of 256 bytes"});
}

TEST_F(StandinMemory, LargeMemoryIsPoisonedAndGuardedToo) {
  const std::int64_t count = (std::int64_t{40} << 20) / 4 + 3;
  const Tensor t = device->empty({count}, DType::f32);
  touch_at(t, count - 1, false);
  EXPECT_TRUE(std::isnan(read(sink)[0]));
  touch_at(t, count - 1, true);
  touch_at(t, count - 1, false);
  EXPECT_EQ(read(sink)[0], 1);
  touch_at(t, count, true);
  expect_fault({"touch_kernel", "wrote behind an allocation"});
  touch_at(t, count + 64, false);
  expect_fault({"touch_kernel", "touched byte"});
}

// Where the end of the allocation is not the end of its pages a read finds what is no number.
TEST_F(StandinMemory, AReadJustBehindGivesNoNumber) {
  const Tensor t = put(std::vector<float>(10));
  touch_at(t, 10, false);
  EXPECT_TRUE(std::isnan(read(sink)[0]));
}

TEST_F(StandinMemory, AWriteOutOfBoundsIsCaught) {
  const Tensor t = put(std::vector<float>(10));
  touch_at(t, 10, true);  // between the allocation and its pages
  expect_fault({"touch_kernel", "wrote behind an allocation of 40 bytes of device 0"});
  touch_at(t, -1, true);
  expect_fault({"touch_kernel", "wrote before an allocation of 40 bytes"});
  touch_at(t, 1 << 20, true);
  expect_fault({"touch_kernel", "touched memory of device 0 that nobody allocated"});
}

TEST_F(StandinMemory, FreedMemoryIsNeverTouchedAgain) {
  Tensor t = put(std::vector<float>(64));
  float* p = t.as<float>();
  t = {};
  touch(cuda_stream(*stream), p, 0, false, sink.as<float>());
  expect_fault({"touch_kernel", "touched freed memory of device 0, an allocation of 256 bytes"});
}

TEST_F(StandinMemory, WorkOfALibraryThatTouchesABadAddressIsCaught) {
  const Tensor t = put(std::vector<float>(64));
  auto* p = t.as<float>();
  standin::enqueue(cuda_stream(*stream), "product", [p] { p[64] = 1; });
  expect_fault({"product touched byte 256 of an allocation of 256 bytes of device 0"});
}

TEST_F(StandinMemory, DevicesDoNotMix) {
  const auto device1 = open_cuda_device(1);
  const auto stream1 = device1->make_stream();
  const Tensor there = device1->empty({4}, DType::f32), here = device->empty({4}, DType::f32);
  EXPECT_THROW(fill(cuda_stream(*stream), there.as<float>(), 1, 4), Error);
  expect_fault({"fill_kernel", "on device 0 was given memory of device 1"});
  if (standin::kLooksIntoStructs) {
    EXPECT_THROW(fill_rows(cuda_stream(*stream), Table{2, {here.as<float>(), there.as<float>(), nullptr}}, 1, 4),
                 Error);
    expect_fault({"fill_rows_kernel", "on device 0 was given memory of device 1"});
  }
  EXPECT_THROW(stream->copy(here, there), Error);
  expect_fault({"copy on device 0 was given memory of device 1"});
  EXPECT_THROW(stream->zero(there), Error);
  expect_fault({"memset on device 0"});
}

TEST_F(StandinMemory, ACopyThatIsTooLongIsCaught) {
  const Tensor t = device->empty({4}, DType::f32);
  const std::vector<float> numbers(8);
  EXPECT_THROW(check(cudaMemcpyAsync(t.data(), numbers.data(), 32, cudaMemcpyDefault, cuda_stream(*stream))), Error);
  expect_fault({"copy of 32 bytes from byte 0 on leaves an allocation of 16 bytes"});
}

TEST_F(StandinMemory, AKernelOnNoMemoryAtAllIsCaught) {
  touch(cuda_stream(*stream), nullptr, 0, true, sink.as<float>());
  expect_fault({"touch_kernel", "no memory of a device"});
}

// A device that failed stays so, as in the real runtime.
TEST_F(StandinMemory, AFaultStays) {
  const Tensor t = put(std::vector<float>(10));
  touch_at(t, 10, true);
  EXPECT_THROW(stream->synchronize(), Error);
  EXPECT_THROW(fill(cuda_stream(*stream), t.as<float>(), 1, 10), Error);
  expect_fault({"touch_kernel"});
}

}  // namespace
}  // namespace quadrille
