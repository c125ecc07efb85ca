// SPDX-License-Identifier: Apache-2.0
// Large cases of the ops of images: enough for several blocks, runs of rows and threads.
#include "tests/kernels/cpu_cases.h"

#include <fmt/core.h>

namespace quadrille {

namespace {

void add_convs(std::vector<LargeCase>& cases) {
  struct Sizes {
    std::int64_t rows, extent, in, out, kernel, stride;
    std::int64_t made() const { return (extent - 1) / stride + 1; }
    Conv how() const {
      const std::int64_t pad = kernel / 2;
      return {kernel, kernel, stride, pad, pad, pad, pad};
    }
    Shape x() const { return {rows, extent, extent, in}; }
    Shape y() const { return {rows, made(), made(), out}; }
    Shape w() const { return {kernel, kernel, in, out}; }
  };
  for (const Sizes s : {Sizes{3, 40, 19, 17, 3, 1},
                        {5, 33, 8, 24, 3, 2},
                        {2, 45, 3, 16, 7, 2},
                        {4, 21, 40, 33, 1, 1},
                        {3, 22, 24, 48, 1, 2},
                        {1, 70, 16, 16, 3, 1}}) {
    const std::string name = fmt::format("{} images of {} x {}, {} to {} channels, kernel {}, stride {}", s.rows,
                                         s.extent, s.extent, s.in, s.out, s.kernel, s.stride);
    cases.push_back({"conv", "conv of " + name, [s](Bench& b) {
                       const Tensor x = b.normal(s.x()), w = b.normal(s.w()), out = b.unset(s.y());
                       return Prepared{[=, &b] { return b.ops().conv(b.stream(), out, x, w, s.how()); }, {out}};
                     }});
    cases.push_back(
        {"conv_backward_input", "input gradient of " + name, [s](Bench& b) {
           const Tensor dy = b.normal(s.y()), w = b.normal(s.w()), dx = b.unset(s.x());
           return Prepared{
               [=, &b] { return b.ops().conv_backward_input(b.stream(), dx, dy, w, s.how(), Write::replace); }, {dx}};
         }});
    cases.push_back(
        {"conv_backward_weight", "weight gradient of " + name, [s](Bench& b) {
           const Tensor dy = b.normal(s.y()), x = b.normal(s.x()), dw = b.unset_sum(s.w());
           return Prepared{
               [=, &b] { return b.ops().conv_backward_weight(b.stream(), dw, dy, x, s.how(), Write::replace); }, {dw}};
         }});
    if (s.kernel == 1) continue;
    cases.push_back({"max_pool", "max pool of " + name, [s](Bench& b) {
                       const Tensor x = b.normal(s.x()), out = b.unset({s.rows, s.made(), s.made(), s.in});
                       return Prepared{[=, &b] { return b.ops().max_pool(b.stream(), out, x, s.how()); }, {out}, 1e-7};
                     }});
    cases.push_back(
        {"max_pool_backward", "backward of max pool of " + name, [s](Bench& b) {
           const Tensor x = b.normal(s.x()), dy = b.normal({s.rows, s.made(), s.made(), s.in}), dx = b.unset(s.x());
           return Prepared{[=, &b] { return b.ops().max_pool_backward(b.stream(), dx, dy, x, s.how()); }, {dx}, 1e-6};
         }});
  }
}

void add_batch_norms(std::vector<LargeCase>& cases) {
  constexpr std::int64_t kRows = 3000, kChannels = 37;
  const Shape shape{kRows, kChannels};
  const auto sums_of = [](Bench& b, const Tensor& x) {
    const Tensor sums = b.unset({kChannels, 3}, DType::f64);
    b.ops().channel_sums(b.stream(), sums, x);
    return sums;
  };
  cases.push_back({"channel_sums", "channel_sums", [=](Bench& b) {
                     const Tensor x = b.normal(shape, 1, 1), sums = b.unset({2, kChannels, 3}, DType::f64);
                     return Prepared{[=, &b] { return b.ops().channel_sums(b.stream(), sums, x); }, {sums}, 1e-7};
                   }});
  cases.push_back({"batch_norm", "batch_norm", [=](Bench& b) {
                     const Tensor x = b.normal(shape), gain = b.normal({kChannels}), bias = b.normal({kChannels}),
                                  out = b.unset(shape), sums = sums_of(b, x);
                     return Prepared{[=, &b] {
                                       return b.ops().batch_norm(b.stream(), out, x, sums, gain, bias, {1e-5, true});
                                     },
                                     {out}};
                   }});
  cases.push_back(
      {"batch_norm_backward", "batch_norm_backward", [=](Bench& b) {
         const Tensor x = b.normal(shape), dy = b.normal(shape), out = b.normal(shape), gain = b.normal({kChannels}),
                      dx = b.unset(shape), sums = sums_of(b, x), back = b.unset({kChannels, 2}, DType::f64);
         return Prepared{
             [=, &b] {
               Cost cost = b.ops().batch_norm_backward_sums(b.stream(), back, dy, x, out, sums, {1e-5, true});
               cost += b.ops().batch_norm_backward(b.stream(), dx, dy, x, out, sums, back, gain, {1e-5, true},
                                                   Write::replace);
               return cost;
             },
             {back, dx}};
       }});
  cases.push_back({"add_relu", "add_relu", [=](Bench& b) {
                     const Tensor x = b.normal(shape), y = b.normal(shape), out = b.unset(shape);
                     return Prepared{[=, &b] { return b.ops().add_relu(b.stream(), out, x, y); }, {out}, 1e-7};
                   }});
  cases.push_back({"relu_backward", "relu_backward", [=](Bench& b) {
                     const Tensor out = b.normal(shape), dy = b.normal(shape), dx = b.unset(shape);
                     return Prepared{[=, &b] { return b.ops().relu_backward(b.stream(), dx, dy, out); }, {dx}, 1e-7};
                   }});
  const Shape images{7, 30, 20, kChannels};
  cases.push_back({"sum_pixels", "sum_pixels", [=](Bench& b) {
                     const Tensor x = b.normal(images, 1, 1), out = b.unset({7, kChannels});
                     return Prepared{[=, &b] { return b.ops().sum_pixels(b.stream(), out, x, 0.01); }, {out}, 1e-6};
                   }});
  cases.push_back({"spread_pixels", "spread_pixels", [=](Bench& b) {
                     const Tensor dy = b.normal({7, kChannels}), dx = b.unset(images);
                     return Prepared{[=, &b] { return b.ops().spread_pixels(b.stream(), dx, dy, 0.01); }, {dx}, 1e-6};
                   }});
}

}  // namespace

void add_large_image_cases(std::vector<LargeCase>& cases) {
  const std::size_t first = cases.size();
  add_convs(cases), add_batch_norms(cases);
  for (std::size_t k = first; k < cases.size(); ++k) cases[k].images = true;
}

}  // namespace quadrille
