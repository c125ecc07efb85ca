// SPDX-License-Identifier: Apache-2.0
// Layers of models of images. Like those of layers.h they name the axes of their dims and mention no strategy.
#pragma once

#include <optional>
#include <string>

#include "models/nn/parameter.h"
#include "models/nn/tape.h"

namespace quadrille {

struct ConvNormOptions {
  Tape::Window window;
  Tape::Normalising norm;
  double gain = 1;  // of the norm, at the start
};

// A convolution without bias and its batch norm, with ReLU where norm.relu says so. Initial weights are normal with
// variance 2 / (kernel² · channels made) (He et al. 2015, counted by what goes out).
class ConvNorm {
 public:
  ConvNorm(Parameters&, const std::string& bucket, const std::string& name, Dim in, Dim made, const ConvNormOptions&);
  Var operator()(Tape&, Var x) const;

 private:
  std::string name_;
  Dim made_;
  ConvNormOptions options_;
  Parameter *weight_, *gain_, *bias_;
  Statistics* averages_;
};

}  // namespace quadrille
