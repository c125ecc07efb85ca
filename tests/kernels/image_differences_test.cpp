// SPDX-License-Identifier: Apache-2.0
// The ops of images of the reference against central differences, in f64; see finite_differences_test.cpp.
#include <gtest/gtest.h>

#include "tests/kernels/differences.h"

namespace quadrille {
namespace {

void check_conv(const Shape& image, std::int64_t made, const Shape& result, const Conv& how) {
  ReferenceBench b(21);
  const Shape weight{how.kernel_h, how.kernel_w, image[3], made};
  const Tensor x = b->normal(image), w = b->normal(weight), y = b->unset(result), dy = b->normal(result),
               dx = b->unset(image), dw = b->unset(weight);
  const auto loss = [&] {
    b->ops().conv(b->stream(), y, x, w, how);
    return weighed(*b, y, dy);
  };
  b->ops().conv_backward_input(b->stream(), dx, dy, w, how, Write::replace);
  b->ops().conv_backward_weight(b->stream(), dw, dy, x, how, Write::replace);
  expect_gradient("x", x, b->read(dx), loss);
  expect_gradient("w", w, b->read(dw), loss);
}

TEST(FiniteDifferences, Conv3x3) { check_conv({2, 4, 5, 2}, 3, {2, 4, 5, 3}, {3, 3, 1, 1, 1, 1, 1}); }
TEST(FiniteDifferences, Conv3x3Stride2) { check_conv({2, 6, 5, 2}, 3, {2, 3, 3, 3}, {3, 3, 2, 1, 1, 1, 1}); }
TEST(FiniteDifferences, Conv1x1Stride2) { check_conv({2, 5, 4, 2}, 3, {2, 3, 2, 3}, {1, 1, 2, 0, 0, 0, 0}); }
TEST(FiniteDifferences, Conv7x7OfAPartOfTheHeight) { check_conv({1, 9, 8, 2}, 2, {1, 3, 4, 2}, {7, 7, 2, 2, 0, 3, 3}); }

// Rows of several ranks, which share their statistics.
void check_batch_norm(std::int64_t groups, const std::vector<std::int64_t>& rows, bool relu) {
  ReferenceBench b(22);
  constexpr std::int64_t kChannels = 3;
  const BatchNorm how{1e-2, relu};
  struct Part {
    Tensor x, y, dy;
  };
  std::vector<Part> parts;
  for (const std::int64_t n : rows) {
    const Shape shape{groups * n, kChannels};
    parts.push_back({b->normal(shape, 1, 0.3), b->unset(shape), b->normal(shape)});
  }
  const Tensor gain = b->normal({kChannels}), bias = b->normal({kChannels});
  const auto summed = [&](std::int64_t each, const auto& sums_of) {
    Numbers total(static_cast<std::size_t>(groups * kChannels * each), 0.0);
    for (const Part& p : parts) {
      const Tensor sums = b->unset({groups, kChannels, each}, DType::f64);
      sums_of(p, sums);
      const Numbers mine = b->read(sums);
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += mine[i];
    }
    return b->put_wide({groups, kChannels, each}, total);
  };
  const auto forward_sums = [&] {
    return summed(3, [&](const Part& p, const Tensor& sums) { b->ops().channel_sums(b->stream(), sums, p.x); });
  };
  const auto loss = [&] {
    const Tensor sums = forward_sums();
    double total = 0;
    for (const Part& p : parts) {
      b->ops().batch_norm(b->stream(), p.y, p.x, sums, gain, bias, how);
      total += weighed(*b, p.y, p.dy);
    }
    return total;
  };
  loss();
  const Tensor forward = forward_sums(), dgain = b->put({kChannels}, Numbers(kChannels, 0.0)),
               dbias = b->put({kChannels}, Numbers(kChannels, 0.0));
  const Tensor backward = summed(2, [&](const Part& p, const Tensor& sums) {
    b->ops().batch_norm_backward_sums(b->stream(), sums, p.dy, p.x, p.y, forward, how);
    b->ops().batch_norm_backward_parameters(b->stream(), dgain, dbias, sums);
  });
  std::vector<Numbers> gradients;
  for (const Part& p : parts) {
    const Tensor dx = b->unset(p.x.shape());
    b->ops().batch_norm_backward(b->stream(), dx, p.dy, p.x, p.y, forward, backward, gain, how, Write::replace);
    gradients.push_back(b->read(dx));
  }
  for (std::size_t i = 0; i < parts.size(); ++i) expect_gradient("x", parts[i].x, gradients[i], loss);
  expect_gradient("gain", gain, b->read(dgain), loss);
  expect_gradient("bias", bias, b->read(dbias), loss);
}

TEST(FiniteDifferences, BatchNorm) { check_batch_norm(1, {7}, false); }
TEST(FiniteDifferences, BatchNormWithRelu) { check_batch_norm(1, {9}, true); }
TEST(FiniteDifferences, BatchNormOfUnequalRanks) { check_batch_norm(1, {5, 2, 4}, true); }
TEST(FiniteDifferences, BatchNormOfGroups) { check_batch_norm(2, {4, 3}, false); }

TEST(FiniteDifferences, AddRelu) {
  ReferenceBench b(23);
  const Tensor x = b->normal({40}), z = b->normal({40}), y = b->unset({40}), dy = b->normal({40}), dx = b->unset({40});
  const auto loss = [&] {
    b->ops().add_relu(b->stream(), y, x, z);
    return weighed(*b, y, dy);
  };
  loss();
  b->ops().relu_backward(b->stream(), dx, dy, y);
  expect_gradient("a", x, b->read(dx), loss);
  expect_gradient("b", z, b->read(dx), loss);
}

TEST(FiniteDifferences, MaxPool) {
  ReferenceBench b(24);
  const Conv how{3, 3, 2, 1, 1, 1, 1};
  const Tensor x = b->normal({2, 5, 6, 3}), y = b->unset({2, 3, 3, 3}), dy = b->normal({2, 3, 3, 3}),
               dx = b->unset({2, 5, 6, 3});
  b->ops().max_pool_backward(b->stream(), dx, dy, x, how);
  expect_gradient("x", x, b->read(dx), [&] {
    b->ops().max_pool(b->stream(), y, x, how);
    return weighed(*b, y, dy);
  });
}

TEST(FiniteDifferences, SumPixels) {
  ReferenceBench b(25);
  const Tensor x = b->normal({2, 3, 4, 3}), y = b->unset({2, 3}), dy = b->normal({2, 3}), dx = b->unset({2, 3, 4, 3});
  b->ops().spread_pixels(b->stream(), dx, dy, 0.25);
  expect_gradient("x", x, b->read(dx), [&] {
    b->ops().sum_pixels(b->stream(), y, x, 0.25);
    return weighed(*b, y, dy);
  });
}

}  // namespace
}  // namespace quadrille
