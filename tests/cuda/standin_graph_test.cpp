// SPDX-License-Identifier: Apache-2.0
// Capture and replay on the stand-in: the same work again, over two streams, and the refusals of the real runtime.
#include <gtest/gtest.h>

#include <vector>

#include "core/cuda/check.h"
#include "tests/cuda/faulty_kernels.h"
#include "tests/cuda/on_standin.h"

namespace quadrille {
namespace {

class StandinGraph : public OnStandin {
 protected:
  void begin() { check(cudaStreamBeginCapture(cuda_stream(*stream), cudaStreamCaptureModeThreadLocal)); }
  cudaError_t end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(cuda_stream(*stream), &graph);
    if (error == cudaSuccess) {
      check(cudaGraphInstantiate(&exec, graph, 0));
      check(cudaGraphDestroy(graph));
    }
    return error;
  }
  ~StandinGraph() override {
    if (exec != nullptr) cudaGraphExecDestroy(exec);
  }
  Tensor a = put(std::vector<float>(kThreads, 0)), b = device->empty({kThreads}, DType::f32);
  std::unique_ptr<Stream> other = device->make_stream();
  cudaGraphExec_t exec = nullptr;
};

TEST_F(StandinGraph, ReplaysOverTwoStreams) {
  stream->synchronize();
  begin();
  add_one(cuda_stream(*stream), b.as<float>(), a.as<float>(), kThreads);
  other->wait(*stream->record());
  add_one(cuda_stream(*other), a.as<float>(), b.as<float>(), kThreads);
  stream->wait(*other->record());
  ASSERT_EQ(end(), cudaSuccess);
  EXPECT_EQ(read(a)[0], 0);  // captured work does not run
  for (int again = 0; again < 3; ++again) check(cudaGraphLaunch(exec, cuda_stream(*stream)));
  EXPECT_EQ(read(a)[0], 6);
}

TEST_F(StandinGraph, AForgottenWaitInsideAGraphShows) {
  begin();
  const auto forked = stream->record();
  other->wait(*forked);
  fill(cuda_stream(*other), a.as<float>(), 5, kThreads);
  const auto filled = other->record();
  add_one(cuda_stream(*stream), b.as<float>(), a.as<float>(), kThreads);  // should have waited for `filled`
  stream->wait(*filled);
  ASSERT_EQ(end(), cudaSuccess);
  check(cudaGraphLaunch(exec, cuda_stream(*stream)));
  EXPECT_EQ(read(b)[0], 1);
}

TEST_F(StandinGraph, AStreamKeepsWorkAndDoesItAgain) {
  const auto kept = stream->keep_work([&] {
    add_one(cuda_stream(*stream), b.as<float>(), a.as<float>(), kThreads);
    stream->copy(a, b);
  });
  for (int again = 0; again < 4; ++again) kept->run();
  EXPECT_EQ(read(a)[0], 4);
}

TEST_F(StandinGraph, WorkThatCannotBeKeptLeavesTheStreamUsable) {
  EXPECT_THROW(stream->keep_work([&] { stream->synchronize(); }), Error);
  EXPECT_THROW(stream->keep_work([&] { fail("in between"); }), Error);
  EXPECT_EQ(read(a)[0], 0);
}

TEST_F(StandinGraph, AHostWaitEndsTheCapture) {
  begin();
  EXPECT_THROW(stream->synchronize(), Error);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  begin();
  EXPECT_THROW(stream->record()->block_host(), Error);
  end();
}

TEST_F(StandinGraph, AllocatingEndsTheCapture) {
  begin();
  EXPECT_THROW(device->empty({4}, DType::f32), Error);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(StandinGraph, CopiesOfPageableMemoryEndTheCapture) {
  const Tensor here = host->empty({kThreads}, DType::f32);
  begin();
  EXPECT_THROW(stream->copy(a, here), Error);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(StandinGraph, WorkThatIsNotJoinedIsRefused) {
  begin();
  other->wait(*stream->record());
  fill(cuda_stream(*other), a.as<float>(), 5, kThreads);
  EXPECT_EQ(end(), cudaErrorStreamCaptureUnjoined);
}

TEST_F(StandinGraph, WaitingForWorkOutsideIsRefused) {
  fill(cuda_stream(*other), a.as<float>(), 5, kThreads);
  const auto outside = other->record();
  begin();
  EXPECT_THROW(stream->wait(*outside), Error);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
}

}  // namespace
}  // namespace quadrille
