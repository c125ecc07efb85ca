// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/standin/capture.h"

#include <algorithm>
#include <utility>

namespace standin {
namespace {

Capture::Branch& branch_of(Capture& capture, CUstream_st& stream) {
  return *std::find_if(capture.branches.begin(), capture.branches.end(),
                       [&stream](const Capture::Branch& b) { return b.stream == &stream; });
}

void add(std::vector<std::size_t>& to, const std::vector<std::size_t>& nodes) {
  for (const std::size_t n : nodes)
    if (std::find(to.begin(), to.end(), n) == to.end()) to.push_back(n);
}

bool reachable(const Graph& graph, std::size_t node) {
  std::vector<std::size_t> open = graph.ends;
  std::vector<bool> seen(graph.nodes.size(), false);
  while (!open.empty()) {
    const std::size_t n = open.back();
    open.pop_back();
    if (n == node) return true;
    if (seen[n]) continue;
    seen[n] = true;
    open.insert(open.end(), graph.nodes[n].after.begin(), graph.nodes[n].after.end());
  }
  return false;
}

// All captures that are going on, each once.
std::vector<Capture*> captures() {
  std::vector<Capture*> out;
  for (const CUstream_st* s : state().streams)
    if (s->capture && std::find(out.begin(), out.end(), s->capture.get()) == out.end()) out.push_back(s->capture.get());
  return out;
}

// Nodes in an order in which a forgotten wait shows: late, a node's own stream goes as far as it can before what it
// waits for; early, the other way round.
void run_node(const Graph& graph, std::size_t n, std::vector<bool>& done, bool early) {
  if (done[n]) return;
  done[n] = true;
  std::vector<std::size_t> after = graph.nodes[n].after;
  if (early) std::reverse(after.begin(), after.end());
  for (const std::size_t before : after) run_node(graph, before, done, early);
  if (graph.nodes[n].operation.work) graph.nodes[n].operation.work();
}

}  // namespace

cudaError_t submit(CUstream_st& stream, Operation operation) {
  if (!stream.capture) {
    push(stream, std::move(operation));
    return cudaSuccess;
  }
  Capture& capture = *stream.capture;
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  Capture::Branch& branch = branch_of(capture, stream);
  capture.graph.nodes.push_back({std::move(operation), std::exchange(branch.after, {capture.graph.nodes.size()})});
  return cudaSuccess;
}

cudaError_t record(CUevent_st& event, CUstream_st& stream) {
  if (event.device != stream.device) return cudaErrorInvalidResourceHandle;
  auto mark = std::make_shared<Mark>();
  if (stream.capture) {
    if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
    mark->capture = stream.capture;
    mark->nodes = branch_of(*stream.capture, stream).after;
  } else {
    mark->stream = &stream;
    mark->number = stream.pushed + 1;
    push(stream, {.name = "event", .work = {}, .waits_for = {}, .reaches = mark});
  }
  event.mark = mark;
  return cudaSuccess;
}

cudaError_t wait(CUstream_st& stream, const CUevent_st& event) {
  if (!event.mark) return cudaSuccess;
  const auto& captured = event.mark->capture;
  if (!captured) {
    if (stream.capture) {
      stream.capture->invalid = true;
      return cudaErrorStreamCaptureIsolation;
    }
    push(stream, {.name = "wait", .work = {}, .waits_for = event.mark, .reaches = {}});
    return cudaSuccess;
  }
  if (captured->origin == nullptr) return cudaErrorCapturedEvent;  // that capture has ended
  if (captured->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!stream.capture) {
    stream.capture = captured;
    captured->branches.push_back({&stream, {}});
  } else if (stream.capture != captured) {
    return cudaErrorStreamCaptureIsolation;
  }
  add(branch_of(*captured, stream).after, event.mark->nodes);
  return cudaSuccess;
}

cudaError_t refuse_if_captured(CUstream_st& stream) {
  if (!stream.capture) return cudaSuccess;
  stream.capture->invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t refuse_in_capture() {
  for (Capture* c : captures()) {
    const bool ours = c->thread == std::this_thread::get_id();
    if (c->mode == cudaStreamCaptureModeRelaxed || (c->mode == cudaStreamCaptureModeThreadLocal && !ours)) continue;
    c->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

std::function<void()> run_graph(std::shared_ptr<const Graph> graph) {
  return [graph = std::move(graph)] {
    std::vector<bool> done(graph->nodes.size(), false);
    const bool early = stream_order() == Order::early;
    for (const std::size_t n : graph->ends) run_node(*graph, n, done, early);
  };
}

}  // namespace standin

using namespace standin;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Lock lock(state().mutex);
  if (stream == nullptr || stream->capture) return cudaErrorInvalidValue;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->branches.push_back({stream, {}});
  stream->capture = std::move(capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  const Lock lock(state().mutex);
  *out = nullptr;
  if (stream == nullptr || !stream->capture) return cudaErrorInvalidValue;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  capture->origin = nullptr;
  capture->graph.ends = capture->branches.front().after;
  bool joined = true;
  for (const Capture::Branch& b : capture->branches) {
    for (const std::size_t n : b.after) joined = joined && reachable(capture->graph, n);
    b.stream->capture.reset();
  }
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *out = new CUgraph_st{std::make_shared<const Graph>(std::move(capture->graph))};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* out) {
  const Lock lock(state().mutex);
  *out = !stream->capture           ? cudaStreamCaptureStatusNone
         : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                    : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  int device = 0;
  cudaGetDevice(&device);
  *out = new CUgraphExec_st{graph->graph, device};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const Lock lock(state().mutex);
  if (stream == nullptr || stream->device != exec->device) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = error_of(stream->device); error != cudaSuccess) return error;
  if (stream->capture) return cudaErrorStreamCaptureUnsupported;
  const auto& nodes = exec->graph->nodes;
  const bool meets = std::any_of(nodes.begin(), nodes.end(), [](const Node& n) { return n.operation.meets_others; });
  push(*stream,
       {.name = "graph", .work = run_graph(exec->graph), .waits_for = {}, .reaches = {}, .meets_others = meets});
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;  // launches that are still queued keep the graph itself
  return cudaSuccess;
}
