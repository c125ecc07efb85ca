// SPDX-License-Identifier: Apache-2.0
// Batch norm, ReLU and sums over pixels of the reference. Formulas: ops.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/ops.h"

namespace quadrille {

namespace {

struct ChannelFacts {
  double mean = 0, variance = 0, inverse_deviation = 0, count = 0;
  double normalised(double x) const { return (x - mean) * inverse_deviation; }
};

ChannelFacts facts_of(const double* sums, std::int64_t channel, double epsilon) {
  const double *s = sums + 3 * channel, n = s[2];
  if (n == 0) return {};
  const double mean = s[0] / n, variance = std::max(0.0, s[1] / n - mean * mean);  // rounding may take it below 0
  return {mean, variance, 1 / std::sqrt(variance + epsilon), n};
}

// visit(element, group and channel as one index, channel)
template <class Visit>
void for_each_element(const ChannelExtents& e, Visit&& visit) {
  for (std::int64_t g = 0; g < e.groups; ++g)
    for (std::int64_t i = 0; i < e.rows; ++i)
      for (std::int64_t c = 0; c < e.channels; ++c) visit((g * e.rows + i) * e.channels + c, g * e.channels + c, c);
}

std::vector<ChannelFacts> all_facts(const ChannelExtents& e, const Tensor& sums, const BatchNorm& how) {
  std::vector<ChannelFacts> facts;
  for (std::int64_t k = 0; k < e.groups * e.channels; ++k)
    facts.push_back(facts_of(numbers<double>(sums), k, how.epsilon));
  return facts;
}
const ChannelFacts& of(const std::vector<ChannelFacts>& facts, std::int64_t k) {
  return facts[static_cast<std::size_t>(k)];
}

// What passes back through the ReLU, if there is one.
template <class T>
double through(const Tensor& dy, const Tensor& out, bool relu, std::int64_t at) {
  return relu && !(numbers<T>(out)[at] > 0) ? 0.0 : static_cast<double>(numbers<T>(dy)[at]);
}

}  // namespace

Cost ReferenceOps::channel_sums(Stream& stream, const Tensor& sums, const Tensor& x) const {
  const ChannelExtents e = check_channel_sums(stream, sums, x);
  with_type_of(x, [&]<class T>(T) {
    double* to = numbers<double>(sums);
    for (std::int64_t k = 0; k < e.groups * e.channels; ++k)
      to[3 * k] = to[3 * k + 1] = 0, to[3 * k + 2] = static_cast<double>(e.rows);
    for_each_element(e, [&](std::int64_t at, std::int64_t k, std::int64_t) {
      const auto v = static_cast<double>(numbers<T>(x)[at]);
      to[3 * k] += v;
      to[3 * k + 1] += v * v;
    });
  });
  return bill_channel_sums(sums, x);
}

Cost ReferenceOps::batch_norm(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& sums,
                              const Tensor& gain, const Tensor& bias, const BatchNorm& how) const {
  const ChannelExtents e = check_batch_norm(stream, out, x, sums, gain, bias, how);
  with_type_of(x, [&]<class T>(T) {
    const auto facts = all_facts(e, sums, how);
    for_each_element(e, [&](std::int64_t at, std::int64_t k, std::int64_t c) {
      const double v = of(facts, k).normalised(numbers<T>(x)[at]) * numbers<T>(gain)[c] + numbers<T>(bias)[c];
      numbers<T>(out)[at] = static_cast<T>(how.relu ? std::max(v, 0.0) : v);
    });
  });
  return bill_batch_norm(out, x, sums, gain, bias);
}

Cost ReferenceOps::batch_norm_backward_sums(Stream& stream, const Tensor& backward_sums, const Tensor& dy,
                                            const Tensor& x, const Tensor& out, const Tensor& sums,
                                            const BatchNorm& how) const {
  const ChannelExtents e = check_batch_norm_backward_sums(stream, backward_sums, dy, x, out, sums, how);
  with_type_of(x, [&]<class T>(T) {
    const auto facts = all_facts(e, sums, how);
    double* to = numbers<double>(backward_sums);
    std::fill_n(to, backward_sums.count(), 0.0);
    for_each_element(e, [&](std::int64_t at, std::int64_t k, std::int64_t) {
      const double g = through<T>(dy, out, how.relu, at);
      to[2 * k] += g;
      to[2 * k + 1] += g * of(facts, k).normalised(numbers<T>(x)[at]);
    });
  });
  return bill_batch_norm_backward_sums(backward_sums, dy, x, out, sums);
}

// dx = gain / deviation · (g - mean(g) - x̂·mean(g·x̂)), means over all that share the statistics.
Cost ReferenceOps::batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                       const Tensor& out, const Tensor& sums, const Tensor& backward_sums,
                                       const Tensor& gain, const BatchNorm& how, Write write) const {
  const ChannelExtents e = check_batch_norm_backward(stream, dx, dy, x, out, sums, backward_sums, gain, how, write);
  with_type_of(x, [&]<class T>(T) {
    const auto facts = all_facts(e, sums, how);
    const double* back = numbers<double>(backward_sums);
    for_each_element(e, [&](std::int64_t at, std::int64_t k, std::int64_t c) {
      const ChannelFacts& f = of(facts, k);
      const double g = through<T>(dy, out, how.relu, at), shift = back[2 * k] / f.count,
                   slope = back[2 * k + 1] / f.count;
      const double d = static_cast<double>(numbers<T>(gain)[c]) * f.inverse_deviation *
                       (g - shift - f.normalised(numbers<T>(x)[at]) * slope);
      T& to = numbers<T>(dx)[at];
      to = static_cast<T>(write == Write::accumulate ? to + d : d);
    });
  });
  return bill_batch_norm_backward(dx, dy, x, out, sums, backward_sums, gain, write);
}

Cost ReferenceOps::batch_norm_backward_parameters(Stream& stream, const Tensor& dgain, const Tensor& dbias,
                                                  const Tensor& backward_sums) const {
  const ChannelExtents e = check_batch_norm_backward_parameters(stream, dgain, dbias, backward_sums);
  with_type_of(dgain ? dgain : dbias, [&]<class T>(T) {
    const double* from = numbers<double>(backward_sums);
    for (std::int64_t c = 0; c < e.channels; ++c) {
      double sums[2] = {0, 0};
      for (std::int64_t g = 0; g < e.groups; ++g)
        for (int i : {0, 1}) sums[i] += from[2 * (g * e.channels + c) + i];
      if (dgain) numbers<T>(dgain)[c] = static_cast<T>(numbers<T>(dgain)[c] + sums[1]);
      if (dbias) numbers<T>(dbias)[c] = static_cast<T>(numbers<T>(dbias)[c] + sums[0]);
    }
  });
  return bill_batch_norm_backward_parameters(dgain, dbias, backward_sums);
}

Cost ReferenceOps::update_averages(Stream& stream, const Tensor& averages, const Tensor& sums, double momentum) const {
  const ChannelExtents e = check_update_averages(stream, averages, sums, momentum);
  double* to = numbers<double>(averages);
  for (std::int64_t c = 0; c < e.channels; ++c) {
    double now[2] = {0, 0};
    for (std::int64_t g = 0; g < e.groups; ++g) {
      const ChannelFacts f = facts_of(numbers<double>(sums), g * e.channels + c, 0);
      now[0] += f.mean / static_cast<double>(e.groups);
      now[1] += f.variance * (f.count > 1 ? f.count / (f.count - 1) : 1) / static_cast<double>(e.groups);
    }
    for (int i : {0, 1}) to[3 * c + i] = momentum * to[3 * c + i] + (1 - momentum) * now[i];
  }
  return bill_update_averages(averages, sums);
}

Cost ReferenceOps::sums_of_averages(Stream& stream, const Tensor& sums, const Tensor& averages) const {
  check_sums_of_averages(stream, sums, averages);
  const double* from = numbers<double>(averages);
  double* to = numbers<double>(sums);
  for (std::int64_t k = 0; k < sums.count(); k += 3) {
    const double mean = from[k] / from[k + 2], variance = from[k + 1] / from[k + 2];
    to[k] = mean, to[k + 1] = variance + mean * mean, to[k + 2] = 1;
  }
  return bill_sums_of_averages(sums, averages);
}

Cost ReferenceOps::add_relu(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) const {
  check_add_relu(stream, out, a, b);
  with_type_of(out, [&]<class T>(T) {
    for (std::int64_t i = 0; i < out.count(); ++i)
      numbers<T>(out)[i] = std::max(numbers<T>(a)[i] + numbers<T>(b)[i], T{0});
  });
  return bill_add_relu(out, a, b);
}

Cost ReferenceOps::relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& out) const {
  check_relu_backward(stream, dx, dy, out);
  with_type_of(out, [&]<class T>(T) {
    for (std::int64_t i = 0; i < out.count(); ++i)
      numbers<T>(dx)[i] = numbers<T>(out)[i] > 0 ? numbers<T>(dy)[i] : T{0};
  });
  return bill_relu_backward(dx, dy, out);
}

Cost ReferenceOps::sum_pixels(Stream& stream, const Tensor& out, const Tensor& x, double scale) const {
  const PixelExtents e = check_sum_pixels(stream, out, x, scale);
  with_type_of(x, [&]<class T>(T) {
    for (std::int64_t b = 0; b < e.rows; ++b)
      for (std::int64_t c = 0; c < e.channels; ++c) {
        double sum = 0;
        for (std::int64_t p = 0; p < e.pixels; ++p) sum += numbers<T>(x)[(b * e.pixels + p) * e.channels + c];
        numbers<T>(out)[b * e.channels + c] = static_cast<T>(sum * scale);
      }
  });
  return bill_sum_pixels(out, x);
}

Cost ReferenceOps::spread_pixels(Stream& stream, const Tensor& dx, const Tensor& dy, double scale) const {
  const PixelExtents e = check_spread_pixels(stream, dx, dy, scale);
  with_type_of(dx, [&]<class T>(T) {
    for (std::int64_t b = 0; b < e.rows; ++b)
      for (std::int64_t p = 0; p < e.pixels; ++p)
        for (std::int64_t c = 0; c < e.channels; ++c)
          numbers<T>(dx)[(b * e.pixels + p) * e.channels + c] =
              static_cast<T>(numbers<T>(dy)[b * e.channels + c] * scale);
  });
  return bill_spread_pixels(dx, dy);
}

}  // namespace quadrille
