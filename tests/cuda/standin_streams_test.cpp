// SPDX-License-Identifier: Apache-2.0
// Streams of the stand-in run late, in both orders that a host's wait can bring about; who forgets to wait for an event
// reads wrong numbers every time. Collectives of several devices meet without their hosts.
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/cuda/faulty_kernels.h"
#include "tests/cuda/on_standin.h"

namespace quadrille {
namespace {

class StandinStreams : public OnStandin, public testing::WithParamInterface<standin::Order> {
 protected:
  StandinStreams() { standin::run_streams(GetParam()); }
  ~StandinStreams() override { standin::run_streams(standin::Order::late); }
  Tensor numbers() { return device->empty({kThreads}, DType::f32); }
  void fill_on(Stream& on, const Tensor& t, float value) { fill(cuda_stream(on), t.as<float>(), value, t.count()); }
  void add_one_on(Stream& on, const Tensor& out, const Tensor& in) {
    add_one(cuda_stream(on), out.as<float>(), in.as<float>(), in.count());
  }
  std::unique_ptr<Stream> other = device->make_stream();
};

TEST_P(StandinStreams, AnEventOrdersTwoStreams) {
  const Tensor a = numbers(), b = numbers();
  fill_on(*other, a, 1);
  stream->wait(*other->record());
  add_one_on(*stream, b, a);
  EXPECT_EQ(read(b)[0], 2);
}

// The consumer comes second and forgets to wait for the producer.
TEST_P(StandinStreams, AForgottenWaitForAProducerShows) {
  if (GetParam() == standin::Order::early) GTEST_SKIP() << "seen in the order late";
  for (int again = 0; again < 10; ++again) {
    const Tensor a = numbers(), b = numbers();
    fill_on(*other, a, 1);
    add_one_on(*stream, b, a);
    EXPECT_TRUE(std::isnan(read(b)[0]));
  }
}

// The second writer forgets to wait for the reader of what was there.
TEST_P(StandinStreams, AForgottenWaitForAReaderShows) {
  if (GetParam() == standin::Order::late) GTEST_SKIP() << "seen in the order early";
  for (int again = 0; again < 10; ++again) {
    const Tensor a = put(std::vector<float>(kThreads, 1)), b = numbers();
    stream->synchronize();
    add_one_on(*stream, b, a);
    fill_on(*other, a, 10);
    EXPECT_EQ(read(b)[0], 11);
  }
}

TEST_P(StandinStreams, NothingRunsBeforeTheHostWaits) {
  const Tensor a = numbers();
  const auto pinned = device->host_side();
  const Tensor here = pinned->empty({kThreads}, DType::f32);
  here.host<float>()[0] = -1;
  fill_on(*stream, a, 3);
  stream->copy(here, a);  // pinned: the host does not wait
  EXPECT_EQ(here.host<float>()[0], -1);
  stream->record()->block_host();
  EXPECT_EQ(here.host<float>()[0], 3);
}

TEST_P(StandinStreams, PinnedMemoryIsReadLateAndPageableMemoryAtOnce) {
  const auto pinned = device->host_side();
  const Tensor late = pinned->empty({kThreads}, DType::f32), at_once = host->empty({kThreads}, DType::f32);
  const Tensor a = numbers(), b = numbers();
  late.host<float>()[0] = at_once.host<float>()[0] = 1;
  stream->copy(a, late);
  stream->copy(b, at_once);
  late.host<float>()[0] = at_once.host<float>()[0] = 2;  // a fault for the pinned one
  EXPECT_EQ(read(a)[0], 2);
  EXPECT_EQ(read(b)[0], 1);
}

TEST_P(StandinStreams, EventsHaveTimesInOrder) {
  const Tensor a = numbers();
  const auto begin = stream->record();
  fill_on(*stream, a, 1);
  const auto end = stream->record();
  EXPECT_THROW(end->seconds_since(*begin), Error);  // not reached yet
  end->block_host();
  EXPECT_GT(end->seconds_since(*begin), 0);
  EXPECT_LT(end->seconds_since(*begin), 60);
}

// Two ranks' work waits for each other; only one host ever asks for its own.
TEST_P(StandinStreams, MeetingWorkBringsItsPartner) {
  const auto device1 = open_cuda_device(1);
  const auto stream1 = device1->make_stream();
  std::mutex mutex;
  std::condition_variable changed;
  int came = 0;
  const auto meet = [&] {
    const standin::Meeting meeting;
    std::unique_lock lock(mutex);
    ++came;
    changed.notify_all();
    changed.wait(lock, [&] { return came == 2; });
  };
  ASSERT_EQ(standin::enqueue(cuda_stream(*stream), "meet", meet, true), cudaSuccess);
  std::thread later([&] { standin::enqueue(cuda_stream(*stream1), "meet", meet, true); });
  stream->synchronize();
  later.join();
  EXPECT_EQ(came, 2);
}

TEST_P(StandinStreams, WorkThatThrowsIsAFault) {
  standin::enqueue(cuda_stream(*stream), "sum", [] { standin::fail("sum of ranks 0 and 1: sizes differ"); });
  expect_fault({"sizes differ"});
}

INSTANTIATE_TEST_SUITE_P(Orders, StandinStreams, testing::Values(standin::Order::late, standin::Order::early),
                         [](const auto& order) { return order.param == standin::Order::late ? "late" : "early"; });

}  // namespace
}  // namespace quadrille
