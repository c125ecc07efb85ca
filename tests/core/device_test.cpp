// SPDX-License-Identifier: Apache-2.0
// Byte accounting of devices, and streams that copy, zero and refuse.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "core/device.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

class DeviceTest : public testing::TestWithParam<std::string> {};

TEST_P(DeviceTest, CountsBytesNowAndAtTheirPeak) {
  const auto device = GetParam() == "host" ? make_host_device() : make_counting_device();
  ASSERT_EQ(device->name(), GetParam());
  {
    const Tensor a = device->empty({100}, DType::f32);
    {
      const Tensor b = device->empty({10, 10}, DType::f64);
      const Tensor view = b.rows(0, 3);  // shares, costs nothing
      EXPECT_EQ(device->bytes_now(), 1200);
    }
    EXPECT_EQ(device->bytes_now(), 400);
    const Tensor c = device->empty({10}, DType::i32);
    EXPECT_EQ(device->bytes_now(), 440);
  }
  EXPECT_EQ(device->bytes_now(), 0);
  EXPECT_EQ(device->bytes_peak(), 1200);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceTest, testing::Values("host", "counting"),
                         [](const auto& info) { return info.param; });

TEST(HostDevice, AlignsSmallAndLargeBlocks) {
  const auto device = make_host_device();
  for (const std::int64_t count : {0, 1, 17, 1'000'000}) {
    const Tensor t = device->empty({count}, DType::f32);
    EXPECT_NE(t.data(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.data()) % 64, 0u);
  }
}

TEST(HostDevice, RefusesMoreThanThereIs) {
  const auto device = make_host_device();
  EXPECT_EQ(message_of([&] { device->empty({std::int64_t{1} << 58}, DType::f32); }),
            "out of memory: 1152921504606846976 bytes wanted on the host");
  EXPECT_EQ(device->bytes_now(), 0);
}

TEST(HostStream, CopiesZeroesAndRefuses) {
  const auto device = make_host_device();
  const auto stream = device->make_stream();
  const Tensor a = device->empty({4}, DType::i32), b = device->empty({2, 2}, DType::i32);
  for (int i = 0; i < 4; ++i) a.as<std::int32_t>()[i] = i + 1;
  stream->copy(b, a);
  EXPECT_EQ(b.host<std::int32_t>()[3], 4);
  stream->copy(a.rows(1, 3), a.rows(0, 3));  // overlapping
  EXPECT_EQ(a.host<std::int32_t>()[3], 3);
  stream->zero(b);
  EXPECT_EQ(b.host<std::int32_t>()[3], 0);
  EXPECT_EQ(message_of([&] { stream->copy(b, device->empty({3}, DType::i32)); }),
            "copy of [3] i32 into [2, 2] i32: counts and types must agree");
  EXPECT_EQ(message_of([&] { stream->copy(b, device->empty({4}, DType::f32)); }),
            "copy of [4] f32 into [2, 2] i32: counts and types must agree");
  const auto begin = stream->record();
  EXPECT_GE(stream->record()->seconds_since(*begin), 0.0);
}

TEST(CountingDevice, CopiesToTheHostReadZero) {
  const auto host = make_host_device();
  const auto counting = make_counting_device();
  const Tensor imaginary = counting->empty({3}, DType::f32), real = host->empty({3}, DType::f32);
  real.as<float>()[1] = 7;
  for (const auto& stream : {host->make_stream().release(), counting->make_stream().release()}) {
    const std::unique_ptr<Stream> owner(stream);
    real.as<float>()[1] = 7;
    stream->copy(imaginary, real);
    stream->zero(imaginary);
    stream->copy(real, imaginary);
    EXPECT_EQ(real.host<float>()[1], 0.0f);
  }
}

}  // namespace
}  // namespace quadrille
