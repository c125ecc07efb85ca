// SPDX-License-Identifier: Apache-2.0
// What a strategy table asks for although each of its words is known: placements that cannot be, found from the table
// and the mesh alone. Each message says where, what was found and what to change. What depends on a model's sizes is
// refused by training/check.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "parallelism/plan.h"

namespace quadrille {

namespace {
// Of the residual stream. No model has both a sequence and a height, so a table may put them on one mesh axis.
constexpr Axis kOfValues[] = {Axis::batch, Axis::sequence, Axis::height, Axis::embed};
constexpr Axis kOfWeights[] = {Axis::heads, Axis::mlp, Axis::vocab};
}  // namespace

std::vector<int> Plan::real_order(Axis a) const {
  std::vector<int> order = rest_[static_cast<std::size_t>(a)];
  std::erase_if(order, [this](int m) { return mesh_.extent(m) == 1; });
  return order;
}

void Plan::check(std::vector<std::string>& faults) const {
  check_pipeline_alone(faults);
  for (int m = 0; m < mesh_.axes(); ++m)
    if (mesh_.extent(m) > 1) check_mesh_axis(m, faults);
  check_nesting(faults);
  check_passing(faults);
  check_order_of_tokens(faults);
}

// Ranks of different stages hold different layers: nothing else may be cut over them.
void Plan::check_pipeline_alone(std::vector<std::string>& faults) const {
  if (pipeline_.axis < 0) return;
  const auto refuse = [&](const std::string& origin, const std::string& what) {
    faults.push_back(
        fmt::format("{}: mesh axis \"{}\" carries the pipeline's stages and {}: give it an axis of its own", origin,
                    mesh_.name(pipeline_.axis), what));
  };
  for (std::size_t a = 1; a < rest_.size(); ++a)
    if (rests_on(static_cast<Axis>(a), pipeline_.axis))
      refuse(named_at_[a], fmt::format("model axis \"{}\"", name_of(static_cast<Axis>(a))));
  for (const Passing& p : passing_)
    if (p.mesh_axis == pipeline_.axis) refuse(p.origin, "a row of \"passing\"");
  if (store_.optimizer & pipe()) refuse(store_at_, "a list of \"store\"");
}

// Values at rest are [batch, sequence, embed] or [batch, height, width, embed]: two of these on one mesh axis would be
// two axes of one value there.
void Plan::check_mesh_axis(int m, std::vector<std::string>& faults) const {
  const auto on_m = [&](Axis a) { return rests_on(a, m); };
  std::string resting;
  std::string origin;
  int of_values = 0;
  for (Axis a : kOfValues)
    if (on_m(a) && !(a == Axis::height && on_m(Axis::sequence))) {
      resting += fmt::format("{}\"{}\"", of_values++ ? " and " : "", name_of(a));
      origin = named_at(a);
    }
  if (of_values > 1)
    faults.push_back(fmt::format(
        "{}: two axes of one value at rest on mesh axis \"{}\": {}; a value {} may have one there: "
        "put the others on mesh axes of their own",
        origin, mesh_.name(m), resting,
        on_m(Axis::height) && !on_m(Axis::sequence) ? "[batch, height, width, embed]" : "[batch, sequence, embed]"));
  std::string others;
  for (Axis a : kOfWeights)
    if (on_m(a)) others += fmt::format("{}\"{}\"", others.empty() ? "" : " and ", name_of(a));
  if (on_m(Axis::batch) && on_m(Axis::vocab))
    faults.push_back(
        fmt::format("{}: \"batch\" and \"vocab\" both rest on mesh axis \"{}\": the words that a rank's rows name "
                    "would lie on other ranks; put one of the two on another mesh axis",
                    named_at(Axis::vocab), mesh_.name(m)));
  else if (on_m(Axis::batch) && !others.empty() && !may_gather(Axis::batch))
    faults.push_back(
        fmt::format("{}: two different axes meet on mesh axis \"{}\": \"batch\" with {}; put batch on an axis "
                    "of its own",
                    named_at(Axis::batch), mesh_.name(m), others));
  if (on_m(Axis::height) && !others.empty())
    faults.push_back(
        fmt::format("{}: two different axes meet on mesh axis \"{}\": \"height\" with {}; put height on an axis "
                    "of its own",
                    named_at(Axis::height), mesh_.name(m), others));
  if (on_m(Axis::embed) && !others.empty() && !may_gather(Axis::embed))
    faults.push_back(
        fmt::format("{}: two different axes meet on mesh axis \"{}\": \"embed\" with {}; put embed on another "
                    "mesh axis, or list it in \"may_gather\"",
                    named_at(Axis::embed), mesh_.name(m), others));
  // A debt only passes where something rests. A name that was mistyped may have meant this one.
  const bool used = of_values > 0 || !others.empty() || m == pipeline_.axis || ((store_.optimizer | meant_) & bit(m));
  if (!used)
    faults.push_back(
        fmt::format("{}: mesh axis \"{}\" has {} ranks but nothing uses it: name it in \"axes\", \"store\" or "
                    "\"pipeline\", or set its extent to 1",
                    mesh_at_, mesh_.name(m), mesh_.extent(m)));
}

// A weight of both axes would be cut over neither (of_parameter).
void Plan::check_nesting(std::vector<std::string>& faults) const {
  const std::vector<int> embed = real_order(Axis::embed);
  for (Axis other : kOfWeights)
    for (int m : embed)
      if (embed.size() > 1 && rests_on(other, m))
        faults.push_back(fmt::format(
            "{}: \"embed\" is cut over several mesh axes, among them \"{}\", where \"{}\" rests too: a weight "
            "of both would be cut over none of them; put one of the two on another mesh axis",
            named_at(Axis::embed), mesh_.name(m), name_of(other)));
}

// Products sum over these: where one of them is cut, also by another row of "passing", what is made owes a sum.
bool Plan::may_owe_on(int m, const Passing& but) const {
  constexpr Axis kSummed[] = {Axis::embed, Axis::heads, Axis::mlp, Axis::vocab};
  return std::any_of(std::begin(kSummed), std::end(kSummed), [&](Axis a) {
    return rests_on(a, m) || std::any_of(passing_.begin(), passing_.end(), [&](const Passing& p) {
             return &p != &but && p.axis == a && p.mesh_axis == m;
           });
  });
}

// Rows of "passing" that no value of any model could follow: a value has its rows, its tokens and what it was made
// along.
void Plan::check_passing(std::vector<std::string>& faults) const {
  for (const Passing& p : passing_) {
    const auto refuse = [&](const std::string& why) {
      faults.push_back(fmt::format("{}: the row [\"{}\", \"{}\", \"{}\"] of \"passing\" can never pass: {}", p.origin,
                                   name_of(p.made), name_of(p.axis), mesh_.name(p.mesh_axis), why));
    };
    if (mesh_.extent(p.mesh_axis) == 1 || p.mesh_axis == pipeline_.axis) continue;
    if (p.axis != p.made && p.axis != Axis::batch && p.axis != Axis::sequence && p.axis != Axis::height)
      refuse(fmt::format("what is made along \"{0}\" has no axis \"{1}\"; use batch, sequence, height or {0}",
                         name_of(p.made), name_of(p.axis)));
    else if (rests_on(p.axis, p.mesh_axis))
      refuse(
          fmt::format("\"{}\" rests there, so debts are scattered over it anyway; take the row out", name_of(p.axis)));
    else if (!may_owe_on(p.mesh_axis, p))
      refuse(
          "nothing that products sum over is cut there, so nothing owes there; let embed, heads, mlp or vocab rest "
          "there, "
          "or take the row out");
  }
}

// Before attention tokens are gathered where heads rest: those must be the innermost.
void Plan::check_order_of_tokens(std::vector<std::string>& faults) const {
  const std::vector<int> order = real_order(Axis::sequence);
  const auto with_heads = std::find_if(order.begin(), order.end(), [this](int m) { return rests_on(Axis::heads, m); });
  const auto late = std::find_if_not(with_heads, order.end(), [this](int m) { return rests_on(Axis::heads, m); });
  if (late != order.end())
    faults.push_back(fmt::format(
        "{}: \"sequence\" rests on mesh axis \"{}\", which carries heads, outside of \"{}\", which does not: "
        "list \"{}\" last, it is gathered before attention",
        named_at(Axis::sequence), mesh_.name(*with_heads), mesh_.name(*late), mesh_.name(*with_heads)));
}

}  // namespace quadrille
