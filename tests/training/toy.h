// SPDX-License-Identifier: Apache-2.0
// A small world for the law tests: a tiny GPT and one function that trains it under any table on thread ranks and
// returns everything that must equal the serial run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/json.h"
#include "parallelism/rank_device.h"
#include "training/law/addressed_data.h"
#include "training/law/equality.h"
#include "training/trainer.h"

namespace quadrille::toy {

using quadrille::AddressedText;
using quadrille::Bounds;

struct Outcome : Observed {
  Work work;                                       // summed over ranks, all steps
  std::map<Ledger::MessageKey, Traffic> messages;  // of rank 0, all steps
  std::uint64_t hash = 0;
  double model_flops_full = 0;
  MemoryReport memory, forecast;  // of rank 0
};

// The workload of the law tests: 2 layers, embed 8, 4 heads, mlp 32, 13 words, 8 tokens, batch 8, everything switched
// on (dropout, smoothing, clipping, tied head). `model` and `training` replace single keys.
Workload workload(const std::vector<std::pair<std::string, Json>>& model = {},
                  const std::vector<std::pair<std::string, Json>>& training = {});

// A residual network under the same training: a 7x7 stem with its pool, two bottlenecks of 4 and 8 inner channels, 5
// classes, images of 17 x 12, whose heights on the way are 9, 5 and 3.
Workload images(const std::vector<std::pair<std::string, Json>>& model = {},
                const std::vector<std::pair<std::string, Json>>& training = {});

// BERT under the same training: 2 layers, embed 8, 4 heads, mlp 32, 13 words, 8 tokens of which 3 may be masked.
Workload masked_words(const std::vector<std::pair<std::string, Json>>& model = {},
                      const std::vector<std::pair<std::string, Json>>& training = {});
// An encoder-decoder under the same training: 2 + 2 layers of the toy GPT's width, sources of 16 words, targets of 8.
Workload translation(const std::vector<std::pair<std::string, Json>>& model = {},
                     const std::vector<std::pair<std::string, Json>>& training = {});

// Where a test may put its hand in.
struct Hooks {
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)> world;
  DeviceChoice devices;           // where the back end computes on GPUs
  const Ops& (*ops)() = nullptr;  // instead of the back end's
  std::function<void(Trainer&, int rank)> after_steps;
};
// What one rank of `world` does and sees; collective. `work` is its own.
Outcome train_rank(std::unique_ptr<Communicator> world, const Workload&, const Backend&, int steps,
                   const Hooks& hooks = {});
// The same on thread ranks.
Outcome train(Workload, const std::string& strategy, int ranks, int steps, const std::string& backend = "reference",
              const Hooks& hooks = {});

// Empty when equal within the bounds; otherwise all that differs too much.
inline constexpr Bounds kF64 = kBoundsF64, kF32 = kBoundsF32, kBf16 = kBoundsBf16;
// Twenty AdamW steps with kLawAdamW. A changed order of summation (micro-batches of 1, 2, 4 in the serial run; three
// seeds; reference and cpu) was measured to move losses by 3.4e-8, norms by 6.2e-7, gradients by 1.9e-6 and weights
// by 5.7e-7.
inline constexpr Bounds kF32AdamW{2e-7, 4e-6, 1e-5};
inline constexpr const char* kAdamW = kLawAdamW;
std::string difference(const Outcome& serial, const Outcome& layout, const Bounds&);

}  // namespace quadrille::toy
