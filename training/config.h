// SPDX-License-Identifier: Apache-2.0
// How a model is trained: the "training" object of a workload, read strictly. Plain values, no behaviour.
#pragma once

#include <cstdint>
#include <string>

#include "core/json.h"
#include "core/tensor.h"

namespace quadrille {

struct OptimizerConfig {
  std::string kind = "adamw";                        // "adamw", "adam", "lamb", "lars" or "sgd"
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // adamw, adam, lamb; epsilon also lars
  double momentum = 0;                               // sgd, lars
  bool nesterov = false;                             // sgd, lars
  double trust = 0.001;                              // lars: the trust coefficient
  bool scaled_momentum = false;                      // lars
  bool bias_correction = true;                       // lamb
  // Of weights with two or more dims; biases, gains and positions decay only if asked. LARS and LAMB adapt the rate of
  // what decays, whatever the decay is.
  double weight_decay = 0;
  bool decay_all = false;
  bool adapts_by_parameter() const { return kind == "lars" || kind == "lamb"; }
};

// Learning rate of step k (from 1), with s = k - start_step: s/warmup_steps of the peak up to there, then the schedule,
// in which `left` falls from 1 to 0 between warmup_steps and steps - start_step, evenly, and stays 0:
// final_rate + (peak - final_rate)·f with f = left (linear), left^power (polynomial), (1 + cos π(1 - left))/2 (cosine);
// or peak·sqrt(max(1, warmup_steps)/s) without an end (inverse_sqrt).
struct RateConfig {
  std::string schedule = "constant";  // "constant", "linear", "polynomial", "cosine", "inverse_sqrt"
  double peak = 1e-3, final_rate = 0;
  double power = 1;  // polynomial
  std::int64_t warmup_steps = 0;
  std::int64_t steps = 0;       // where the decay ends; 0: the run's number of steps
  std::int64_t start_step = 0;  // below 0: the schedule began so many steps before the run
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
