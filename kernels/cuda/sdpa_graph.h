// SPDX-License-Identifier: Apache-2.0
// Attention as cuDNN's fused engines take it: the graph of the formula, which cuDNN recognises and replaces by one
// kernel forward and a few backward. (Its single attention operation cannot mask the future before version 9.21.)
// Used by sdpa.cpp and its test.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/cudnn_graph.h"

namespace quadrille {

// Queries [batch, keys * queries heads, q_tokens, head], keys and values [batch, keys heads, kv_tokens, head], each
// with the strides of batch, head and token in elements; width is dense. The output and its gradient: as queries.
struct SdpaShape {
  struct Strides {
    std::int64_t batch = 0, head = 0, token = 0;
    auto operator<=>(const Strides&) const = default;
  };
  std::int64_t batch = 0, keys = 0, queries = 0, q_tokens = 0, kv_tokens = 0, head = 0;
  Strides q, kv, out;
  bool causal = false;  // key i is seen by queries from i on
  auto operator<=>(const SdpaShape&) const = default;
  std::int64_t heads() const { return keys * queries; }
};

// Addresses in this order: q, k, v, scale, [minus infinity,] log-sum, out. Null where cuDNN has no plan.
std::unique_ptr<CudnnPlan> plan_sdpa_forward(const SdpaShape&, const CudnnTarget&, std::string* why = nullptr);

// Addresses: q, k, v, out, dout, log-sum, scale, one, [minus infinity,] row sums, dv, dk, dq. Row sums: f32, one for
// each query and head, scratch. Always the same bits: the gradient of the scores lies in the workspace, so that no two
// blocks add to one number; that takes 2 bytes for each query, key and head.
std::unique_ptr<CudnnPlan> plan_sdpa_backward(const SdpaShape&, const CudnnTarget&, std::string* why = nullptr);

}  // namespace quadrille
