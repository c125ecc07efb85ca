// SPDX-License-Identifier: Apache-2.0
// How a model is trained: the "training" object of a workload, read strictly. Plain values, no behaviour.
#pragma once

#include <cstdint>
#include <string>

#include "core/json.h"
#include "core/tensor.h"

namespace quadrille {

struct OptimizerConfig {
  std::string kind = "adamw";                        // "adamw" or "sgd"
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // adamw
  double momentum = 0;                               // sgd
  bool nesterov = false;
  double weight_decay = 0;  // of weights with two or more dims; biases, gains and positions decay only if asked
  bool decay_all = false;
};

// Learning rate of step k (from 1): linear warm-up from 0 over warmup_steps, then the schedule down to final_rate at
// `steps`.
struct RateConfig {
  std::string schedule = "constant";  // "constant", "linear", "cosine"
  double peak = 1e-3, final_rate = 0;
  std::int64_t warmup_steps = 0;
  std::int64_t steps = 0;  // where the decay ends; 0: the run's number of steps
};
double rate_at(const RateConfig&, std::int64_t step);

struct TrainingConfig {
  std::int64_t batch_size = 0;   // rows of one step over all ranks
  std::int64_t micro_batch = 0;  // rows of one data rank per forward; 0: all it has. Their number follows.
  std::int64_t steps = 0;        // at most; a run may end earlier at its target
  double clip_norm = 0;          // 0: no clipping
  double label_smoothing = 0;
  DType dtype = DType::f32;  // of activations and weights in use; masters, gradients and moments are of its wide type
  bool tf32 = false;         // "tf32": f32 whose products may round their operands on tensor cores
  OptimizerConfig optimizer;
  RateConfig rate;
  std::string precision() const { return tf32 ? "tf32" : std::string(name_of(dtype)); }
  std::string batch_origin, micro_origin;  // where the two were written: for the equation in messages
};

// Throws Error: unknown keys (nearest named), wrong types, values out of range.
TrainingConfig read_training(const Json& object, Json& resolved);

}  // namespace quadrille
