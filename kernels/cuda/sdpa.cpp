// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN, straight from the packed layouts of ops.h, without copies. A call is cut into parts that are
// computed one after the other, for two reasons: the backward pass must find room in the workspace, and cuDNN knows one
// stride between heads, while queries that are packed with their keys have two (from query to query, from group to
// group); there a part is one batch row whose groups take the place of the batch.
//
// NOT VERIFIED ON A DEVICE: never run on a GPU. What is proved without one: cuDNN 9.19 accepts these graphs and
// compiles them for sm_80, sm_90 and sm_100 (tests/cuda/sdpa_plans_test.cpp).
#include <algorithm>
#include <limits>
#include <utility>

#include "core/cuda/check.h"
#include "core/cuda/device.h"
#include "core/error.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/library.h"

namespace quadrille {

namespace {

using Plan = std::unique_ptr<CudnnPlan>;
constexpr std::int64_t kAligned = 8;        // numbers of 2 bytes in the 16 that cuDNN loads at once
constexpr std::int64_t kMargin = 64 << 10;  // of the workspace, for its small pieces

// Rows [row, row + rows) and groups [group, group + groups); several rows only with all groups.
struct Part {
  std::int64_t row = 0, rows = 0, group = 0, groups = 0;
};

bool one_stride(const Attention& how) { return how.queries == 1 || how.q_width == how.queries * how.head; }

// Keys after the query exist at all.
bool masks(const Attention& how) { return how.causal && how.kv_first + how.kv_tokens - 1 > how.q_first; }

SdpaShape shape_of(const Attention& how, const Part& part) {
  SdpaShape s;
  s.q_tokens = how.q_tokens, s.kv_tokens = how.kv_tokens, s.head = how.head, s.queries = how.queries;
  s.causal = masks(how);
  const std::int64_t out_width = how.queries * how.head;
  s.q.token = how.groups * how.q_width, s.kv.token = how.groups * how.kv_width, s.out.token = how.groups * out_width;
  if (one_stride(how)) {
    s.batch = part.rows, s.keys = part.groups;
    s.q.head = how.queries == 1 ? how.q_width : how.head, s.kv.head = how.kv_width, s.out.head = how.head;
    s.q.batch = how.q_tokens * s.q.token, s.kv.batch = how.kv_tokens * s.kv.token;
    s.out.batch = how.q_tokens * s.out.token;
  } else {
    s.batch = part.groups, s.keys = 1;
    s.q.head = s.out.head = how.head, s.kv.head = how.kv_width;
    s.q.batch = how.q_width, s.kv.batch = how.kv_width, s.out.batch = out_width;
  }
  return s;
}

std::int64_t rounded(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }
std::int64_t row_sum_bytes(const SdpaShape& s) {
  return rounded(s.batch * s.heads() * s.q_tokens * static_cast<std::int64_t>(sizeof(float)), 256);
}

const CudnnPlan* forward_plan(CudaLibraries& libraries, const SdpaShape& s) {
  auto [known, fresh] = libraries.sdpa_forward.try_emplace(s);
  if (fresh) known->second = plan_sdpa_forward(s, {libraries.cudnn(), nullptr});
  const CudnnPlan* plan = known->second.get();
  return plan && plan->workspace() <= libraries.attention_room ? plan : nullptr;
}
const CudnnPlan* backward_plan(CudaLibraries& libraries, const SdpaShape& s) {
  auto [known, fresh] = libraries.sdpa_backward.try_emplace(s);
  if (fresh) known->second = plan_sdpa_backward(s, {libraries.cudnn(), nullptr});
  const CudnnPlan* plan = known->second.get();
  return plan && plan->workspace() + row_sum_bytes(s) <= libraries.attention_room ? plan : nullptr;
}

// How much of a call the backward pass takes at once: as much as fits. The estimate is that of the workspace's largest
// piece, the gradient of the scores in tiles, and for grouped heads their gradients before they are summed.
Part largest_part(const Attention& how, std::int64_t room) {
  const std::int64_t scores = rounded(how.q_tokens, 64) * rounded(how.kv_tokens, 128) * 2;
  const std::int64_t shared = how.queries == 1 ? 0 : 2 * rounded(how.kv_tokens, 128) * how.head * 2;
  const std::int64_t group = how.queries * (scores + shared + how.q_tokens * 4);
  const std::int64_t fit = std::max<std::int64_t>(1, (room - kMargin) / group);
  if (!one_stride(how) || fit < how.groups) return {0, 1, 0, std::min(fit, how.groups)};
  return {0, std::min(fit / how.groups, how.rows), 0, how.groups};
}

// All parts of a call, each at most as large as `largest`.
template <class Call>
void over_parts(const Attention& how, const Part& largest, const Call& call) {
  for (std::int64_t row = 0; row < how.rows; row += largest.rows)
    for (std::int64_t group = 0; group < how.groups; group += largest.groups)
      call(Part{row, std::min(largest.rows, how.rows - row), group, std::min(largest.groups, how.groups - group)});
}

// The forward pass needs next to no workspace: all at once, where the strides allow it.
Part forward_part(const Attention& how) { return {0, one_stride(how) ? how.rows : 1, 0, how.groups}; }

struct Addresses {
  const Attention& how;
  const Part& part;
  void* of(const Tensor& t, std::int64_t element) const {
    return static_cast<std::byte*>(t.data()) + element * size_of(t.dtype());
  }
  void* q(const Tensor& t) const { return of(t, (part.row * how.q_tokens * how.groups + part.group) * how.q_width); }
  void* k(const Tensor& t) const {
    return of(t, (part.row * how.kv_tokens * how.groups + part.group) * how.kv_width + how.kv_offset);
  }
  void* v(const Tensor& t) const {
    return of(t, (part.row * how.kv_tokens * how.groups + part.group) * how.kv_width + how.kv_offset + how.head);
  }
  void* out(const Tensor& t) const {
    return of(t, (part.row * how.q_tokens * how.groups + part.group) * how.queries * how.head);
  }
  void* log_sum(const Tensor& t) const {
    return of(t, (part.row * how.groups + part.group) * how.queries * how.q_tokens);
  }
};

// cuDNN's handle on this stream.
cudnnHandle_t on_stream(CudaLibraries& libraries, cudaStream_t stream) {
  check(cudnnSetStream(libraries.cudnn(), stream));
  return libraries.cudnn();
}

bool aligned(const Attention& how) {
  return how.head % kAligned == 0 && how.q_width % kAligned == 0 && how.kv_width % kAligned == 0 &&
         how.kv_offset % kAligned == 0;
}

// The only mask that cuDNN has is key index <= query index.
bool maskable(const Attention& how) {
  const bool straight = how.q_jump.by == 0 && how.kv_jump.by == 0;
  return !how.causal || (straight && (how.q_first == how.kv_first || !masks(how)));
}

}  // namespace

bool sdpa_expected(DType type, const Attention& how) {
  constexpr std::int64_t kWidest = 256;  // on Hopper; 128 elsewhere, where cuDNN then has no plan
  return type == DType::bf16 && how.dropout == 0 && how.head <= kWidest && aligned(how) && maskable(how) &&
         how.rows > 0 && how.q_tokens > 0 && how.kv_tokens > 0;
}

bool sdpa_supports(const Tensor& q, const Attention& how) {
  if (!sdpa_expected(q.dtype(), how)) return false;
  CudaLibraries& libraries = cuda_libraries(q.device());
  bool all = true;
  over_parts(how, forward_part(how),
             [&](const Part& part) { all = all && forward_plan(libraries, shape_of(how, part)) != nullptr; });
  over_parts(how, largest_part(how, libraries.attention_room),
             [&](const Part& part) { all = all && backward_plan(libraries, shape_of(how, part)) != nullptr; });
  return all;
}

void sdpa_forward(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                  const Attention& how) {
  CudaLibraries& libraries = cuda_libraries(stream.device());
  const cudaStream_t on = cuda_stream(stream);
  const cudnnHandle_t handle = on_stream(libraries, on);
  float scale = static_cast<float>(how.scale), lowest = -std::numeric_limits<float>::infinity();
  over_parts(how, forward_part(how), [&](const Part& part) {
    const SdpaShape s = shape_of(how, part);
    const CudnnPlan* plan = forward_plan(libraries, s);
    require(plan != nullptr, "attention: cuDNN has no plan for this shape; sdpa_supports was not asked");
    const Addresses at{how, part};
    std::vector<void*> addresses{at.q(q), at.k(kv), at.v(kv), &scale};
    if (s.causal) addresses.push_back(&lowest);
    addresses.insert(addresses.end(), {at.log_sum(log_sum), at.out(out)});
    plan->run(handle, std::move(addresses), libraries.attention_workspace(plan->workspace(), on));
  });
}

void sdpa_backward(Stream& stream, const Tensor& dq, const Tensor& dkv, const Tensor& dout, const Tensor& out,
                   const Tensor& log_sum, const Tensor& q, const Tensor& kv, const Attention& how) {
  // Written whole: what neither a query, a key nor a value lies in gets zeros.
  const bool packed = dq.same_place(dkv);
  if (!packed && how.q_width != how.queries * how.head) stream.zero(dq);
  if (!packed && how.kv_width != 2 * how.head) stream.zero(dkv);
  CudaLibraries& libraries = cuda_libraries(stream.device());
  const cudaStream_t on = cuda_stream(stream);
  const cudnnHandle_t handle = on_stream(libraries, on);
  float scale = static_cast<float>(how.scale), one = 1, lowest = -std::numeric_limits<float>::infinity();
  over_parts(how, largest_part(how, libraries.attention_room), [&](const Part& part) {
    const SdpaShape s = shape_of(how, part);
    const CudnnPlan* plan = backward_plan(libraries, s);
    require(plan != nullptr, "attention_backward: cuDNN has no plan for this shape; sdpa_supports was not asked");
    const Addresses at{how, part};
    auto* const row_sums =
        static_cast<std::byte*>(libraries.attention_workspace(row_sum_bytes(s) + plan->workspace(), on));
    std::vector<void*> addresses{at.q(q), at.k(kv), at.v(kv), at.out(out), at.out(dout), at.log_sum(log_sum),
                                 &scale,  &one};
    if (s.causal) addresses.push_back(&lowest);
    addresses.insert(addresses.end(), {row_sums, at.v(dkv), at.k(dkv), at.q(dq)});
    plan->run(handle, std::move(addresses), row_sums + row_sum_bytes(s));
  });
}

}  // namespace quadrille
