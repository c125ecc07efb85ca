// SPDX-License-Identifier: Apache-2.0
// Counts that 32 bits cannot hold: 2^31 + 8 numbers of f32 through tensor, arena, two kernels and a message between two
// thread ranks. Takes some 9 GB and is no fast test; without the memory it is skipped and says so.
#include <gtest/gtest.h>

#include <atomic>

#include "core/arena.h"
#include "kernels/backend.h"
#include "parallelism/world.h"
#include "tests/large/large.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

class Large : public ::testing::Test {
  void SetUp() override {
    if (const std::string lack = large::memory_lacking(); !lack.empty()) GTEST_SKIP() << lack;
  }
};

TEST_F(Large, TensorArenaAndKernels) {
  const auto device = make_host_device();
  const auto stream = device->make_stream();
  const Backend& backend = backend_named(backend_named("cpu").ops ? "cpu" : "reference");
  const Ops& ops = backend.ops();
  const std::int64_t n = large::kCount, bytes = n * size_of(DType::f32);
  Arena arena(*device, bytes + 4096);
  const Tensor whole = arena.empty({n}, DType::f32, End::low), few = arena.empty({8}, DType::f32, End::high);
  EXPECT_EQ(whole.count(), n);
  EXPECT_EQ(whole.bytes(), 8589934624);
  EXPECT_GE(arena.bytes_now(), bytes + few.bytes());
  EXPECT_TRUE(
      contains(message_of([&] { (void)arena.empty({n}, DType::f32, End::low); }), "the arena is full: 8589934"));

  stream->zero(whole);
  for (int i = 0; i < 8; ++i) few.as<float>()[i] = static_cast<float>(i + 1);
  const std::int64_t far = n - 8;  // 2^31
  ops.move_block(*stream, whole, few, {1, 8, 1, n, far, 8, 0, Write::replace});
  ops.add(*stream, whole, whole, whole);
  EXPECT_EQ(whole.as<float>()[far - 1], 0);
  EXPECT_EQ(whole.as<float>()[0], 0) << "an index lost its upper half";
  stream->zero(few);
  ops.move_block(*stream, few, whole, {1, 8, 1, 8, 0, n, far, Write::replace});
  for (int i = 0; i < 8; ++i) EXPECT_EQ(few.as<float>()[i], 2 * static_cast<float>(i + 1)) << i;
  EXPECT_EQ(whole.rows(far, 8).as<float>()[7], 16);
}

TEST_F(Large, MessageBetweenThreadRanks) {
  WorldOptions options;
  options.ranks = 2;
  options.timeout_seconds = 300;
  run_threads(options, [](std::unique_ptr<Communicator> world) { large::pass_on(*world); });
}

}  // namespace
}  // namespace quadrille
