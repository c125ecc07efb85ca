// SPDX-License-Identifier: Apache-2.0
// A way to compute: a device and its ops. The list is literal, in backends.cpp; what was not built is in it with the
// reason, so that `quadrille info` can say what would bring it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/device.h"
#include "kernels/bills.h"
#include "kernels/ops.h"

namespace quadrille {

// The sizes of a model on which temporary memory depends; 0: it has no such layers.
struct ScratchSizes {
  std::int64_t head = 0;                  // numbers of an attention head
  std::int64_t window = 0, channels = 0;  // cells of the largest window of a convolution; most channels of a batch norm
};
// What decides how much temporary memory a rank's ops take.
struct ScratchUse {
  ScratchSizes sizes;  // all 0: this rank has no layers
  int threads = 1;
  DType dtype = DType::f32;
};

struct Backend {
  std::string_view name;                              // "reference", "cpu", "cuda", "counting"
  std::unique_ptr<Device> (*open_device)(int index);  // null when absent
  const Ops& (*ops)();                                // null when absent
  void (*use_threads)(int count);   // called once by each rank thread; null where threads mean nothing
  std::string_view absent_because;  // empty when built; otherwise why, and the flag or package that brings it
  bool timed_claims;                // false: correct, but not meant for a timed result
  // Temporary memory of a rank's ops outside its arena, in bytes; null where there is none.
  std::int64_t (*scratch_needed)(const ScratchUse&) = nullptr;  // for the forecast; at most, where hold_scratch is null
  void (*hold_scratch)(Device&, const ScratchUse&) = nullptr;   // by the calling rank thread, before its first op
  std::int64_t (*scratch_held)() = nullptr;                     // by the calling rank thread now
  bool computes_f64 = true;                                     // false: not f64
  bool tensor_cores = false;  // computes tf32, and bf16 as fast as it should be; false: bf16 is emulated
  // Where ranks take a device each: all there are, and the versions of what drives them; they throw Error where none
  // can be used. Null where the host computes, for any number of ranks.
  std::vector<DeviceFacts> (*devices)() = nullptr;
  std::vector<std::pair<std::string, std::string>> (*versions)() = nullptr;
  bool convolutions = true;         // false: refuses the ops of images
  AttentionBilling attention = {};  // see kernels/bills.h
};

std::span<const Backend> backends();  // all, absent ones included
const Backend& backend_named(
    std::string_view name);  // throws Error: unknown (nearest named) or absent (with the reason)

const Ops& reference_ops();  // kernels/reference
const Ops& counting_ops();   // kernels/counting, bills like `reference`
// Bills like a back end whose attention costs this: the forecast of its run.
std::unique_ptr<Ops> make_counting_ops(const AttentionBilling&);
const Backend& cpu_backend();   // kernels/cpu, or kernels/cpu/absent.cpp
const Backend& cuda_backend();  // kernels/cuda, or kernels/cuda/absent.cpp

}  // namespace quadrille
