// SPDX-License-Identifier: Apache-2.0
// The op cases themselves: named, many, and not to be passed by back ends that are broken on purpose.
#include <gtest/gtest.h>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "kernels/backend.h"
#include "tests/kernels/broken.h"
#include "tests/kernels/op_cases.h"

namespace quadrille {
namespace {

std::string text(const OpCase& c, const Verdict& v) {
  return fmt::format("{}: {}", c.name, fmt::join(v.complaints, "; "));
}

TEST(OpCases, NamesAreUniqueAndEveryOpHasSeveral) {
  std::set<std::string> names;
  std::map<std::string, int> per_op;
  for (const OpCase& c : op_cases()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    ++per_op[c.op];
  }
  EXPECT_EQ(per_op.size(), 58u);  // the functions of Ops
  for (const auto& [op, count] : per_op) EXPECT_GE(count, 5) << op;
}

struct NamedFault {
  const char* name;
  Fault fault;
};
void PrintTo(const NamedFault& f, std::ostream* out) { *out << f.name; }

class EveryFault : public testing::TestWithParam<NamedFault> {};

TEST_P(EveryFault, IsRejectedByEveryCase) {
  const std::unique_ptr<Device> device = make_host_device();
  const BrokenOps broken(reference_ops(), GetParam().fault);
  for (const OpCase& c : op_cases())
    for (const DType real : {DType::f32, DType::f64})
      EXPECT_FALSE(judge(c, broken, *device, real, {}).agrees())
          << c.name << " accepts a back end that is broken: " << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryFault,
                         testing::Values(NamedFault{"DoesNothing", Fault::does_nothing},
                                         NamedFault{"OnePercent", Fault::one_percent},
                                         NamedFault{"LastElement", Fault::last_element},
                                         NamedFault{"Adds", Fault::adds}, NamedFault{"WrongBill", Fault::wrong_bill}),
                         [](const auto& info) { return info.param.name; });

TEST(Broken, WithoutAFaultIsTheReference) {
  const std::unique_ptr<Device> device = make_host_device();
  const BrokenOps sound(reference_ops(), Fault::none);
  for (const OpCase& c : op_cases()) {
    const Verdict v = judge(c, sound, *device, DType::f64, {});
    EXPECT_TRUE(v.agrees()) << text(c, v);
  }
}

struct Forgotten {
  const char* what;
  std::vector<std::string> ops;  // each has a case that must notice
  Forgetting change;
};

std::vector<Forgotten> forgotten_options() {
  std::vector<Forgotten> all;
  const auto add = [&](const char* what, std::vector<std::string> ops, auto Forgetting::*member, auto change) {
    Forgotten f{what, std::move(ops), {}};
    f.change.*member = change;
    all.push_back(std::move(f));
  };
  const auto replace = [](auto& how) {
    how.write = how.write == Write::accumulate ? Write::replace : Write::accumulate;
  };
  add("matmul write", {"matmul"}, &Forgetting::matmul, replace);
  add("block write", {"move_block"}, &Forgetting::block_move, replace);
  add("block out_first", {"move_block"}, &Forgetting::block_move, [](BlockMove& m) { m.out_first = 0; });
  add("block in_first", {"move_block"}, &Forgetting::block_move, [](BlockMove& m) { m.in_first = 0; });
  add("write", {"sum_rows", "norm_backward"}, &Forgetting::write, [](Write& w) { w = Write::replace; });
  const std::vector<std::string> norms{"norm", "norm_backward_sums", "norm_backward", "norm_backward_parameters"};
  add("epsilon", norms, &Forgetting::norm, [](Norm& n) { n.epsilon = 0.01; });
  add("width", norms, &Forgetting::norm, [](Norm& n) { n.width *= 2; });
  add("dropout probability", {"dropout"}, &Forgetting::dropout, [](Dropout& d) { d.probability = 0; });
  add("dropout key", {"dropout"}, &Forgetting::dropout, [](Dropout& d) { d.key = 1; });
  add("dropout row", {"dropout"}, &Forgetting::dropout, [](Dropout& d) { d.first_row = 0; });
  add("dropout token", {"dropout"}, &Forgetting::dropout, [](Dropout& d) { d.first_token = 0; });
  add("dropout jump", {"dropout"}, &Forgetting::dropout, [](Dropout& d) { d.jump = {}; });
  add("dropout feature", {"dropout"}, &Forgetting::dropout, [](Dropout& d) { d.first_feature = 0; });
  add("dropout features", {"dropout"}, &Forgetting::dropout, [](Dropout& d) { d.features *= 2; });
  const std::vector<std::string> attentions{"attention", "attention_backward"};
  const auto attention = [&](const char* what, auto change) { add(what, attentions, &Forgetting::attention, change); };
  attention("causal", [](Attention& a) { a.causal = !a.causal; });
  attention("scale", [](Attention& a) { a.scale *= 1.01; });
  attention("q_first", [](Attention& a) { a.q_first = 0; });
  attention("kv_first", [](Attention& a) { a.kv_first = 0; });
  attention("q_jump", [](Attention& a) { a.q_jump = {}; });
  attention("kv_jump", [](Attention& a) { a.kv_jump = {}; });
  attention("attention dropout", [](Attention& a) { a.dropout = 0; });
  attention("attention dropout row", [](Attention& a) { a.first_row = 0; });
  attention("attention dropout head", [](Attention& a) { a.first_head = 0; });
  attention("attention dropout heads", [](Attention& a) { a.heads_global += 1; });
  attention("attention dropout queries", [](Attention& a) { a.q_global += 1; });
  attention("attention dropout keys", [](Attention& a) { a.kv_global += 1; });
  add("attention lengths", attentions, &Forgetting::lengths, [](Tensor& lengths) { lengths = {}; });
  const auto rotary = [&](const char* what, auto change) { add(what, {"rotary"}, &Forgetting::rotary, change); };
  rotary("rotary inverse", [](Rotary& r) { r.inverse = !r.inverse; });
  rotary("rotary base", [](Rotary& r) { r.base *= 1.1; });
  rotary("rotary first token", [](Rotary& r) { r.first_token = 0; });
  rotary("rotary jump", [](Rotary& r) { r.jump = {}; });
  rotary("rotary heads", [](Rotary& r) { r.heads = r.width / r.head; });
  const std::vector<std::string> losses{"cross_entropy_sums", "cross_entropy_loss", "cross_entropy_backward"};
  add("smoothing", {losses[1], losses[2]}, &Forgetting::cross_entropy, [](CrossEntropy& c) { c.smoothing = 0; });
  add("first word", {losses[0], losses[2]}, &Forgetting::cross_entropy, [](CrossEntropy& c) { c.first_word = 0; });
  add("words", {losses[1], losses[2]}, &Forgetting::cross_entropy, [](CrossEntropy& c) { c.words *= 2; });
  add("first row", {"embedding", "embedding_backward"}, &Forgetting::first_row, [](std::int64_t& first) { first = 0; });
  add("place of the first token", {"rows_of_places"}, &Forgetting::first_token, [](std::int64_t& first) { first = 0; });
  add("jump of places", {"rows_of_places"}, &Forgetting::jump, [](Jump& jump) { jump = {}; });
  const std::vector<std::string> pools{"max_pool", "max_pool_backward"},
      convs{"conv", "conv_backward_input", "conv_backward_weight", pools[0], pools[1]},
      batch_norms{"batch_norm", "batch_norm_backward_sums", "batch_norm_backward"};
  add("conv pads", convs, &Forgetting::conv, [](Conv& c) {
    if (c.pad_top != c.pad_bottom) std::swap(c.pad_top, c.pad_bottom);
    if (c.pad_left != c.pad_right) std::swap(c.pad_left, c.pad_right);
  });
  add("image write", {"conv_backward_input", "conv_backward_weight", "batch_norm_backward"}, &Forgetting::write,
      [](Write& w) { w = Write::replace; });
  add("batch norm epsilon", batch_norms, &Forgetting::batch_norm, [](BatchNorm& n) { n.epsilon += 0.01; });
  add("batch norm relu", batch_norms, &Forgetting::batch_norm, [](BatchNorm& n) { n.relu = false; });
  add("averages momentum", {"update_averages"}, &Forgetting::momentum, [](double& m) { m *= 0.99; });
  add("pixels scale", {"sum_pixels", "spread_pixels"}, &Forgetting::scale, [](double& s) { s *= 1.01; });
  add("clip", {"step_scalars"}, &Forgetting::step_scalars, [](double&, double& clip, double&) { clip = 0; });
  add("rate", {"step_scalars"}, &Forgetting::step_scalars, [](double& rate, double&, double&) { rate *= 1.01; });
  add("step", {"step_scalars"}, &Forgetting::step_scalars, [](double&, double&, double& step) { step += 1; });
  add("adamw decay", {"adamw"}, &Forgetting::adamw, [](AdamW& a) { a.weight_decay = 0; });
  add("adamw beta1", {"adamw"}, &Forgetting::adamw, [](AdamW& a) { a.beta1 *= 0.99; });
  add("adamw beta2", {"adamw"}, &Forgetting::adamw, [](AdamW& a) { a.beta2 *= 0.99; });
  add("adamw epsilon", {"adamw"}, &Forgetting::adamw, [](AdamW& a) { a.epsilon *= 2; });
  add("sgd decay", {"sgd_momentum"}, &Forgetting::sgd_momentum, [](SgdMomentum& s) { s.weight_decay = 0; });
  add("sgd momentum", {"sgd_momentum"}, &Forgetting::sgd_momentum, [](SgdMomentum& s) { s.momentum *= 0.99; });
  add("adam decay", {"adamw"}, &Forgetting::adamw, [](AdamW& a) { a.decay_in_gradient = false; });
  const auto lars = [&](const char* what, auto change) { add(what, {"lars"}, &Forgetting::lars, change); };
  lars("lars momentum", [](Lars& l) { l.momentum *= 0.99; });
  lars("lars decay", [](Lars& l) { l.weight_decay = 0; });
  lars("lars trust", [](Lars& l) { l.trust *= 1.01; });
  lars("lars epsilon", [](Lars& l) { l.epsilon = 0; });
  lars("lars nesterov", [](Lars& l) { l.nesterov = false; });
  lars("lars scaled momentum", [](Lars& l) { l.scaled_momentum = false; });
  const std::vector<std::string> lambs{"lamb_moments", "lamb_step"};
  const auto lamb = [&](const char* what, auto change) { add(what, lambs, &Forgetting::lamb, change); };
  lamb("lamb beta1", [](Lamb& l) { l.beta1 *= 0.99; });
  lamb("lamb beta2", [](Lamb& l) { l.beta2 *= 0.99; });
  lamb("lamb epsilon", [](Lamb& l) { l.epsilon *= 2; });
  lamb("lamb decay", [](Lamb& l) { l.weight_decay = 0; });
  lamb("lamb bias correction", [](Lamb& l) { l.bias_correction = !l.bias_correction; });
  add("nesterov", {"sgd_momentum"}, &Forgetting::sgd_momentum, [](SgdMomentum& s) { s.nesterov = !s.nesterov; });
  return all;
}

TEST(Broken, AForgottenOptionIsNoticed) {
  const std::unique_ptr<Device> device = make_host_device();
  for (const Forgotten& f : forgotten_options()) {
    const BrokenOps broken(reference_ops(), Fault::none, f.change);
    for (const std::string& op : f.ops) {
      bool noticed = false;
      for (const OpCase& c : op_cases())
        if (c.op == op && !noticed) {
          const Verdict v = judge(c, broken, *device, DType::f32, {});
          noticed = !v.agrees() && !v.refused;
        }
      EXPECT_TRUE(noticed) << "no case of " << op << " notices a back end that gets this wrong: " << f.what;
    }
  }
}

}  // namespace
}  // namespace quadrille
