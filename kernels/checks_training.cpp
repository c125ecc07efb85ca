// SPDX-License-Identifier: Apache-2.0
// The demands of the ops that end a step: norm, step scalars, optimizers. See checks.h.
#include "kernels/checks.h"
#include "kernels/demands.h"

namespace quadrille {

namespace {

void check_scalars(const Check& check, const Tensor& scalars) {
  check.type(DType::f64, {{"scalars", scalars}});
  check.count({"scalars", scalars}, kStepScalars, "the step scalars of ops.h");
}
// For Adam and its kin.
template <class How>
void check_betas(const Check& check, const How& how) {
  check.that(how.beta1 >= 0 && how.beta1 < 1, "a beta1 in [0, 1)", how.beta1);
  check.that(how.beta2 >= 0 && how.beta2 < 1, "a beta2 in [0, 1)", how.beta2);
  check.that(how.epsilon >= 0, "an epsilon of at least 0", how.epsilon);
}
// Values, moments and whatever else the optimizer reads of each parameter.
void check_moments(const Check& check, Named values, Named first_moment, Named second_moment) {
  check.alike({values, first_moment, second_moment});
  check.apart(values, {first_moment, second_moment});
  check.apart(first_moment, {second_moment});
}
void check_norms(const Check& check, const Tensor& norms) {
  if (!norms) return;
  check.type(DType::f64, {{"norms", norms}});
  check.count({"norms", norms}, 2, "two sums of squares");
}

}  // namespace

void check_sum_of_squares(const Stream& stream, const Tensor& sum, const Tensor& x) {
  const Check check("sum_of_squares", stream);
  check.real({{"x", x}});
  check.type(DType::f64, {{"sum", sum}});
  check.count({"sum", sum}, 1, "a single number");
  check.apart({"sum", sum}, {{"x", x}});
}

void check_step_scalars(const Stream& stream, const Tensor& scalars, const Tensor& totals, const Tensor& settings,
                        double clip_norm) {
  const Check check("step_scalars", stream);
  check.type(DType::f64, {{"scalars", scalars}, {"totals", totals}, {"settings", settings}});
  check.count({"scalars", scalars}, kStepScalars, "the step scalars of ops.h");
  check.that(totals.count() >= 3 && totals.count() % 2 == 1, "totals of 3 and two for each further loss",
             totals.shape().text());
  check.count({"settings", settings}, 2, "rate and step");
  check.that(clip_norm >= 0, "a clip norm of at least 0", clip_norm);
  check.apart({"scalars", scalars}, {{"totals", totals}, {"settings", settings}});
}

void check_adamw(const Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& first_moment,
                 const Tensor& second_moment, const Tensor& scalars, const AdamW& how) {
  const Check check("adamw", stream);
  check.alike({{"values", values}, {"gradients", gradients}});
  check_moments(check, {"values", values}, {"first_moment", first_moment}, {"second_moment", second_moment});
  check_scalars(check, scalars);
  check_betas(check, how);
  check.apart({"gradients", gradients},
              {{"values", values}, {"first_moment", first_moment}, {"second_moment", second_moment}});
}

void check_sgd_momentum(const Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                        const Tensor& scalars, const SgdMomentum& how) {
  const Check check("sgd_momentum", stream);
  check.alike({{"values", values}, {"gradients", gradients}});
  if (velocity) check.alike({{"values", values}, {"velocity", velocity}});
  require(velocity || how.momentum == 0, "sgd_momentum: a momentum of {} needs a velocity", how.momentum);
  check_scalars(check, scalars);
  check.that(how.momentum >= 0 && how.momentum < 1, "a momentum in [0, 1)", how.momentum);
  check.apart({"values", values}, {{"gradients", gradients}, {"velocity", velocity}});
  check.apart({"gradients", gradients}, {{"velocity", velocity}});
}

void check_lars(const Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                const Tensor& norms, const Tensor& scalars, const Lars& how) {
  const Check check("lars", stream);
  check.alike({{"values", values}, {"gradients", gradients}, {"velocity", velocity}});
  check_norms(check, norms);
  check_scalars(check, scalars);
  check.that(how.momentum >= 0 && how.momentum < 1, "a momentum in [0, 1)", how.momentum);
  check.that(how.trust > 0, "a trust coefficient above 0", how.trust);
  check.that(how.epsilon >= 0, "an epsilon of at least 0", how.epsilon);
  check.apart({"values", values}, {{"gradients", gradients}, {"velocity", velocity}});
  check.apart({"gradients", gradients}, {{"velocity", velocity}});
}

void check_lamb_moments(const Stream& stream, const Tensor& squares, const Tensor& values, const Tensor& gradients,
                        const Tensor& first_moment, const Tensor& second_moment, const Tensor& scalars,
                        const Lamb& how) {
  const Check check("lamb_moments", stream);
  check.alike({{"values", values}, {"gradients", gradients}});
  check_moments(check, {"values", values}, {"first_moment", first_moment}, {"second_moment", second_moment});
  check_scalars(check, scalars);
  check_betas(check, how);
  check.apart({"gradients", gradients}, {{"first_moment", first_moment}, {"second_moment", second_moment}});
  if (!squares) return;
  check.type(DType::f64, {{"squares", squares}});
  check.count({"squares", squares}, 1, "a single number");
}

void check_lamb_step(const Stream& stream, const Tensor& values, const Tensor& first_moment,
                     const Tensor& second_moment, const Tensor& norms, const Tensor& scalars, const Lamb& how) {
  const Check check("lamb_step", stream);
  check_moments(check, {"values", values}, {"first_moment", first_moment}, {"second_moment", second_moment});
  check_norms(check, norms);
  check_scalars(check, scalars);
  check_betas(check, how);
}

}  // namespace quadrille
