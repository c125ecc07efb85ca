// SPDX-License-Identifier: Apache-2.0
// The ops of images that only count. See ops.h.
#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/counting/ops.h"

namespace quadrille {

Cost CountingOps::conv(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Conv& how) const {
  check_conv(stream, out, x, w, how);
  return bill_conv(out, x, w, how);
}

Cost CountingOps::conv_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                      const Conv& how, Write write) const {
  check_conv_backward_input(stream, dx, dy, w, how, write);
  return bill_conv_backward_input(dx, dy, w, how, write);
}

Cost CountingOps::conv_backward_weight(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x,
                                       const Conv& how, Write write) const {
  check_conv_backward_weight(stream, dw, dy, x, how, write);
  return bill_conv_backward_weight(dw, dy, x, how, write);
}

Cost CountingOps::channel_sums(Stream& stream, const Tensor& sums, const Tensor& x) const {
  check_channel_sums(stream, sums, x);
  return bill_channel_sums(sums, x);
}

Cost CountingOps::batch_norm(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
                             const Tensor& bias, const BatchNorm& how) const {
  check_batch_norm(stream, out, x, sums, gain, bias, how);
  return bill_batch_norm(out, x, sums, gain, bias);
}

Cost CountingOps::batch_norm_backward_sums(Stream& stream, const Tensor& backward_sums, const Tensor& dy,
                                           const Tensor& x, const Tensor& out, const Tensor& sums,
                                           const BatchNorm& how) const {
  check_batch_norm_backward_sums(stream, backward_sums, dy, x, out, sums, how);
  return bill_batch_norm_backward_sums(backward_sums, dy, x, out, sums);
}

Cost CountingOps::batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                      const Tensor& out, const Tensor& sums, const Tensor& backward_sums,
                                      const Tensor& gain, const BatchNorm& how, Write write) const {
  check_batch_norm_backward(stream, dx, dy, x, out, sums, backward_sums, gain, how, write);
  return bill_batch_norm_backward(dx, dy, x, out, sums, backward_sums, gain, write);
}

Cost CountingOps::batch_norm_backward_parameters(Stream& stream, const Tensor& dgain, const Tensor& dbias,
                                                 const Tensor& backward_sums) const {
  check_batch_norm_backward_parameters(stream, dgain, dbias, backward_sums);
  return bill_batch_norm_backward_parameters(dgain, dbias, backward_sums);
}

Cost CountingOps::update_averages(Stream& stream, const Tensor& averages, const Tensor& sums, double momentum) const {
  check_update_averages(stream, averages, sums, momentum);
  return bill_update_averages(averages, sums);
}

Cost CountingOps::sums_of_averages(Stream& stream, const Tensor& sums, const Tensor& averages) const {
  check_sums_of_averages(stream, sums, averages);
  return bill_sums_of_averages(sums, averages);
}

Cost CountingOps::add_relu(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) const {
  check_add_relu(stream, out, a, b);
  return bill_add_relu(out, a, b);
}

Cost CountingOps::relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& out) const {
  check_relu_backward(stream, dx, dy, out);
  return bill_relu_backward(dx, dy, out);
}

Cost CountingOps::max_pool(Stream& stream, const Tensor& out, const Tensor& x, const Conv& how) const {
  check_max_pool(stream, out, x, how);
  return bill_max_pool(out, x);
}

Cost CountingOps::max_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                    const Conv& how) const {
  check_max_pool_backward(stream, dx, dy, x, how);
  return bill_max_pool_backward(dx, dy, x);
}

Cost CountingOps::sum_pixels(Stream& stream, const Tensor& out, const Tensor& x, double scale) const {
  check_sum_pixels(stream, out, x, scale);
  return bill_sum_pixels(out, x);
}

Cost CountingOps::spread_pixels(Stream& stream, const Tensor& dx, const Tensor& dy, double scale) const {
  check_spread_pixels(stream, dx, dy, scale);
  return bill_spread_pixels(dx, dy);
}

}  // namespace quadrille
