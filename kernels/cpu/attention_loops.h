// SPDX-License-Identifier: Apache-2.0
// Attention of one batch row and one key/value group, single-threaded: what the threads of attention.cpp each do for
// their items. Compiled once for each instruction set, see loops.h.
#pragma once

#include <cstdint>

#include "kernels/ops.h"

namespace quadrille {

struct AttentionItem {
  const Attention* how;
  std::int64_t row, group;
};
struct AttentionOperands {  // all of the call, not of the item; null where the pass has no use for it
  const std::int32_t* lengths;
  const float *q, *kv;
  float *out, *log_sum;  // written forward
  const float* dout;
  float *dq, *dkv;
};

// Query tokens whose products share one loop over keys and are therefore cut at the same key: the block of the bill.
inline constexpr std::int64_t kAttentionBlock = 6;

struct AttentionLoops {
  std::int64_t (*scratch)(const Attention&);                                                 // floats, either pass
  void (*forward)(const AttentionItem&, const AttentionOperands&, float* scratch) noexcept;  // scratch: 64-byte aligned
  void (*backward)(const AttentionItem&, const AttentionOperands&, float* scratch) noexcept;
};
const AttentionLoops& attention_loops();

}  // namespace quadrille
