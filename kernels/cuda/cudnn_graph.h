// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph API in few words: tensors and operations are put together, then one plan is looked for that computes
// them all in fused kernels. Written on the C interface, because that comes with the library; its C++ front end does
// not. Tensors here have four dims (batch, heads, tokens, width) and any strides.
//
// A plan can be made without a GPU, from a description of one: that is how the tests prove on any machine with the
// toolkit that cuDNN accepts our graphs. Used by sdpa.cpp and its test.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace quadrille {

struct DestroyCudnn {
  void operator()(void* descriptor) const noexcept { cudnnBackendDestroyDescriptor(descriptor); }
};
using CudnnDescriptor = std::unique_ptr<void, DestroyCudnn>;

using Dims4 = std::array<std::int64_t, 4>;
Dims4 row_major(const Dims4& dims);

// For which device a plan is made: that of a handle, or one that is only described.
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t device = nullptr;
};
CudnnDescriptor describe_device(std::string_view json);  // cuDNN's own form, version 9

class CudnnPlan {
 public:
  CudnnPlan(CudnnDescriptor plan, std::vector<CudnnDescriptor> needs, std::vector<std::int64_t> ids);
  std::int64_t workspace() const { return workspace_; }
  // One address for each tensor that is not virtual, in the order in which they were made; of the host where by_value.
  void run(cudnnHandle_t, std::vector<void*> addresses, void* workspace) const;

 private:
  CudnnDescriptor plan_;
  std::vector<CudnnDescriptor> needs_;  // what it was made from; the graph's description must outlive it
  std::vector<std::int64_t> ids_;
  std::int64_t workspace_ = 0;
};

class CudnnGraph {
 public:
  enum class Held : std::uint8_t { memory, nowhere, by_value };  // nowhere: virtual, between fused operations
  using Id = std::size_t;

  Id tensor(cudnnDataType_t, const Dims4& dims, const Dims4& strides, Held = Held::memory);
  Id number() { return tensor(CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, Held::by_value); }  // one f32 of the host
  Id between(cudnnDataType_t type, const Dims4& dims) { return tensor(type, dims, row_major(dims), Held::nowhere); }

  void matmul(Id out, Id a, Id b);  // in f32
  // x and, where the mode has them, b and the selector; axis of gen_index.
  void pointwise(cudnnPointwiseMode_t, Id out, Id x, std::optional<Id> b = {}, std::optional<Id> selector = {},
                 std::optional<std::int64_t> axis = {});
  void reduce(cudnnReduceTensorOp_t, Id out, Id x);
  void reshape(Id out, Id x);

  // The first of cuDNN's proposals that it can build and that gives the same bits every time; none: null, and `why`
  // takes cuDNN's last words.
  std::unique_ptr<CudnnPlan> plan(const CudnnTarget&, std::string* why = nullptr) &&;

 private:
  struct Made {
    CudnnDescriptor descriptor;
    cudnnDataType_t type;
  };
  std::vector<Made> tensors_;
  std::vector<CudnnDescriptor> operations_, modes_;
  std::vector<std::int64_t> ids_;  // of the tensors in memory and by value
};

}  // namespace quadrille
