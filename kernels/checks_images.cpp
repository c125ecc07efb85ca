// SPDX-License-Identifier: Apache-2.0
// The demands of the ops of images. See checks.h.
#include "kernels/checks.h"
#include "kernels/demands.h"

namespace quadrille {

namespace {

void check_window(const Check& check, const Conv& how) {
  check.that(how.kernel_h > 0 && how.kernel_w > 0 && how.stride > 0, "a kernel and a stride of at least 1",
             fmt::format("a kernel of {} x {}, a stride of {}", how.kernel_h, how.kernel_w, how.stride));
  check.that(how.pad_top >= 0 && how.pad_bottom >= 0 && how.pad_left >= 0 && how.pad_right >= 0, "pads of at least 0",
             fmt::format("{}, {}, {}, {}", how.pad_top, how.pad_bottom, how.pad_left, how.pad_right));
  check.that(how.pad_top < how.kernel_h && how.pad_bottom < how.kernel_h && how.pad_left < how.kernel_w &&
                 how.pad_right < how.kernel_w,
             "pads less than the kernel",
             fmt::format("{}, {}, {}, {}", how.pad_top, how.pad_bottom, how.pad_left, how.pad_right));
}

void check_slid(const Check& check, const char* what, std::int64_t in, std::int64_t pads, std::int64_t kernel,
                std::int64_t stride, std::int64_t found) {
  if (found == 0) return;
  const std::int64_t room = in + pads - kernel;
  const std::int64_t wanted = room < 0 || in == 0 ? 0 : room / stride + 1;
  check.that(found == wanted,
             fmt::format("{}: {} by kernel {}, stride {}, pads of {} in all", what, in, kernel, stride, pads), found);
}

// `in` is the image that the window slides over, `out` has a pixel for each place.
ConvExtents check_images(const Check& check, Named out, Named in, const Conv& how) {
  check_window(check, how);
  for (const Named& t : {out, in})
    check.that(t.tensor.shape().rank() == 4, fmt::format("\"{}\" of [rows, height, width, channels]", t.name),
               t.tensor.shape().text());
  const Shape &o = out.tensor.shape(), &i = in.tensor.shape();
  check.that(o[0] == i[0], "as many images out as in", fmt::format("{} and {}", o[0], i[0]));
  check_slid(check, "output height", i[1], how.pad_top + how.pad_bottom, how.kernel_h, how.stride, o[1]);
  check_slid(check, "output width", i[2], how.pad_left + how.pad_right, how.kernel_w, how.stride, o[2]);
  return {o[0], i[1], i[2], i[3], o[1], o[2], o[3]};
}

ConvExtents check_conv_shapes(const Check& check, Named out, Named in, Named weight, const Conv& how) {
  const ConvExtents e = check_images(check, out, in, how);
  const Shape& w = weight.tensor.shape();
  check.that(
      w == Shape({how.kernel_h, how.kernel_w, e.in, e.out}),
      fmt::format("a weight [kernel, kernel, in, out] of [{}, {}, {}, {}]", how.kernel_h, how.kernel_w, e.in, e.out),
      w.text());
  return e;
}

ChannelExtents check_channels(const Check& check, Named x, Named sums, std::int64_t each) {
  check.real({x});
  check.type(DType::f64, {sums});
  const Extents e = check.matrix(x);
  const std::int64_t of_group = e.columns * each;
  check.that(e.columns > 0 && sums.tensor.count() > 0 && sums.tensor.count() % of_group == 0,
             fmt::format("{} sums for each channel of each group", each), sums.tensor.shape().text());
  const std::int64_t groups = sums.tensor.count() / of_group;
  check.that(e.rows % groups == 0, fmt::format("rows in {} equal groups", groups), e.rows);
  return {groups, e.rows / groups, e.columns};
}

void check_parameter(const Check& check, Named p, DType type, std::int64_t channels) {
  check.type(type, {p});
  check.count(p, channels, "the channels of x");
}

void check_epsilon(const Check& check, const BatchNorm& how) {
  check.that(how.epsilon >= 0, "an epsilon of at least 0", how.epsilon);
}

}  // namespace

ConvExtents check_conv(const Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Conv& how) {
  const Check check("conv", stream);
  check.real({{"x", x}, {"w", w}, {"out", out}});
  check.apart({"out", out}, {{"x", x}, {"w", w}});
  return check_conv_shapes(check, {"out", out}, {"x", x}, {"w", w}, how);
}

ConvExtents check_conv_backward_input(const Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                      const Conv& how, Write) {
  const Check check("conv_backward_input", stream);
  check.real({{"dy", dy}, {"w", w}, {"dx", dx}});
  check.apart({"dx", dx}, {{"dy", dy}, {"w", w}});
  return check_conv_shapes(check, {"dy", dy}, {"dx", dx}, {"w", w}, how);
}

ConvExtents check_conv_backward_weight(const Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x,
                                       const Conv& how, Write) {
  const Check check("conv_backward_weight", stream);
  check.real({{"dy", dy}, {"x", x}});
  check.maybe_wide({"dw", dw}, dy.dtype());
  check.apart({"dw", dw}, {{"dy", dy}, {"x", x}});
  return check_conv_shapes(check, {"dy", dy}, {"x", x}, {"dw", dw}, how);
}

ChannelExtents check_channel_sums(const Stream& stream, const Tensor& sums, const Tensor& x) {
  const Check check("channel_sums", stream);
  check.apart({"sums", sums}, {{"x", x}});
  return check_channels(check, {"x", x}, {"sums", sums}, 3);
}

ChannelExtents check_batch_norm(const Stream& stream, const Tensor& out, const Tensor& x, const Tensor& sums,
                                const Tensor& gain, const Tensor& bias, const BatchNorm& how) {
  const Check check("batch_norm", stream);
  check.alike({{"out", out}, {"x", x}});
  const ChannelExtents e = check_channels(check, {"x", x}, {"sums", sums}, 3);
  for (const Named& p : {Named{"gain", gain}, Named{"bias", bias}}) check_parameter(check, p, x.dtype(), e.channels);
  check_epsilon(check, how);
  check.apart({"out", out}, {{"x", x}, {"sums", sums}, {"gain", gain}, {"bias", bias}});
  return e;
}

namespace {
ChannelExtents check_backward(const Check& check, const Tensor& dy, const Tensor& x, const Tensor& out,
                              const Tensor& sums, const Tensor& backward_sums, const BatchNorm& how) {
  check.alike({{"dy", dy}, {"x", x}});
  if (how.relu) check.alike({{"out", out}, {"x", x}});
  const ChannelExtents e = check_channels(check, {"x", x}, {"sums", sums}, 3);
  check.type(DType::f64, {{"backward_sums", backward_sums}});
  check.count({"backward_sums", backward_sums}, e.groups * e.channels * 2, "two for each channel of each group");
  check_epsilon(check, how);
  return e;
}
}  // namespace

ChannelExtents check_batch_norm_backward_sums(const Stream& stream, const Tensor& backward_sums, const Tensor& dy,
                                              const Tensor& x, const Tensor& out, const Tensor& sums,
                                              const BatchNorm& how) {
  const Check check("batch_norm_backward_sums", stream);
  check.apart({"backward_sums", backward_sums}, {{"dy", dy}, {"x", x}, {"out", out}, {"sums", sums}});
  return check_backward(check, dy, x, out, sums, backward_sums, how);
}

ChannelExtents check_batch_norm_backward(const Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                         const Tensor& out, const Tensor& sums, const Tensor& backward_sums,
                                         const Tensor& gain, const BatchNorm& how, Write) {
  const Check check("batch_norm_backward", stream);
  check.alike({{"dx", dx}, {"x", x}});
  const ChannelExtents e = check_backward(check, dy, x, out, sums, backward_sums, how);
  check_parameter(check, {"gain", gain}, x.dtype(), e.channels);
  check.apart_or_same({"dx", dx}, {{"dy", dy}});
  check.apart({"dx", dx}, {{"x", x}, {"out", out}, {"sums", sums}, {"backward_sums", backward_sums}, {"gain", gain}});
  return e;
}

ChannelExtents check_batch_norm_backward_parameters(const Stream& stream, const Tensor& dgain, const Tensor& dbias,
                                                    const Tensor& backward_sums) {
  const Check check("batch_norm_backward_parameters", stream);
  const Tensor& one = dgain ? dgain : dbias;
  check.real({{dgain ? "dgain" : "dbias", one}});
  if (dgain && dbias) check.alike({{"dgain", dgain}, {"dbias", dbias}});
  check.type(DType::f64, {{"backward_sums", backward_sums}});
  const std::int64_t channels = one.count();
  check.that(channels > 0 && backward_sums.count() > 0 && backward_sums.count() % (2 * channels) == 0,
             "two sums for each channel of each group", backward_sums.shape().text());
  check.apart({"dgain", dgain}, {{"dbias", dbias}, {"backward_sums", backward_sums}});
  check.apart({"dbias", dbias}, {{"backward_sums", backward_sums}});
  return {backward_sums.count() / (2 * channels), 0, channels};
}

ChannelExtents check_update_averages(const Stream& stream, const Tensor& averages, const Tensor& sums,
                                     double momentum) {
  const Check check("update_averages", stream);
  check.type(DType::f64, {{"averages", averages}, {"sums", sums}});
  check.that(
      averages.count() > 0 && averages.count() % 3 == 0 && sums.count() > 0 && sums.count() % averages.count() == 0,
      "three numbers for each channel, and for each group as many sums",
      averages.shape().text() + " and " + sums.shape().text());
  check.that(momentum >= 0 && momentum < 1, "a momentum in [0, 1)", momentum);
  check.apart({"averages", averages}, {{"sums", sums}});
  return {sums.count() / averages.count(), 0, averages.count() / 3};
}

void check_sums_of_averages(const Stream& stream, const Tensor& sums, const Tensor& averages) {
  const Check check("sums_of_averages", stream);
  check.type(DType::f64, {{"sums", sums}, {"averages", averages}});
  check.count({"averages", averages}, sums.count(), "as many as sums");
  check.that(sums.count() % 3 == 0, "three numbers for each channel", sums.shape().text());
  check.apart({"sums", sums}, {{"averages", averages}});
}

void check_add_relu(const Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) {
  const Check check("add_relu", stream);
  check.alike({{"out", out}, {"a", a}, {"b", b}});
  check.apart_or_same({"out", out}, {{"a", a}, {"b", b}});
}

void check_relu_backward(const Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& out) {
  const Check check("relu_backward", stream);
  check.alike({{"dx", dx}, {"dy", dy}, {"out", out}});
  check.apart_or_same({"dx", dx}, {{"dy", dy}, {"out", out}});
}

namespace {
void check_pool_channels(const Check& check, const ConvExtents& e) {
  check.that(e.in == e.out, "as many channels out as in", fmt::format("{} and {}", e.out, e.in));
}
}  // namespace

ConvExtents check_max_pool(const Stream& stream, const Tensor& out, const Tensor& x, const Conv& how) {
  const Check check("max_pool", stream);
  check.real({{"x", x}, {"out", out}});
  check.apart({"out", out}, {{"x", x}});
  const ConvExtents e = check_images(check, {"out", out}, {"x", x}, how);
  check_pool_channels(check, e);
  return e;
}

ConvExtents check_max_pool_backward(const Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                    const Conv& how) {
  const Check check("max_pool_backward", stream);
  check.alike({{"dx", dx}, {"x", x}});
  check.type(x.dtype(), {{"dy", dy}});
  check.apart({"dx", dx}, {{"dy", dy}, {"x", x}});
  const ConvExtents e = check_images(check, {"dy", dy}, {"x", x}, how);
  check_pool_channels(check, e);
  return e;
}

namespace {
PixelExtents check_pixels(const Check& check, Named whole, Named sums) {
  check.real({whole, sums});
  check.apart(sums, {whole});
  const Shape& w = whole.tensor.shape();
  check.that(w.rank() == 4, fmt::format("\"{}\" of [rows, height, width, channels]", whole.name), w.text());
  check.count(sums, w[0] * w[3], "one for each image and channel");
  return {w[0], w[1] * w[2], w[3]};
}
}  // namespace

PixelExtents check_sum_pixels(const Stream& stream, const Tensor& out, const Tensor& x, double) {
  return check_pixels(Check("sum_pixels", stream), {"x", x}, {"out", out});
}

PixelExtents check_spread_pixels(const Stream& stream, const Tensor& dx, const Tensor& dy, double) {
  return check_pixels(Check("spread_pixels", stream), {"dx", dx}, {"dy", dy});
}

}  // namespace quadrille
