// SPDX-License-Identifier: Apache-2.0
// The layers models are made of: each makes its parameters in its constructor, naming their axes, and writes its
// forward over the tape. No layer mentions a strategy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/nn/parameter.h"
#include "models/nn/tape.h"

namespace quadrille {

// A product that may still owe, settled, with its bias.
Var with_bias(Tape&, Var product_consumed, Var bias);

// y = x w + b. Weight dims: in then out; initial weights normal with this deviation, bias zero.
class Linear {
 public:
  Linear(Parameters&, const std::string& bucket, const std::string& name, const Dims& in, const Dims& out, bool bias,
         double deviation);
  // Queries, keys and values of attention, packed [.., groups, (queries + 2)*head] with so many queries per group.
  // Weights are stored once per key/value head; where there are more groups than these each has a replica of its own.
  static Linear of_heads(Parameters&, const std::string& bucket, const std::string& name, const Dims& in,
                         const HeadSpread&, bool bias, double deviation);
  Var operator()(Tape&, Var x) const;

 private:
  std::string name_;
  int summed_;
  Dims made_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
  std::optional<HeadSpread> spread_;
};

// Layer norm (Ba, Kiros, Hinton 2016) or RMS norm (Zhang and Sennrich 2019) over the last dim.
class NormLayer {
 public:
  NormLayer(Parameters&, const std::string& bucket, const std::string& name, Dim over, NormKind, double epsilon);
  Var operator()(Tape&, Var x) const;

 private:
  std::string name_;
  NormKind kind_;
  double epsilon_;
  Parameter* gain_;
  Parameter* bias_ = nullptr;
};

}  // namespace quadrille
