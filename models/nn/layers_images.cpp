// SPDX-License-Identifier: Apache-2.0
#include "models/nn/layers_images.h"

#include <cmath>

namespace quadrille {

ConvNorm::ConvNorm(Parameters& parameters, const std::string& bucket, const std::string& name, Dim in, Dim made,
                   const ConvNormOptions& options)
    : name_(name), made_(made), options_(options) {
  const std::int64_t k = options.window.kernel;
  // Where both axes are one, the channels summed over keep it: a weight has an axis once.
  const Dim made_in_weight{made.axis == in.axis ? Axis::none : made.axis, made.extent};
  weight_ = &parameters.make(name + ".weight", bucket, {{Axis::none, k}, {Axis::none, k}, in, made_in_weight}, 0,
                             std::sqrt(2 / static_cast<double>(k * k * made.extent)), true);
  gain_ = &parameters.make(name + ".gain", bucket, {made}, options.gain, 0);
  bias_ = &parameters.make(name + ".bias", bucket, {made}, 0, 0);
  averages_ = &parameters.make_statistics(name + ".averages", made);
}

Var ConvNorm::operator()(Tape& tape, Var x) const {
  tape.scope(name_);
  const Var y = tape.settle(tape.conv(x, tape.use(*weight_), made_, options_.window));
  return tape.batch_norm(y, tape.use(*gain_), tape.use(*bias_), *averages_, options_.norm);
}

}  // namespace quadrille
