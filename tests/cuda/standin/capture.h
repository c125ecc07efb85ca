// SPDX-License-Identifier: Apache-2.0
// Capture of streams into graphs. Used by runtime.cpp.
#pragma once

#include "tests/cuda/standin/streams.h"

namespace standin {

struct Node {
  Operation operation;
  std::vector<std::size_t> after;  // nodes: the one before in its stream first, then those it waited for
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<std::size_t> ends;  // the last nodes
};

struct Capture {
  CUstream_st* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool invalid = false;
  Graph graph;
  struct Branch {
    CUstream_st* stream;
    std::vector<std::size_t> after;  // what the stream's next node comes after
  };
  std::vector<Branch> branches;  // the origin's first
};

// With the mutex held:
cudaError_t submit(CUstream_st&, Operation);  // into the capture, if the stream is captured, or the queue
cudaError_t record(CUevent_st&, CUstream_st&);
cudaError_t wait(CUstream_st&, const CUevent_st&);
cudaError_t refuse_if_captured(CUstream_st&);  // a host wait ends the capture, as in the real runtime
cudaError_t refuse_in_capture();               // calls that no capture of this thread allows
std::function<void()> run_graph(std::shared_ptr<const Graph>);

}  // namespace standin

struct CUgraph_st {
  std::shared_ptr<const standin::Graph> graph;
};
struct CUgraphExec_st {
  std::shared_ptr<const standin::Graph> graph;
  int device = 0;
};
