// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn_graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "kernels/cuda/check.h"

namespace quadrille {

namespace {

CudnnDescriptor make(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t raw = nullptr;
  check(cudnnBackendCreateDescriptor(type, &raw));
  return CudnnDescriptor(raw);
}

void finalize(const CudnnDescriptor& descriptor) { check(cudnnBackendFinalize(descriptor.get())); }

template <class T>
constexpr cudnnBackendAttributeType_t type_of = CUDNN_TYPE_BACKEND_DESCRIPTOR;
template <>
constexpr cudnnBackendAttributeType_t type_of<std::int64_t> = CUDNN_TYPE_INT64;
template <>
constexpr cudnnBackendAttributeType_t type_of<bool> = CUDNN_TYPE_BOOLEAN;
template <>
constexpr cudnnBackendAttributeType_t type_of<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
constexpr cudnnBackendAttributeType_t type_of<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
constexpr cudnnBackendAttributeType_t type_of<cudnnReduceTensorOp_t> = CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
template <>
constexpr cudnnBackendAttributeType_t type_of<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
constexpr cudnnBackendAttributeType_t type_of<cudnnHandle_t> = CUDNN_TYPE_HANDLE;

template <class T>
void set(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name, const T* values, std::size_t count) {
  check(cudnnBackendSetAttribute(descriptor.get(), name, type_of<T>, static_cast<std::int64_t>(count), values));
}
template <class T>
void set(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name, const T& value) {
  set(descriptor, name, &value, 1);
}
void set(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name, const Dims4& values) {
  set(descriptor, name, values.data(), values.size());
}
void set(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  const cudnnBackendDescriptor_t raw = value.get();
  set(descriptor, name, &raw, 1);
}

std::vector<cudnnBackendDescriptor_t> raw(const std::vector<CudnnDescriptor>& descriptors) {
  std::vector<cudnnBackendDescriptor_t> out;
  for (const CudnnDescriptor& d : descriptors) out.push_back(d.get());
  return out;
}

std::vector<CudnnDescriptor> proposals(const CudnnDescriptor& graph, const CudnnTarget& target,
                                       cudnnBackendHeurMode_t mode) {
  const CudnnDescriptor heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.device) set(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target.device);
  if (cudnnBackendFinalize(heuristics.get()) != CUDNN_STATUS_SUCCESS) return {};  // nothing for this graph
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                 &count, nullptr));
  std::vector<CudnnDescriptor> configurations;
  for (std::int64_t i = 0; i < count; ++i) configurations.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  std::vector<cudnnBackendDescriptor_t> places = raw(configurations);
  check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                                 &count, places.data()));
  configurations.resize(static_cast<std::size_t>(count));
  return configurations;
}

// Whether the engine says of itself that its sums may come in another order the next time.
bool may_vary(const CudnnDescriptor& configuration) {
  const CudnnDescriptor engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t place = engine.get();
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                 &count, &place));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  count = 0;
  check(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                 static_cast<std::int64_t>(notes.size()), &count, notes.data()));
  return std::find(notes.begin(), notes.begin() + count, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) !=
         notes.begin() + count;
}

}  // namespace

Dims4 row_major(const Dims4& dims) { return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}; }

CudnnDescriptor describe_device(std::string_view json) {
  CudnnDescriptor device = make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  check(cudnnBackendSetAttribute(device.get(), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                 static_cast<std::int64_t>(json.size()), json.data()));
  finalize(device);
  return device;
}

CudnnPlan::CudnnPlan(CudnnDescriptor plan, std::vector<CudnnDescriptor> needs, std::vector<std::int64_t> ids)
    : plan_(std::move(plan)), needs_(std::move(needs)), ids_(std::move(ids)) {
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                                 &workspace_));
}

void CudnnPlan::run(cudnnHandle_t handle, std::vector<void*> addresses, void* workspace) const {
  require(addresses.size() == ids_.size(), "a plan of cuDNN got {} addresses, wanted {}", addresses.size(),
          ids_.size());
  const CudnnDescriptor pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids_.data(), ids_.size());
  check(cudnnBackendSetAttribute(pack.get(), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                 static_cast<std::int64_t>(addresses.size()), addresses.data()));
  check(cudnnBackendSetAttribute(pack.get(), CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
  finalize(pack);
  check(cudnnBackendExecute(handle, plan_.get(), pack.get()));
}

CudnnGraph::Id CudnnGraph::tensor(cudnnDataType_t type, const Dims4& dims, const Dims4& strides, Held held) {
  CudnnDescriptor t = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto id = static_cast<std::int64_t>(tensors_.size()) + 1;
  const std::int64_t alignment = type == CUDNN_DATA_FLOAT ? 4 : 16;  // a part of the log-sums may begin anywhere
  set(t, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  set(t, CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  set(t, CUDNN_ATTR_TENSOR_STRIDES, strides);
  set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  set(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  set(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, held == Held::nowhere);
  set(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, held == Held::by_value);
  finalize(t);
  if (held != Held::nowhere) ids_.push_back(id);
  tensors_.push_back({std::move(t), type});
  return tensors_.size() - 1;
}

void CudnnGraph::matmul(Id out, Id a, Id b) {
  CudnnDescriptor how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  finalize(how);
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensors_[a].descriptor);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensors_[b].descriptor);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensors_[out].descriptor);
  finalize(operation);
  modes_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Id out, Id x, std::optional<Id> b, std::optional<Id> selector,
                           std::optional<std::int64_t> axis) {
  CudnnDescriptor how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  // Indices and comparisons are computed in the type that they give, all else in f32.
  const cudnnDataType_t given = tensors_[out].type;
  const bool exact = given == CUDNN_DATA_INT32 || given == CUDNN_DATA_BOOLEAN;
  set(how, CUDNN_ATTR_POINTWISE_MODE, mode);
  set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, exact ? given : CUDNN_DATA_FLOAT);
  if (axis) set(how, CUDNN_ATTR_POINTWISE_AXIS, *axis);
  finalize(how);
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  set(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensors_[x].descriptor);
  if (b) set(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensors_[*b].descriptor);
  if (selector) set(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, tensors_[*selector].descriptor);
  set(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors_[out].descriptor);
  finalize(operation);
  modes_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t kind, Id out, Id x) {
  CudnnDescriptor how = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set(how, CUDNN_ATTR_REDUCTION_OPERATOR, kind);
  set(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  finalize(how);
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  set(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensors_[x].descriptor);
  set(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensors_[out].descriptor);
  finalize(operation);
  modes_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::reshape(Id out, Id x) {
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensors_[x].descriptor);
  set(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, tensors_[out].descriptor);
  finalize(operation);
  operations_.push_back(std::move(operation));
}

std::unique_ptr<CudnnPlan> CudnnGraph::plan(const CudnnTarget& target, std::string* why) && {
  CudnnDescriptor graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  const std::vector<cudnnBackendDescriptor_t> operations = raw(operations_);
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operations.data(), operations.size());
  if (target.handle) set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  finalize(graph);
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (CudnnDescriptor& configuration : proposals(graph, target, mode)) {
      if (may_vary(configuration)) continue;
      CudnnDescriptor plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (target.handle) set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
      if (target.device) set(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target.device);
      if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS) continue;
      std::vector<CudnnDescriptor> needs;
      for (Made& made : tensors_) needs.push_back(std::move(made.descriptor));
      for (auto* list : {&modes_, &operations_})
        for (CudnnDescriptor& d : *list) needs.push_back(std::move(d));
      needs.push_back(std::move(graph));
      needs.push_back(std::move(configuration));
      return std::make_unique<CudnnPlan>(std::move(plan), std::move(needs), std::move(ids_));
    }
  if (why) {
    why->assign(65536, '\0');
    cudnnGetLastErrorString(why->data(), why->size());
    why->resize(why->find('\0'));
  }
  return nullptr;
}

}  // namespace quadrille
