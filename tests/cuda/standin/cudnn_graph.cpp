// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/cudnn_graph.h for the stand-in: the same graphs, computed operation by operation in double on the late
// stream, through the strides and addresses that were given. So the formulas of sdpa_graph.cpp and the layouts and
// parts of sdpa.cpp are tried without a GPU; that cuDNN itself takes these graphs is another test's matter.
#include "kernels/cuda/cudnn_graph.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "core/bf16.h"
#include "tests/cuda/standin/standin.h"

namespace quadrille {

namespace {

struct Node {
  virtual ~Node() = default;
};
struct TensorNode : Node {
  cudnnDataType_t type{};
  Dims4 dims{}, strides{};
  CudnnGraph::Held held{};
  std::int64_t id = 0;
};
using Values = std::vector<double>;  // row-major by dims

std::int64_t count(const Dims4& dims) { return dims[0] * dims[1] * dims[2] * dims[3]; }
std::size_t at(const Dims4& dims, const Dims4& i) {
  return static_cast<std::size_t>(((i[0] * dims[1] + i[1]) * dims[2] + i[2]) * dims[3] + i[3]);
}
template <class Call>
void each(const Dims4& dims, const Call& call) {
  for (std::int64_t a = 0; a < dims[0]; ++a)
    for (std::int64_t b = 0; b < dims[1]; ++b)
      for (std::int64_t c = 0; c < dims[2]; ++c)
        for (std::int64_t d = 0; d < dims[3]; ++d) call(Dims4{a, b, c, d});
}
std::int64_t offset(const TensorNode& t, const Dims4& i) {
  return i[0] * t.strides[0] + i[1] * t.strides[1] + i[2] * t.strides[2] + i[3] * t.strides[3];
}
double rounded(cudnnDataType_t type, double value) {
  if (type == CUDNN_DATA_BFLOAT16) return static_cast<double>(static_cast<float>(bf16(static_cast<float>(value))));
  return type == CUDNN_DATA_FLOAT ? static_cast<double>(static_cast<float>(value)) : value;
}
double load(const TensorNode& t, const void* data, std::int64_t at) {
  return t.type == CUDNN_DATA_BFLOAT16 ? static_cast<double>(static_cast<float>(static_cast<const bf16*>(data)[at]))
                                       : static_cast<double>(static_cast<const float*>(data)[at]);
}

// What one run knows: the address of each tensor in memory, the numbers of all.
class Memory {
 public:
  std::map<std::int64_t, void*> addresses;
  std::map<std::int64_t, double> by_value;
  const Values& read(const TensorNode& t) {
    const auto known = values_.find(t.id);
    if (known != values_.end()) return known->second;
    if (t.held == CudnnGraph::Held::nowhere) standin::fail("a graph reads a tensor that nothing has written");
    Values& v = values_[t.id];
    v.resize(static_cast<std::size_t>(count(t.dims)));
    if (t.held == CudnnGraph::Held::by_value)
      v[0] = by_value.at(t.id);
    else
      each(t.dims, [&](const Dims4& i) { v[at(t.dims, i)] = load(t, addresses.at(t.id), offset(t, i)); });
    return v;
  }
  void write(const TensorNode& t, Values values) {
    for (double& v : values) v = rounded(t.type, v);
    if (t.held == CudnnGraph::Held::memory)
      each(t.dims, [&](const Dims4& i) {
        const double value = values[at(t.dims, i)];
        if (t.type == CUDNN_DATA_BFLOAT16)
          static_cast<bf16*>(addresses.at(t.id))[offset(t, i)] = bf16(static_cast<float>(value));
        else
          static_cast<float*>(addresses.at(t.id))[offset(t, i)] = static_cast<float>(value);
      });
    values_[t.id] = std::move(values);
  }

 private:
  std::map<std::int64_t, Values> values_;
};

struct OperationNode : Node {
  std::function<void(Memory&)> run;
};
struct PlanNode : Node {
  std::vector<TensorNode> held;  // in memory and by value, in their order
  std::vector<std::function<void(Memory&)>> operations;
};

template <class T>
const T& node(const CudnnDescriptor& d) {
  return static_cast<const T&>(*static_cast<const Node*>(d.get()));
}
CudnnDescriptor wrap(std::unique_ptr<Node> n) { return CudnnDescriptor(n.release()); }
CudnnDescriptor operation(std::function<void(Memory&)> run) {
  auto n = std::make_unique<OperationNode>();
  n->run = std::move(run);
  return wrap(std::move(n));
}

// The index into a tensor with fewer heads, or with one where the other has many.
Dims4 shared(const Dims4& i, const Dims4& of, const Dims4& in) {
  Dims4 out{};
  for (std::size_t d = 0; d < 4; ++d) {
    if (in[d] != of[d] && in[d] != 1 && (d != 1 || of[1] % in[1] != 0))
      standin::fail("a graph combines tensors whose extents do not fit");
    out[d] = in[d] == of[d] ? i[d] : i[d] / (of[d] / in[d]);
  }
  return out;
}

double pointwise_value(cudnnPointwiseMode_t mode, double x, double b, double selector) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b ? 1 : 0;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return selector != 0 ? x : b;
    case CUDNN_POINTWISE_GEN_INDEX:
      break;
  }
  standin::fail("a graph has an operation that the stand-in does not know");
}

}  // namespace

Dims4 row_major(const Dims4& dims) { return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}; }

CudnnPlan::CudnnPlan(CudnnDescriptor plan, std::vector<CudnnDescriptor> needs, std::vector<std::int64_t> ids)
    : plan_(std::move(plan)), needs_(std::move(needs)), ids_(std::move(ids)), workspace_(256) {}

void CudnnPlan::run(cudnnHandle_t handle, std::vector<void*> addresses, void*) const {
  const auto& plan = node<PlanNode>(plan_);
  if (addresses.size() != plan.held.size()) standin::fail("a plan got another number of addresses than tensors");
  Memory memory;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const TensorNode& t = plan.held[i];
    if (t.held == CudnnGraph::Held::by_value)  // read by the host, now
      memory.by_value[t.id] = static_cast<double>(*static_cast<const float*>(addresses[i]));
    else if (reinterpret_cast<std::uintptr_t>(addresses[i]) % (t.type == CUDNN_DATA_FLOAT ? 4 : 16) != 0)
      standin::fail("an address for cuDNN is less aligned than was promised");
    else
      memory.addresses[t.id] = addresses[i];
  }
  standin::enqueue(handle->stream, "cudnnBackendExecute", [memory, operations = plan.operations]() mutable {
    for (const auto& run : operations) run(memory);
  });
}

CudnnGraph::Id CudnnGraph::tensor(cudnnDataType_t type, const Dims4& dims, const Dims4& strides, Held held) {
  auto t = std::make_unique<TensorNode>();
  t->type = type, t->dims = dims, t->strides = strides, t->held = held;
  t->id = static_cast<std::int64_t>(tensors_.size()) + 1;
  if (held != Held::nowhere) ids_.push_back(t->id);
  tensors_.push_back({wrap(std::move(t)), type});
  return tensors_.size() - 1;
}

void CudnnGraph::matmul(Id out, Id a, Id b) {
  const auto to = node<TensorNode>(tensors_[out].descriptor), x = node<TensorNode>(tensors_[a].descriptor),
             y = node<TensorNode>(tensors_[b].descriptor);
  operations_.push_back(operation([=](Memory& memory) {
    const Values &left = memory.read(x), &right = memory.read(y);
    Values result(static_cast<std::size_t>(count(to.dims)));
    if (x.dims[3] != y.dims[2]) standin::fail("a product in a graph has inner extents that differ");
    each(to.dims, [&](const Dims4& i) {
      const std::int64_t h = to.dims[1];
      double sum = 0;
      for (std::int64_t l = 0; l < x.dims[3]; ++l)
        sum += left[at(x.dims, {i[0], i[1] / (h / x.dims[1]), i[2], l})] *
               right[at(y.dims, {i[0], i[1] / (h / y.dims[1]), l, i[3]})];
      result[at(to.dims, i)] = sum;
    });
    memory.write(to, std::move(result));
  }));
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Id out, Id x, std::optional<Id> b, std::optional<Id> selector,
                           std::optional<std::int64_t> axis) {
  const auto to = node<TensorNode>(tensors_[out].descriptor), first = node<TensorNode>(tensors_[x].descriptor);
  const auto second = node<TensorNode>(tensors_[b.value_or(x)].descriptor),
             third = node<TensorNode>(tensors_[selector.value_or(x)].descriptor);
  operations_.push_back(operation([=](Memory& memory) {
    Values result(static_cast<std::size_t>(count(to.dims)));
    const Values &xs = memory.read(first), &bs = memory.read(second), &ts = memory.read(third);
    each(to.dims, [&](const Dims4& i) {
      result[at(to.dims, i)] = mode == CUDNN_POINTWISE_GEN_INDEX
                                   ? static_cast<double>(i[static_cast<std::size_t>(axis.value())])
                                   : pointwise_value(mode, xs[at(first.dims, shared(i, to.dims, first.dims))],
                                                     bs[at(second.dims, shared(i, to.dims, second.dims))],
                                                     ts[at(third.dims, shared(i, to.dims, third.dims))]);
    });
    memory.write(to, std::move(result));
  }));
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t kind, Id out, Id x) {
  const auto to = node<TensorNode>(tensors_[out].descriptor), from = node<TensorNode>(tensors_[x].descriptor);
  operations_.push_back(operation([=](Memory& memory) {
    const bool max = kind == CUDNN_REDUCE_TENSOR_MAX;
    Values result(static_cast<std::size_t>(count(to.dims)), max ? -std::numeric_limits<double>::infinity() : 0);
    const Values& xs = memory.read(from);
    each(from.dims, [&](const Dims4& i) {
      double& r = result[at(to.dims, shared(i, from.dims, to.dims))];
      const double value = xs[at(from.dims, i)];
      r = max ? std::max(r, value) : r + value;
    });
    memory.write(to, std::move(result));
  }));
}

// The same numbers at the same offsets, under other extents and strides.
void CudnnGraph::reshape(Id out, Id x) {
  const auto to = node<TensorNode>(tensors_[out].descriptor), from = node<TensorNode>(tensors_[x].descriptor);
  operations_.push_back(operation([=](Memory& memory) {
    std::map<std::int64_t, double> places;
    const Values& xs = memory.read(from);
    each(from.dims, [&](const Dims4& i) { places[offset(from, i)] = xs[at(from.dims, i)]; });
    Values result(static_cast<std::size_t>(count(to.dims)));
    each(to.dims, [&](const Dims4& i) { result[at(to.dims, i)] = places.at(offset(to, i)); });
    memory.write(to, std::move(result));
  }));
}

std::unique_ptr<CudnnPlan> CudnnGraph::plan(const CudnnTarget&, std::string*) && {
  auto plan = std::make_unique<PlanNode>();
  for (const Made& made : tensors_) {
    const auto& t = node<TensorNode>(made.descriptor);
    if (t.held != Held::nowhere) plan->held.push_back(t);
    // As cuDNN on all architectures: no wider heads backward, which is where stored rows are this wide.
    if (t.held == Held::memory && t.dims[3] > 256) return nullptr;
  }
  for (const CudnnDescriptor& o : operations_) plan->operations.push_back(node<OperationNode>(o).run);
  return std::make_unique<CudnnPlan>(wrap(std::move(plan)), std::vector<CudnnDescriptor>{}, ids_);
}

}  // namespace quadrille

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<quadrille::Node*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
