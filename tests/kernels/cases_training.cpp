// SPDX-License-Identifier: Apache-2.0
// Cases of the end of a step: norm, step scalars, optimizers.
#include <fmt/core.h>

#include <cmath>

#include "tests/kernels/op_cases.h"

namespace quadrille {

namespace {

constexpr double kTolerance = 1e-6;
constexpr std::int64_t kCounts[] = {1, 8, 33, 1000};

void run_squares(Bench& b, std::int64_t n, double deviation) {
  const Tensor x = b.normal_sum({n}, deviation), sum = b.put_wide({1}, {3 * deviation * deviation});
  b.bill(b.ops().sum_of_squares(b.stream(), sum, x));
  b.result("sum", sum, kTolerance);
}

void run_scalars(Bench& b, const Tensor& totals, double clip) {
  const Tensor scalars = b.unset({kStepScalars}, DType::f64);
  b.bill(b.ops().step_scalars(b.stream(), scalars, totals, b.put_wide({2}, {3e-4, 17}), clip));
  const Numbers all = b.read(scalars);
  b.result("scalars", scalars, 1e-12);
  for (int i = 0; i < kStepScalars && !all.empty(); ++i)  // each by itself: they differ in size
    b.result(fmt::format("scalar {}", i), scalars.rows(i, 1), 1e-12);
}

void add_scalars(std::vector<OpCase>& cases) {
  struct Totals {
    const char* name;
    double loss, count, squares, clip;
  };
  const Totals some[] = {{"no clipping", 70.5, 32, 25, 0},         {"clipping", 70.5, 32, 2.5e7, 1},
                         {"below the clip norm", 70.5, 32, 25, 1}, {"zero gradient", 70.5, 32, 0, 1},
                         {"loss not a number", NAN, 32, 25, 1},    {"norm not a number", 70.5, 32, NAN, 1},
                         {"infinite loss", INFINITY, 32, 25, 0},   {"infinite norm", 70.5, 32, INFINITY, 1},
                         {"nothing counted", 0, 0, 0, 1}};
  for (const Totals& t : some)
    cases.push_back({"step_scalars", fmt::format("step_scalars {}", t.name), [t](Bench& b) {
                       const Tensor totals = b.put_wide({3}, {t.loss, t.count, t.squares});
                       run_scalars(b, totals, t.clip);
                     }});
  cases.push_back({"step_scalars", "step_scalars of three losses, nothing counted in one", [](Bench& b) {
                     run_scalars(b, b.put_wide({7}, {70.5, 32, 25, 8, 12.5, 0, 0}), 0);
                   }});
}

Numbers scalars_of(double factor, double rate, bool finite, double step) {
  Numbers s(kStepScalars, 0.0);
  s[kFactor] = factor, s[kRate] = rate, s[kFinite] = finite ? 1 : 0, s[kStep] = step;
  return s;
}

// Two steps from given moments; then one that is not finite, with gradients to match, and must change nothing.
void run_adamw(Bench& b, std::int64_t n, const AdamW& how, double step) {
  const Tensor values = b.normal_sum({n}), gradients = b.normal_sum({n}, 20), m = b.normal_sum({n}, 0.3);
  Numbers squares = b.normals(n, 0.3);
  for (double& v : squares) v = v * v;
  const Tensor v = b.put_sum({n}, squares);
  const Tensor scalars = b.put_wide({kStepScalars}, scalars_of(0.03, 0.1, true, step));
  for (int i = 0; i < 2; ++i) b.bill(b.ops().adamw(b.stream(), values, gradients, m, v, scalars, how));
  const Tensor broken = b.put_sum({n}, Numbers(static_cast<std::size_t>(n), NAN));
  const Tensor not_finite = b.put_wide({kStepScalars}, scalars_of(0, 0.1, false, step + 1));
  b.bill(b.ops().adamw(b.stream(), values, broken, m, v, not_finite, how));
  b.result("values", values, kTolerance);
  b.result("first moment", m, kTolerance);
  b.result("second moment", v, kTolerance);
}

void run_sgd(Bench& b, std::int64_t n, const SgdMomentum& how, bool with_velocity) {
  const Tensor values = b.normal_sum({n}), gradients = b.normal_sum({n}, 20),
               velocity = with_velocity ? b.normal_sum({n}) : Tensor();
  const Tensor scalars = b.put_wide({kStepScalars}, scalars_of(0.03, 0.1, true, 5));
  for (int i = 0; i < 2; ++i) b.bill(b.ops().sgd_momentum(b.stream(), values, gradients, velocity, scalars, how));
  const Tensor broken = b.put_sum({n}, Numbers(static_cast<std::size_t>(n), INFINITY));
  const Tensor not_finite = b.put_wide({kStepScalars}, scalars_of(0, 0.1, false, 6));
  b.bill(b.ops().sgd_momentum(b.stream(), values, broken, velocity, not_finite, how));
  b.result("values", values, kTolerance);
  if (velocity) b.result("velocity", velocity, kTolerance);
}

// Two steps with given norms, then one that is not finite.
void run_lars(Bench& b, std::int64_t n, const Lars& how, const Numbers& norms) {
  const Tensor values = b.normal_sum({n}), gradients = b.normal_sum({n}, 20), velocity = b.normal_sum({n});
  const Tensor squares = norms.empty() ? Tensor() : b.put_wide({2}, norms);
  const Tensor scalars = b.put_wide({kStepScalars}, scalars_of(0.03, 0.1, true, 5));
  for (int i = 0; i < 2; ++i) b.bill(b.ops().lars(b.stream(), values, gradients, velocity, squares, scalars, how));
  const Tensor broken = b.put_sum({n}, Numbers(static_cast<std::size_t>(n), NAN));
  const Tensor no_norms = b.put_wide({2}, {9, NAN});
  const Tensor not_finite = b.put_wide({kStepScalars}, scalars_of(0, 0.1, false, 6));
  b.bill(b.ops().lars(b.stream(), values, broken, velocity, no_norms, not_finite, how));
  b.result("values", values, kTolerance);
  b.result("velocity", velocity, kTolerance);
}

struct LambNumbers {
  Tensor values, gradients, m, v, scalars, broken, not_finite;
};
LambNumbers lamb_numbers(Bench& b, std::int64_t n, double step) {
  LambNumbers t;
  t.values = b.normal_sum({n}), t.gradients = b.normal_sum({n}, 20), t.m = b.normal_sum({n}, 0.3);
  Numbers squares = b.normals(n, 0.3);
  for (double& v : squares) v = 0.01 + v * v;  // the update of a vanishing second moment has no bound
  t.v = b.put_sum({n}, squares);
  t.scalars = b.put_wide({kStepScalars}, scalars_of(0.03, 0.1, true, step));
  t.broken = b.put_sum({n}, Numbers(static_cast<std::size_t>(n), NAN));
  t.not_finite = b.put_wide({kStepScalars}, scalars_of(0, 0.1, false, step + 1));
  return t;
}
void run_lamb_moments(Bench& b, std::int64_t n, const Lamb& how, double step, bool counted) {
  const LambNumbers t = lamb_numbers(b, n, step);
  const Tensor squares = counted ? b.put_wide({1}, {2.5}) : Tensor();
  for (int i = 0; i < 2; ++i)
    b.bill(b.ops().lamb_moments(b.stream(), squares, t.values, t.gradients, t.m, t.v, t.scalars, how));
  b.bill(b.ops().lamb_moments(b.stream(), squares, t.values, t.broken, t.m, t.v, t.not_finite, how));
  b.result("first moment", t.m, kTolerance);
  b.result("second moment", t.v, kTolerance);
  if (counted) b.result("squares", squares, kTolerance);
}
void run_lamb_step(Bench& b, std::int64_t n, const Lamb& how, double step, const Numbers& norms) {
  const LambNumbers t = lamb_numbers(b, n, step);
  const Tensor squares = norms.empty() ? Tensor() : b.put_wide({2}, norms);
  for (int i = 0; i < 2; ++i) b.bill(b.ops().lamb_step(b.stream(), t.values, t.m, t.v, squares, t.scalars, how));
  b.bill(b.ops().lamb_step(b.stream(), t.values, t.m, t.v, b.put_wide({2}, {9, NAN}), t.not_finite, how));
  b.result("values", t.values, kTolerance);
}

// Optimizers that scale a whole parameter's step.
void add_scaled(std::vector<OpCase>& cases) {
  const std::pair<const char*, Numbers> norms[] = {
      {"", {7.3, 2500}}, {" without norms", {}}, {" zero values", {0, 2500}}, {" nothing to do", {7.3, 0}}};
  const std::pair<const char*, Lars> larses[] = {
      {"", {.trust = 0.5}},
      {" decayed", {.weight_decay = 0.1, .trust = 0.5}},
      {" scaled momentum", {.momentum = 0.8, .weight_decay = 0.1, .trust = 0.5, .scaled_momentum = true}},
      {" nesterov, epsilon", {.weight_decay = 0.1, .trust = 0.5, .epsilon = 0.5, .nesterov = true}},
      {" scaled momentum, nesterov", {.trust = 0.5, .nesterov = true, .scaled_momentum = true}}};
  const std::pair<const char*, Lamb> lambs[] = {
      {"", {}},
      {" decayed", {.weight_decay = 0.1}},
      {" not corrected",
       {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 0.01, .weight_decay = 0.01, .bias_correction = false}},
      {" other constants", {.beta1 = 0.7206, .beta2 = 0.78921, .epsilon = 1e-3}}};
  // A single number may all but vanish when a step is taken from it: then nothing can be said about its digits.
  for (const std::int64_t n : {3, 8, 33, 1000}) {
    for (const auto& [of_norms, numbers] : norms) {
      if (n != 33 && !std::string(of_norms).empty()) continue;
      for (const auto& [name, how] : larses)
        cases.push_back(
            {"lars", fmt::format("lars {}{}{}", n, name, of_norms), [n, how = how, numbers = numbers](Bench& b) {
               run_lars(b, 0, how, numbers);
               run_lars(b, n, how, numbers);
             }});
      for (const auto& [name, how] : lambs)
        for (const double step : {1.0, 1000.0})
          cases.push_back({"lamb_step", fmt::format("lamb_step {} step {}{}{}", n, step, name, of_norms),
                           [n, step, how = how, numbers = numbers](Bench& b) {
                             run_lamb_step(b, 0, how, step, numbers);
                             run_lamb_step(b, n, how, step, numbers);
                           }});
    }
    for (const auto& [name, how] : lambs)
      for (const double step : {1.0, 1000.0})
        for (const bool counted : {true, false}) {
          if (n != 33 && !counted) continue;
          cases.push_back({"lamb_moments",
                           fmt::format("lamb_moments {} step {}{}{}", n, step, name, counted ? "" : " not counted"),
                           [n, step, counted, how = how](Bench& b) {
                             run_lamb_moments(b, 0, how, step, counted);
                             run_lamb_moments(b, n, how, step, counted);
                           }});
        }
  }
}

void add_optimizers(std::vector<OpCase>& cases) {
  const std::pair<const char*, AdamW> adams[] = {
      {"", {}},
      {" decayed", {.weight_decay = 0.1}},
      {" other constants", {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.01}},
      {" without memory", {.beta1 = 0, .beta2 = 0}},
      {" decay in the gradient", {.weight_decay = 0.1, .decay_in_gradient = true}}};
  struct Sgd {
    const char* name;
    SgdMomentum how;
    bool with_velocity;
  };
  const Sgd sgds[] = {{" plain", {}, false},
                      {" plain, decayed", {.weight_decay = 0.1}, false},
                      {" momentum", {.momentum = 0.9}, true},
                      {" momentum, decayed", {.momentum = 0.9, .weight_decay = 0.1}, true},
                      {" nesterov, decayed", {.momentum = 0.8, .weight_decay = 0.1, .nesterov = true}, true}};
  for (const std::int64_t n : kCounts) {
    for (const auto& [name, how] : adams)
      for (const double step : {1.0, 1000.0})
        cases.push_back({"adamw", fmt::format("adamw {} step {}{}", n, step, name), [n, step, how = how](Bench& b) {
                           run_adamw(b, 0, how, step);
                           run_adamw(b, n, how, step);
                         }});
    for (const Sgd& s : sgds)
      cases.push_back({"sgd_momentum", fmt::format("sgd_momentum {}{}", n, s.name), [n, s](Bench& b) {
                         run_sgd(b, 0, s.how, s.with_velocity);
                         run_sgd(b, n, s.how, s.with_velocity);
                       }});
  }
}

}  // namespace

void add_training_cases(std::vector<OpCase>& cases) {
  for (const std::int64_t n : kCounts)
    cases.push_back({"sum_of_squares", fmt::format("sum_of_squares {}", n), [n](Bench& b) {
                       run_squares(b, 0, 1);
                       run_squares(b, n, 1);
                     }});
  // Squares beyond f32's range: the sum is in double.
  cases.push_back({"sum_of_squares", "sum_of_squares large values", [](Bench& b) { run_squares(b, 33, 1e25); }});
  add_scalars(cases);
  add_optimizers(cases);
  add_scaled(cases);
}

}  // namespace quadrille
