// SPDX-License-Identifier: Apache-2.0
// The operations and their order are those that cuDNN's documentation gives for its fused attention patterns; others
// with the same result would not be recognised.
#include "kernels/cuda/sdpa_graph.h"

#include <utility>

namespace quadrille {

namespace {

using Id = CudnnGraph::Id;
constexpr cudnnDataType_t kWide = CUDNN_DATA_FLOAT, kNarrow = CUDNN_DATA_BFLOAT16;

struct Extents4 {
  Dims4 q, scores, turned, rows;  // of queries, scores, transposed scores, one number for each query
  explicit Extents4(const SdpaShape& s)
      : q{s.batch, s.heads(), s.q_tokens, s.head},
        scores{s.batch, s.heads(), s.q_tokens, s.kv_tokens},
        turned{s.batch, s.heads(), s.kv_tokens, s.q_tokens},
        rows{s.batch, s.heads(), s.q_tokens, 1} {}
};

Id queries(CudnnGraph& graph, const SdpaShape& s, const SdpaShape::Strides& at) {
  return graph.tensor(kNarrow, Extents4(s).q, {at.batch, at.head, at.token, 1});
}
Id keys(CudnnGraph& graph, const SdpaShape& s) {
  return graph.tensor(kNarrow, {s.batch, s.keys, s.kv_tokens, s.head}, {s.kv.batch, s.kv.head, s.kv.token, 1});
}
Id keys_turned(CudnnGraph& graph, const SdpaShape& s) {
  return graph.tensor(kNarrow, {s.batch, s.keys, s.head, s.kv_tokens}, {s.kv.batch, s.kv.head, 1, s.kv.token});
}

// Scores of keys after the query become `lowest`.
Id masked(CudnnGraph& graph, const SdpaShape& s, Id scores, Id lowest) {
  const Dims4 dims = Extents4(s).scores;
  const Id query = graph.between(CUDNN_DATA_INT32, dims), key = graph.between(CUDNN_DATA_INT32, dims);
  const Id seen = graph.between(CUDNN_DATA_BOOLEAN, dims), out = graph.between(kWide, dims);
  graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, query, scores, {}, {}, 2);
  graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, key, scores, {}, {}, 3);
  graph.pointwise(CUDNN_POINTWISE_CMP_GE, seen, query, key);
  graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, out, scores, lowest, seen);
  return out;
}

}  // namespace

std::unique_ptr<CudnnPlan> plan_sdpa_forward(const SdpaShape& s, const CudnnTarget& target, std::string* why) {
  CudnnGraph graph;
  const Extents4 e(s);
  const Id q = queries(graph, s, s.q), k = keys_turned(graph, s), v = keys(graph, s), scale = graph.number();
  const Id lowest = s.causal ? graph.number() : 0;
  const Id log_sum = graph.tensor(kWide, e.rows, row_major(e.rows)), out = queries(graph, s, s.out);
  const auto wide = [&] { return graph.between(kWide, e.scores); };
  const auto row = [&] { return graph.between(kWide, e.rows); };

  const Id product = wide(), scaled = wide();
  graph.matmul(product, q, k);
  graph.pointwise(CUDNN_POINTWISE_MUL, scaled, product, scale);
  const Id scores = s.causal ? masked(graph, s, scaled, lowest) : scaled;

  const Id max = row(), below = wide(), power = wide(), sum = row(), log = row();
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, max, scores);
  graph.pointwise(CUDNN_POINTWISE_SUB, below, scores, max);
  graph.pointwise(CUDNN_POINTWISE_EXP, power, below);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, sum, power);
  graph.pointwise(CUDNN_POINTWISE_LOG, log, sum);
  graph.pointwise(CUDNN_POINTWISE_ADD, log_sum, max, log);
  const Id probabilities = graph.between(kNarrow, e.scores);
  graph.pointwise(CUDNN_POINTWISE_DIV, probabilities, power, sum);
  graph.matmul(out, probabilities, v);
  return std::move(graph).plan(target, why);
}

std::unique_ptr<CudnnPlan> plan_sdpa_backward(const SdpaShape& s, const CudnnTarget& target, std::string* why) {
  CudnnGraph graph;
  const Extents4 e(s);
  const Id q = queries(graph, s, s.q), k = keys_turned(graph, s), v = keys_turned(graph, s);
  const Id out = queries(graph, s, s.out), dout = queries(graph, s, s.out);
  const Id log_sum = graph.tensor(kWide, e.rows, row_major(e.rows)), scale = graph.number(), one = graph.number();
  const Id lowest = s.causal ? graph.number() : 0;
  const Id row_sums = graph.tensor(kWide, e.rows, row_major(e.rows));
  const Id dv = keys(graph, s), dk = keys(graph, s), dq = queries(graph, s, s.q);
  const auto wide = [&] { return graph.between(kWide, e.scores); };
  const auto row = [&] { return graph.between(kWide, e.rows); };

  // Σ dout·out of each query, what the softmax takes off its gradient.
  const Id both =
      graph.tensor(kWide, e.q, {e.q[1] * e.q[2] * e.q[3], e.q[3], e.q[1] * e.q[3], 1}, CudnnGraph::Held::nowhere);
  const Id plain_sums = row();
  graph.pointwise(CUDNN_POINTWISE_MUL, both, dout, out);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, plain_sums, both);
  graph.pointwise(CUDNN_POINTWISE_MUL, row_sums, plain_sums, one);

  // The probabilities again, from the log-sum.
  const Id product = wide(), scaled = wide(), below = wide(), probabilities = wide();
  graph.matmul(product, q, k);
  graph.pointwise(CUDNN_POINTWISE_MUL, scaled, product, scale);
  graph.pointwise(CUDNN_POINTWISE_SUB, below, scaled, log_sum);
  graph.pointwise(CUDNN_POINTWISE_EXP, probabilities, s.causal ? masked(graph, s, below, lowest) : below);

  // A gradient of keys or values: transposed · rows, over all query heads of a key head.
  const Dims4 turned_strides{e.scores[1] * e.scores[2] * e.scores[3], e.scores[2] * e.scores[3], 1, e.scores[3]};
  const auto gradient = [&](Id to, Id from, Id rows) {
    const Id turned = graph.tensor(kNarrow, e.turned, turned_strides, CudnnGraph::Held::nowhere);
    graph.reshape(turned, from);
    if (s.queries == 1) return graph.matmul(to, turned, rows);
    const Id each = graph.between(kNarrow, {s.batch, s.heads(), s.kv_tokens, s.head});
    graph.matmul(each, turned, rows);
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, to, each);
  };
  gradient(dv, probabilities, dout);

  const Id dp = wide(), centred = wide(), ds = wide(), ds_scaled = wide();
  graph.matmul(dp, dout, v);
  graph.pointwise(CUDNN_POINTWISE_SUB, centred, dp, row_sums);
  graph.pointwise(CUDNN_POINTWISE_MUL, ds, centred, probabilities);
  graph.pointwise(CUDNN_POINTWISE_MUL, ds_scaled, ds, scale);
  gradient(dk, ds_scaled, q);
  const Id k_again = graph.tensor(kNarrow, {s.batch, s.keys, s.kv_tokens, s.head},
                                  {s.kv.batch, s.kv.head, s.kv.token, 1}, CudnnGraph::Held::nowhere);
  graph.reshape(k_again, k);
  graph.matmul(dq, ds_scaled, k_again);
  return std::move(graph).plan(target, why);
}

}  // namespace quadrille
