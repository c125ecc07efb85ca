// SPDX-License-Identifier: Apache-2.0
// A small world for the law tests: an addressed data set, a tiny GPT, and one function that trains it under any table
// on thread ranks and returns everything that must equal the serial run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/json.h"
#include "datasets/dataset.h"
#include "training/trainer.h"

namespace quadrille::toy {

// Ids by address; labels masked unevenly: row r of a pass keeps about (r mod 8 + 1)/8 of its labels.
class AddressedText : public Dataset {
 public:
  AddressedText(std::int64_t windows, std::int64_t tokens, std::int64_t vocabulary)
      : windows_(windows), tokens_(tokens), vocabulary_(vocabulary) {}
  std::int64_t size() const override { return windows_; }
  std::int64_t tokens() const override { return tokens_; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  double units() const override { return static_cast<double>(labels()); }
  std::string unit() const override { return "token"; }
  std::int64_t labels() const override;
  void read(std::int64_t epoch, std::int64_t index, std::span<std::int32_t> ids,
            std::span<std::int32_t> labels) const override;
  void scan() const override {}
  Json description() const override { return Json::object(); }

 private:
  std::int64_t windows_, tokens_, vocabulary_;
};

struct Outcome {
  std::vector<double> losses, norms;
  std::map<std::string, std::vector<double>> gradients, values;  // after the last step
  double evaluation = 0;
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

// Where a test may put its hand in.
struct Hooks {
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)> world;
  const Ops& (*ops)() = nullptr;  // instead of the back end's
  std::function<void(Trainer&, int rank)> after_steps;
};
// What one rank of `world` does and sees; collective. `work` is its own.
Outcome train_rank(std::unique_ptr<Communicator> world, const Workload&, const Backend&, int steps,
                   const Hooks& hooks = {});
// The same on thread ranks.
Outcome train(Workload, const std::string& strategy, int ranks, int steps, const std::string& backend = "reference",
              const Hooks& hooks = {});

// Largest difference of two tensors relative to the largest entry of the first.
double distance(const std::vector<double>& a, const std::vector<double>& b);
// Empty when equal within the bounds; otherwise what differs most.
struct Bounds {
  double loss, norm, tensor;
};
inline constexpr Bounds kF64{1e-12, 1e-12, 1e-12};
inline constexpr Bounds kF32{2e-6, 3e-5, 2e-5};  // four times the noise measured for a changed order of summation
// Twenty AdamW steps with kAdamW. A changed order of summation (micro-batches of 1, 2, 4 in the serial run; three
// seeds; reference and cpu) was measured to move losses by 3.4e-8, norms by 6.2e-7, gradients by 1.9e-6 and weights
// by 5.7e-7.
inline constexpr Bounds kF32AdamW{2e-7, 4e-6, 1e-5};
// The bias of keys has no gradient but rounding (softmax does not see a shift), and with the usual epsilon of 1e-8 Adam
// would divide noise by noise: in f32 it moves that bias by thousandths, whatever the layout.
inline constexpr const char* kAdamW = R"({"kind": "adamw", "weight_decay": 0.1, "epsilon": 1e-4})";
std::string difference(const Outcome& serial, const Outcome& layout, const Bounds&);

}  // namespace quadrille::toy
