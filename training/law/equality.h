// SPDX-License-Identifier: Apache-2.0
// What it means that a layout equals the serial run: what is looked at, how far numbers may lie apart, and the words
// for those that lie further. `quadrille check` and the law tests judge by this one piece of code.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "training/trainer.h"

namespace quadrille {

struct Observed {
  std::vector<double> losses, norms;                             // of each step
  std::map<std::string, std::vector<double>> gradients, values;  // whole tensors, after the last step
  std::optional<double> evaluation, correct;  // correct: labels, where rounding changes no order of logits
};

// Relative: of losses and norms to the serial one, of tensors to the largest entry of the serial tensor.
struct Bounds {
  double loss, norm, tensor;
};
// f64: rounding. f32 and bf16: four times the noise that a changed order of summation was measured to make. In bf16
// that noise is what rounding activations to 8 bits does to a model of width 8; a message that is missing or doubled
// is far outside of it all the same.
inline constexpr Bounds kBoundsF64{1e-12, 1e-12, 1e-12}, kBoundsF32{2e-6, 3e-5, 2e-5}, kBoundsBf16{2e-3, 2e-2, 0.2};
const Bounds& bounds_of(DType);
// Of losses over kLawAdamWSteps of kLawAdamW: in bf16 each step carries the rounding of those before on.
Bounds bounds_with_adamw(DType);

// Twenty AdamW steps. The bias of keys has no gradient but rounding (softmax does not see a shift), and with the usual
// epsilon of 1e-8 Adam would divide noise by noise: in f32 it moves that bias by thousandths, whatever the layout.
inline constexpr const char* kLawAdamW = R"({"kind": "adamw", "weight_decay": 0.1, "epsilon": 1e-4})";
inline constexpr int kLawAdamWSteps = 20;

// Adds noise to every weight, so that none is zero or equal to another, then trains and notes losses and norms.
// Collective.
void train_from_perturbed(Trainer&, const Dataset&, int steps, Observed&);
void read_tensors(Trainer&, Observed&);  // gradients of the last step and weights, whole. Collective.

// One number, or one tensor at its worst place, beside the serial one.
struct Distance {
  enum class Quantity : unsigned char { loss, norm, gradient, value, evaluation } quantity = Quantity::loss;
  std::string where;  // "step 3", "layers.0.up.weight[17]"
  double found = 0, wanted = 0, relative = 0, bound = 0;
  bool within() const { return relative <= bound; }  // false for what is not a number
  std::string text() const;  // "gradient of layers.0.up.weight[17]: found 0.25, wanted 0.5; differs by ..."
};
const char* name_of(Distance::Quantity);

// Everything that both have, in the order losses, norms, evaluation, gradients, values. Throws Error when `other` lacks
// something that `serial` has.
std::vector<Distance> distances(const Observed& serial, const Observed& other, const Bounds&);
// The largest relative to its bound, of each quantity that occurs.
std::vector<Distance> worst_of_each(const std::vector<Distance>&);

}  // namespace quadrille
