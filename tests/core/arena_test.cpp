// SPDX-License-Identifier: Apache-2.0
// The two-ended arena: addresses depend on the history alone, and its peak is exactly the capacity that history needs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "core/arena.h"
#include "core/random.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

Tensor take(Arena& arena, std::int64_t floats, End end) { return arena.empty({floats}, DType::f32, end); }

TEST(Arena, GivesFromBothEndsAligned) {
  const auto device = make_host_device();
  Arena arena(*device, 1024);
  const Tensor a = take(arena, 16, End::low), b = take(arena, 1, End::low), c = take(arena, 20, End::high);
  const auto* base = static_cast<const std::byte*>(a.data());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(base) % 64, 0u);
  EXPECT_EQ(static_cast<const std::byte*>(b.data()) - base, 64);
  EXPECT_EQ(static_cast<const std::byte*>(c.data()) - base, 1024 - 128);
  EXPECT_EQ(arena.bytes_now(), 64 + 64 + 128);
  EXPECT_EQ(arena.bytes_peak(), 256);
  EXPECT_EQ(arena.capacity(), 1024);
}

TEST(Arena, ReusesHolesLowestFromBelowHighestFromAbove) {
  const auto device = make_host_device();
  Arena arena(*device, 64 * 16);
  std::vector<Tensor> low, high;
  for (int i = 0; i < 5; ++i) low.push_back(take(arena, 16, End::low)), high.push_back(take(arena, 16, End::high));
  void* const low_hole = low[1].data();
  void* const high_hole = high[1].data();
  low[1] = {}, low[3] = {}, high[1] = {}, high[3] = {};
  EXPECT_EQ(take(arena, 16, End::low).data(), low_hole);
  EXPECT_EQ(take(arena, 16, End::high).data(), high_hole);
  low[2] = {};  // joins its neighbours to a hole of three
  EXPECT_EQ(take(arena, 48, End::low).data(), low_hole);
  EXPECT_EQ(arena.bytes_peak(), 64 * 10);
}

TEST(Arena, RefusesWithNumbersWhenFull) {
  const auto device = make_host_device();
  Arena arena(*device, 256);
  const Tensor kept = take(arena, 32, End::low);
  EXPECT_EQ(
      message_of([&] { take(arena, 33, End::high); }),
      "the arena is full: 192 bytes wanted from the high end, 128 of 256 in use, 128 free in one piece; its forecast "
      "was too small, please report it");
  EXPECT_NO_THROW(take(arena, 32, End::high));  // a refusal changes nothing
  EXPECT_EQ(message_of([&] { Arena(*device, Arena::kUnbounded); }), "an arena on \"host\" needs a capacity");
  EXPECT_TRUE(contains(message_of([&] { arena.empty({std::int64_t{1} << 61}, DType::f64, End::low); }),
                       "more bytes than 64 bits"));
}

TEST(Arena, TensorsOutliveTheArenaObject) {
  const auto device = make_host_device();
  Tensor kept;
  {
    Arena arena(*device, 4096);
    kept = take(arena, 100, End::high);
    std::fill_n(kept.as<float>(), 100, 2.5f);
  }
  EXPECT_EQ(device->bytes_now(), 4096);
  EXPECT_EQ(kept.host<float>()[99], 2.5f);
  kept = {};
  EXPECT_EQ(device->bytes_now(), 0);
}

TEST(Arena, SurvivesBeingMoved) {
  const auto device = make_host_device();
  Arena first(*device, 1024);
  const Tensor kept = take(first, 16, End::low);
  Arena second = std::move(first);
  EXPECT_EQ(second.bytes_now(), 64);
  EXPECT_NE(take(second, 16, End::low).data(), kept.data());
}

// A history of requests and returns, as a function of its seed: which block, how large, which end, which one goes.
struct Request {
  std::optional<std::size_t> gives_back;  // the block taken as the n-th
  std::int64_t floats = 0;
  End end = End::low;
};

std::vector<Request> history(std::uint64_t seed, int length) {
  const Key key = key_of(seed, "history");
  std::vector<Request> out;
  std::vector<std::size_t> held;
  std::size_t taken = 0;
  for (int i = 0; i < length; ++i) {
    const auto draw = [&](std::uint64_t what) {
      return bits_at(key_of(key, what), static_cast<std::uint64_t>(i)) >> 8;
    };
    if (!held.empty() && draw(0) % 100 < 48) {
      const std::size_t which = draw(1) % held.size();
      out.push_back({held[which], 0, End::low});
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      out.push_back(
          {{}, static_cast<std::int64_t>(1 + draw(2) % (draw(3) % 4 ? 40 : 1000)), draw(4) % 2 ? End::low : End::high});
      held.push_back(taken++);
    }
  }
  return out;
}

void replay(Arena& arena, const std::vector<Request>& requests) {
  std::vector<Tensor> taken;
  for (const Request& r : requests) {
    if (r.gives_back)
      taken[*r.gives_back] = {};
    else
      taken.push_back(take(arena, r.floats, r.end));
  }
}

TEST(Arena, PeakIsExactlyTheCapacityAnyHistoryNeeds) {
  const auto counting = make_counting_device();
  const auto host = make_host_device();
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<Request> requests = history(seed, 400);
    Arena forecast(*counting, Arena::kUnbounded);
    replay(forecast, requests);
    Arena real(*host, forecast.bytes_peak());
    ASSERT_NO_THROW(replay(real, requests)) << "seed " << seed;
    EXPECT_EQ(real.bytes_peak(), forecast.bytes_peak());
    EXPECT_EQ(real.bytes_now(), 0) << "seed " << seed;
    Arena tight(*host, forecast.bytes_peak() - 64);
    EXPECT_THROW(replay(tight, requests), Error) << "seed " << seed;
  }
}

TEST(Arena, BlocksNeverOverlap) {
  const auto host = make_host_device();
  Arena arena(*host, 1 << 20);
  std::vector<Tensor> taken;
  std::int64_t number = 0;
  for (const Request& r : history(99, 2000)) {
    if (r.gives_back) {
      Tensor& gone = taken[*r.gives_back];
      for (const std::int32_t v : gone.host<std::int32_t>()) ASSERT_EQ(v, static_cast<std::int32_t>(*r.gives_back));
      gone = {};
    } else {
      taken.push_back(arena.empty({r.floats}, DType::i32, r.end));
      for (std::int32_t& v : taken.back().host<std::int32_t>()) v = static_cast<std::int32_t>(number);
      ++number;
    }
  }
}

TEST(Arena, TakesBlocksBackFromOtherThreads) {
  const auto host = make_host_device();
  Arena arena(*host, 1 << 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) take(arena, 1 + (i * 7 + t) % 90, i % 2 ? End::low : End::high);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(arena.bytes_now(), 0);
  EXPECT_NO_THROW(take(arena, (1 << 20) / 4, End::low));  // all holes have grown together again
}

}  // namespace
}  // namespace quadrille
