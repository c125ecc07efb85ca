// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/op_cases.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "kernels/backend.h"

namespace quadrille {

namespace {

Key key_of(const OpCase& c) { return quadrille::key_of(20240229, c.name); }

// Tolerances are stated for f32; f64 has 29 bits more. What is stored in bf16 has been rounded from f32.
double tolerance_for(DType real, const Result& result) {
  if (result.type == DType::bf16) return result.tolerance + result.roundings * 0x1p-8;
  return real == DType::f64 ? std::max(result.tolerance * 0x1p-29, 1e-13) : result.tolerance;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void compare(Verdict& verdict, const Result& got, const Result& wanted, double tolerance) {
  if (got.values.size() != wanted.values.size()) {
    verdict.complaints.push_back(
        fmt::format("{}: {} numbers, wanted {}", got.name, got.values.size(), wanted.values.size()));
    return;
  }
  double largest = 0;
  for (const double v : wanted.values)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < wanted.values.size(); ++i) {
    if (same(got.values[i], wanted.values[i])) continue;
    double error = std::abs(got.values[i] - wanted.values[i]) / (tolerance * largest);
    if (!std::isfinite(error)) error = INFINITY;  // NaN, or anything but zero where only zeros are wanted
    if (error > worst) worst = error, where = i;
  }
  verdict.worst = std::max(verdict.worst, worst);
  if (worst > 1)
    verdict.complaints.push_back(
        fmt::format("{}[{}]: {:.9g}, wanted {:.9g}, off by {:.3g} tolerances of {:.1e} of the largest, {:.3g}",
                    got.name, where, got.values[where], wanted.values[where], worst, tolerance, largest));
}

void compare(Verdict& verdict, const Cost& got, const Cost& wanted) {
  if (got.flops == wanted.flops && got.skipped == wanted.skipped && got.recomputed == wanted.recomputed &&
      got.bytes == wanted.bytes)
    return;
  verdict.complaints.push_back(fmt::format("bill: {} flops, {} skipped, {} recomputed, {} bytes; wanted {}, {}, {}, {}",
                                           got.flops, got.skipped, got.recomputed, got.bytes, wanted.flops,
                                           wanted.skipped, wanted.recomputed, wanted.bytes));
}

}  // namespace

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> all = [] {
    std::vector<OpCase> cases;
    add_product_cases(cases);
    add_elementwise_cases(cases);
    add_norm_cases(cases);
    add_attention_cases(cases);
    add_embedding_and_loss_cases(cases);
    add_image_cases(cases);
    add_training_cases(cases);
    return cases;
  }();
  return all;
}

Verdict judge(const OpCase& c, const Ops& ops, Device& device, DType real, const AttentionBilling& attention) {
  Verdict verdict;
  const DType exact = real == DType::bf16 ? DType::bf16 : DType::f32;
  Bench bench(ops, device, real, key_of(c), exact);
  try {
    c.run(bench);
  } catch (const Error& error) {
    verdict.refused = true;
    verdict.complaints.push_back(error.what());
    return verdict;
  }
  ReferenceBench reference(key_of(c), exact);
  c.run(*reference);
  if (device.holds_numbers())
    for (std::size_t i = 0; i < bench.results().size(); ++i)
      compare(verdict, bench.results()[i], reference->results()[i], tolerance_for(real, bench.results()[i]));

  const std::unique_ptr<Device> nowhere = make_counting_device();
  const std::unique_ptr<Ops> counting = make_counting_ops(attention);
  Bench forecast(*counting, *nowhere, real, key_of(c), exact);
  c.run(forecast);
  compare(verdict, bench.total_bill(), forecast.total_bill());
  return verdict;
}

}  // namespace quadrille
