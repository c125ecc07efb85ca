// SPDX-License-Identifier: Apache-2.0
// The cpu back end as the rest of the house sees it, and the scratch memory of its rank threads.
#include "kernels/backend.h"

#include <omp.h>

#include <algorithm>
#include <memory>
#include <new>

#include "core/error.h"
#include "kernels/cpu/attention_loops.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/scratch.h"
#include "kernels/emulated_bf16.h"

namespace quadrille {

namespace {

constexpr std::align_val_t kAlignment{64};
struct Release {
  void operator()(float* p) const { ::operator delete[](p, kAlignment); }
};
struct Scratch {
  std::unique_ptr<float[], Release> data;
  std::int64_t count = 0;
};
Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

std::unique_ptr<Device> open_host(int) { return make_host_device(); }
const Ops& cpu_ops() {
  static const CpuOps ops;
  static const std::unique_ptr<Ops> all = with_emulated_bf16(ops, kAttentionBlock);
  return *all;
}
// The setting belongs to the calling thread, so every rank thread has its own.
void use_threads(int count) {
  require(count >= 1, "found {} threads per rank, wanted at least 1", count);
  omp_set_dynamic(0);
  omp_set_num_threads(count);
}

std::int64_t scratch_needed(const ScratchUse& use) {
  Attention how;
  how.head = use.sizes.head;
  const std::int64_t of_attention = use.sizes.head > 0 ? use.threads * attention_loops().scratch(how) : 0;
  return std::max({of_attention, scratch_of_windows(use.sizes.window, use.threads),
                   scratch_of_channels(use.sizes.channels)}) *
         static_cast<std::int64_t>(sizeof(float));
}

}  // namespace

float* scratch_of_rank(std::int64_t threads, std::int64_t count) {
  Scratch& mine = scratch();
  if (mine.count < threads * count) {
    mine.data.reset();
    mine.count = 0;
    mine.data.reset(
        static_cast<float*>(::operator new[](static_cast<std::size_t>(threads * count) * sizeof(float), kAlignment)));
    mine.count = threads * count;
  }
  return mine.data.get();
}
std::int64_t scratch_bytes() { return scratch().count * static_cast<std::int64_t>(sizeof(float)); }

const Backend& cpu_backend() {
  static const Backend backend{.name = "cpu",
                               .open_device = open_host,
                               .ops = cpu_ops,
                               .use_threads = use_threads,
                               .absent_because = "",
                               .timed_claims = true,
                               .scratch_needed = scratch_needed,
                               .scratch_held = scratch_bytes,
                               .computes_f64 = false,
                               .attention = {.block = kAttentionBlock}};
  return backend;
}

}  // namespace quadrille
