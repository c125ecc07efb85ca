// SPDX-License-Identifier: Apache-2.0
// The ops of images, wrong on purpose. See broken.h.
#include "tests/kernels/broken.h"

namespace quadrille {

namespace {

template <class Options>
Options changed(Options options, const std::function<void(Options&)>& change) {
  if (change) change(options);
  return options;
}

}  // namespace

Cost BrokenOps::conv(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Conv& how) const {
  return spoil({&out}, [&] { return right_.conv(stream, out, x, w, changed(how, forgetting_.conv)); });
}

Cost BrokenOps::conv_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                    const Conv& how, Write write) const {
  return spoil({&dx}, [&] {
    return right_.conv_backward_input(stream, dx, dy, w, changed(how, forgetting_.conv),
                                      changed(write, forgetting_.write));
  });
}

Cost BrokenOps::conv_backward_weight(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x,
                                     const Conv& how, Write write) const {
  return spoil({&dw}, [&] {
    return right_.conv_backward_weight(stream, dw, dy, x, changed(how, forgetting_.conv),
                                       changed(write, forgetting_.write));
  });
}

Cost BrokenOps::channel_sums(Stream& stream, const Tensor& sums, const Tensor& x) const {
  return spoil({&sums}, [&] { return right_.channel_sums(stream, sums, x); });
}

Cost BrokenOps::batch_norm(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
                           const Tensor& bias, const BatchNorm& how) const {
  return spoil({&out}, [&] {
    return right_.batch_norm(stream, out, x, sums, gain, bias, changed(how, forgetting_.batch_norm));
  });
}

Cost BrokenOps::batch_norm_backward_sums(Stream& stream, const Tensor& backward_sums, const Tensor& dy, const Tensor& x,
                                         const Tensor& out, const Tensor& sums, const BatchNorm& how) const {
  return spoil({&backward_sums}, [&] {
    return right_.batch_norm_backward_sums(stream, backward_sums, dy, x, out, sums,
                                           changed(how, forgetting_.batch_norm));
  });
}

Cost BrokenOps::batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                    const Tensor& out, const Tensor& sums, const Tensor& backward_sums,
                                    const Tensor& gain, const BatchNorm& how, Write write) const {
  return spoil({&dx}, [&] {
    return right_.batch_norm_backward(stream, dx, dy, x, out, sums, backward_sums, gain,
                                      changed(how, forgetting_.batch_norm), changed(write, forgetting_.write));
  });
}

Cost BrokenOps::batch_norm_backward_parameters(Stream& stream, const Tensor& dgain, const Tensor& dbias,
                                               const Tensor& backward_sums) const {
  return spoil({&dgain, &dbias},
               [&] { return right_.batch_norm_backward_parameters(stream, dgain, dbias, backward_sums); });
}

Cost BrokenOps::update_averages(Stream& stream, const Tensor& averages, const Tensor& sums, double momentum) const {
  return spoil({&averages},
               [&] { return right_.update_averages(stream, averages, sums, changed(momentum, forgetting_.momentum)); });
}

Cost BrokenOps::sums_of_averages(Stream& stream, const Tensor& sums, const Tensor& averages) const {
  return spoil({&sums}, [&] { return right_.sums_of_averages(stream, sums, averages); });
}

Cost BrokenOps::add_relu(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) const {
  return spoil({&out}, [&] { return right_.add_relu(stream, out, a, b); });
}

Cost BrokenOps::relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& out) const {
  return spoil({&dx}, [&] { return right_.relu_backward(stream, dx, dy, out); });
}

Cost BrokenOps::max_pool(Stream& stream, const Tensor& out, const Tensor& x, const Conv& how) const {
  return spoil({&out}, [&] { return right_.max_pool(stream, out, x, changed(how, forgetting_.conv)); });
}

Cost BrokenOps::max_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                  const Conv& how) const {
  return spoil({&dx}, [&] { return right_.max_pool_backward(stream, dx, dy, x, changed(how, forgetting_.conv)); });
}

Cost BrokenOps::sum_pixels(Stream& stream, const Tensor& out, const Tensor& x, double scale) const {
  return spoil({&out}, [&] { return right_.sum_pixels(stream, out, x, changed(scale, forgetting_.scale)); });
}

Cost BrokenOps::spread_pixels(Stream& stream, const Tensor& dx, const Tensor& dy, double scale) const {
  return spoil({&dx}, [&] { return right_.spread_pixels(stream, dx, dy, changed(scale, forgetting_.scale)); });
}

}  // namespace quadrille
