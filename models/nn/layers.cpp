// SPDX-License-Identifier: Apache-2.0
#include "models/nn/layers.h"

namespace quadrille {

Var with_bias(Tape& tape, Var y, Var bias) {
  return tape.may_join(y, bias) ? tape.settle(tape.join(y, bias)) : tape.add_bias(tape.settle(y), bias);
}

Linear::Linear(Parameters& parameters, const std::string& bucket, const std::string& name, const Dims& in,
               const Dims& out, bool bias, double deviation)
    : name_(name), summed_(static_cast<int>(in.size())), made_(out) {
  Dims all = in;
  all.insert(all.end(), out.begin(), out.end());
  weight_ = &parameters.make(name + ".weight", bucket, all, 0, deviation, true);
  if (bias) bias_ = &parameters.make(name + ".bias", bucket, out, 0, 0);
}

Linear Linear::of_heads(Parameters& parameters, const std::string& bucket, const std::string& name, const Dims& in,
                        const HeadSpread& h, bool bias, double deviation) {
  const Axis axis = h.groups == h.kv_heads ? Axis::heads : Axis::none;  // replicas are cut out of the whole
  Linear linear(parameters, bucket, name, in, {{axis, h.kv_heads}, {Axis::none, (h.stored_queries() + 2) * h.head}},
                bias, deviation);
  if (axis == Axis::none) {
    linear.spread_ = h;
    linear.made_ = {{Axis::heads, h.groups}, {Axis::none, (h.queries + 2) * h.head}};
  }
  return linear;
}

Var Linear::operator()(Tape& tape, Var x) const {
  tape.scope(name_);
  const auto use = [&](Parameter& p) { return spread_ ? tape.spread_heads(tape.use(p), *spread_) : tape.use(p); };
  const Var y = tape.linear(x, use(*weight_), summed_, made_);
  if (!bias_) return tape.settle(y);
  return with_bias(tape, y, use(*bias_));
}

NormLayer::NormLayer(Parameters& parameters, const std::string& bucket, const std::string& name, Dim over,
                     NormKind kind, double epsilon)
    : name_(name), kind_(kind), epsilon_(epsilon), gain_(&parameters.make(name + ".gain", bucket, {over}, 1, 0)) {
  if (kind == NormKind::layer) bias_ = &parameters.make(name + ".bias", bucket, {over}, 0, 0);
}

Var NormLayer::operator()(Tape& tape, Var x) const {
  tape.scope(name_);
  return tape.norm(x, tape.use(*gain_), bias_ ? std::optional<Var>(tape.use(*bias_)) : std::nullopt, kind_, epsilon_);
}

}  // namespace quadrille
