// SPDX-License-Identifier: Apache-2.0
// See equality.h.
#include "training/law/equality.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace quadrille {

namespace {

constexpr double kPerturbation = 0.2;
constexpr std::uint64_t kPerturbationSeed = 3;

using Quantity = Distance::Quantity;

Distance apart(Quantity quantity, std::string where, double found, double wanted, double scale, double bound) {
  const double difference = std::isfinite(found) ? std::abs(found - wanted) : std::numeric_limits<double>::infinity();
  constexpr double kSmallest = 1e-30;  // a tensor of zeros still has a scale
  return {quantity, std::move(where), found, wanted, difference / std::max(scale, kSmallest), bound};
}

void compare_numbers(Quantity quantity, const std::vector<double>& wanted, const std::vector<double>& found,
                     double bound, std::vector<Distance>& all) {
  require(found.size() == wanted.size(), "{} steps beside {} of the serial run", found.size(), wanted.size());
  for (std::size_t k = 0; k < wanted.size(); ++k)
    all.push_back(apart(quantity, fmt::format("step {}", k + 1), found[k], wanted[k], std::abs(wanted[k]), bound));
}

Distance compare_tensor(Quantity quantity, const std::string& name, const std::vector<double>& wanted,
                        const std::vector<double>& found, double bound) {
  require(found.size() == wanted.size(), "{} of {} has {} numbers, {} in the serial run", name_of(quantity), name,
          found.size(), wanted.size());
  double scale = 0, largest = -1;
  std::size_t at = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    scale = std::max(scale, std::abs(wanted[i]));
    const double d = std::isfinite(found[i]) ? std::abs(found[i] - wanted[i]) : std::numeric_limits<double>::infinity();
    if (d > largest) largest = d, at = i;
  }
  if (wanted.empty()) return {quantity, name, 0, 0, 0, bound};
  return apart(quantity, fmt::format("{}[{}]", name, at), found[at], wanted[at], scale, bound);
}

void compare_tensors(Quantity quantity, const std::map<std::string, std::vector<double>>& wanted,
                     const std::map<std::string, std::vector<double>>& found, double bound,
                     std::vector<Distance>& all) {
  for (const auto& [name, numbers] : wanted) {
    const auto other = found.find(name);
    require(other != found.end(), "{} of {} is missing", name_of(quantity), name);
    all.push_back(compare_tensor(quantity, name, numbers, other->second, bound));
  }
}

}  // namespace

const Bounds& bounds_of(DType dtype) {
  return dtype == DType::f64 ? kBoundsF64 : dtype == DType::bf16 ? kBoundsBf16 : kBoundsF32;
}

Bounds bounds_with_adamw(DType dtype) {
  Bounds bounds = bounds_of(dtype);
  if (dtype == DType::bf16) bounds.loss *= 10;
  return bounds;
}

const char* name_of(Distance::Quantity quantity) {
  switch (quantity) {
    case Quantity::loss:
      return "loss";
    case Quantity::norm:
      return "norm";
    case Quantity::gradient:
      return "gradient";
    case Quantity::value:
      return "parameter";
    case Quantity::evaluation:
      break;
  }
  return "evaluation";
}

std::string Distance::text() const {
  return fmt::format("{} of {}: found {:.17g}, wanted {:.17g}; differs by {:.2e}, bound {:.0e}", name_of(quantity),
                     where, found, wanted, relative, bound);
}

void train_from_perturbed(Trainer& trainer, const Dataset& data, int steps, Observed& observed) {
  trainer.perturb(kPerturbation, kPerturbationSeed);
  const auto note = [&](const std::optional<StepReport>& report) {
    if (report) observed.losses.push_back(report->loss), observed.norms.push_back(report->gradient_norm);
  };
  for (int k = 0; k < steps; ++k) note(trainer.step(data, k));
  note(trainer.flush());
}

void read_tensors(Trainer& trainer, Observed& observed) {
  for (const std::string& name : trainer.parameter_names()) {
    observed.gradients[name] = trainer.whole_gradient(name);
    observed.values[name] = trainer.whole_value(name);
  }
}

std::vector<Distance> distances(const Observed& serial, const Observed& other, const Bounds& bounds) {
  std::vector<Distance> all;
  compare_numbers(Quantity::loss, serial.losses, other.losses, bounds.loss, all);
  compare_numbers(Quantity::norm, serial.norms, other.norms, bounds.norm, all);
  if (serial.correct && other.correct)
    all.push_back(apart(Quantity::evaluation, "the labels that are right", *other.correct, *serial.correct,
                        std::abs(*serial.correct), bounds.loss));
  if (serial.evaluation) {
    require(other.evaluation.has_value(), "the evaluation is missing");
    all.push_back(apart(Quantity::evaluation, "the held-out rows", *other.evaluation, *serial.evaluation,
                        std::abs(*serial.evaluation), bounds.loss));
  }
  compare_tensors(Quantity::gradient, serial.gradients, other.gradients, bounds.tensor, all);
  compare_tensors(Quantity::value, serial.values, other.values, bounds.tensor, all);
  return all;
}

std::vector<Distance> worst_of_each(const std::vector<Distance>& all) {
  std::vector<Distance> worst;
  for (const Distance& d : all) {
    const auto same =
        std::find_if(worst.begin(), worst.end(), [&](const Distance& w) { return w.quantity == d.quantity; });
    if (same == worst.end())
      worst.push_back(d);
    else if (!(d.relative / d.bound <= same->relative / same->bound))
      *same = d;
  }
  return worst;
}

}  // namespace quadrille
