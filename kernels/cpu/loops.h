// SPDX-License-Identifier: Apache-2.0
// The inner loops of the cpu back end: plain functions over a run of numbers, compiled once for each instruction set
// and chosen at run time by Highway (a library kept for just that; per-file architecture flags would leak into shared
// inline functions). They know no tensors and no threads. An element's result does not depend on its place in the run,
// so work may be cut anywhere. Sums go to double at fixed places.
#pragma once

#include <cstdint>

namespace quadrille {

struct ElementLoops {
  void (*add)(float* out, const float* a, const float* b, std::int64_t n) noexcept;
  void (*gelu)(float* out, const float* x, std::int64_t n) noexcept;
  void (*gelu_backward)(float* dx, const float* dy, const float* x, std::int64_t n) noexcept;
  void (*gated_silu)(float* out, const float* gate, const float* up, std::int64_t n) noexcept;
  void (*gated_silu_backward)(float* dgate, float* dup, const float* dy, const float* gate, const float* up,
                              std::int64_t n) noexcept;
};
const ElementLoops& element_loops();

// x̂ = (x - mean) * scale
struct Standardise {
  float mean = 0, scale = 1;
};

// dx = scale (dy gain - shift - slope x̂)
struct NormSlopes {
  double mean = 0, scale = 1, shift = 0, slope = 0;
};

struct RowLoops {
  void (*sums)(double sums[2], const float* x, std::int64_t n) noexcept;  // Σx, Σx²
  void (*norm)(float* out, const float* x, const float* gain, const float* bias /* or null */, Standardise,
               std::int64_t n) noexcept;
  void (*norm_backward_sums)(double sums[2], const float* dy, const float* x, const float* gain, Standardise,
                             std::int64_t n) noexcept;
  void (*norm_backward)(float* dx, const float* dy, const float* x, const float* gain, const NormSlopes&,
                        bool accumulate, std::int64_t n) noexcept;
  // dgain += dy x̂, dbias += dy; dbias may be null
  void (*norm_parameters)(float* dgain, float* dbias, const float* dy, const float* x, Standardise,
                          std::int64_t n) noexcept;
  void (*add_to_double)(double* sums, const float* x, std::int64_t n) noexcept;  // sums += x
  float (*max)(const float* x, std::int64_t n) noexcept;
  void (*exponential_sums)(double sums[2], const float* x, float max, std::int64_t n) noexcept;  // Σ exp(x - max), Σx
  void (*softmax_gradient)(float* out, const float* x, float max, float scale, float less,
                           std::int64_t n) noexcept;  // exp(x - max) scale - less
};
const RowLoops& row_loops();

// Loops over rows of channels, next to one another. `n`: channels; sums of a channel in double, row after row.
struct ChannelLoops {
  // sums[c] += Σx, squares[c] += Σx²
  void (*sums)(double* sums, double* squares, const float* x, std::int64_t rows, std::int64_t n) noexcept;
  // out = (x - mean) scale + bias, then ReLU where asked for
  void (*norm)(float* out, const float* x, const float* mean, const float* scale, const float* bias, bool relu,
               std::int64_t rows, std::int64_t n) noexcept;
  // sums[c] += Σg, products[c] += Σg (x - mean); g = dy where out > 0, or dy where out is null
  void (*backward_sums)(double* sums, double* products, const float* dy, const float* x, const float* out,
                        const float* mean, std::int64_t rows, std::int64_t n) noexcept;
  // dx (+)= scale g + slope (x - mean) + shift
  void (*backward)(float* dx, const float* dy, const float* x, const float* out, const float* mean, const float* scale,
                   const float* slope, const float* shift, bool accumulate, std::int64_t rows, std::int64_t n) noexcept;
  void (*add_relu)(float* out, const float* a, const float* b, std::int64_t n) noexcept;
  void (*relu_backward)(float* dx, const float* dy, const float* out, std::int64_t n) noexcept;
  void (*take_larger)(float* out, const float* x, std::int64_t n) noexcept;  // out = x where x > out or is no number
};
const ChannelLoops& channel_loops();

struct AdamWFactors {
  float gradient = 1;                                // what the stored gradient is multiplied by
  float beta1 = 0, beta2 = 0, rest1 = 1, rest2 = 1;  // rest = 1 - beta, subtracted in double
  float step = 0, inverse_root = 1;                  // rate / (1 - beta1^t); 1 / sqrt(1 - beta2^t)
  float epsilon = 0;
  float keep = 1;   // 1 - rate * weight decay
  float decay = 0;  // of Adam's L2: times the value, added to the gradient
};
// update = scale m / (sqrt(v) inverse_root + epsilon) + decay value
struct LambFactors {
  float gradient = 1;
  float beta1 = 0, beta2 = 0, rest1 = 1, rest2 = 1;
  float scale = 1, inverse_root = 1, epsilon = 0, decay = 0;
};
struct SgdFactors {
  float gradient = 1, decay = 0, momentum = 0, rate = 0;
  bool nesterov = false;
};
struct TrainingLoops {
  double (*sum_of_squares)(const float* x, std::int64_t n) noexcept;
  void (*adamw)(float* values, const float* gradients, float* first, float* second, const AdamWFactors&,
                std::int64_t n) noexcept;
  void (*sgd)(float* values, const float* gradients, float* velocity /* or null */, const SgdFactors&,
              std::int64_t n) noexcept;
  double (*lamb_moments)(const float* values, const float* gradients, float* first, float* second, const LambFactors&,
                         std::int64_t n) noexcept;  // returns Σ update²
  void (*lamb_step)(float* values, const float* first, const float* second, const LambFactors&, float rate,
                    std::int64_t n) noexcept;  // values -= rate update
};
const TrainingLoops& training_loops();

}  // namespace quadrille
