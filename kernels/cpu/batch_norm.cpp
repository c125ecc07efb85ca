// SPDX-License-Identifier: Apache-2.0
// Batch norm in halves around the sums of its channels (ops.h), with ReLU in the same pass: then it costs nothing. Sums
// are made over runs of rows whose number does not depend on the threads, and added up in order.
#include <algorithm>
#include <cmath>

#include "core/slice.h"
#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"

namespace quadrille {

namespace {

constexpr std::int64_t kRuns = 32, kLeastRows = 64;

struct Facts {
  double mean = 0, variance = 0, scale = 0, count = 0;
};
Facts facts_of(const double* sums, std::int64_t channel, double epsilon) noexcept {
  const double *s = sums + 3 * channel, n = s[2];
  if (n == 0) return {};
  const double mean = s[0] / n, variance = std::max(0.0, s[1] / n - mean * mean);  // rounding may take it below 0
  return {mean, variance, 1 / std::sqrt(variance + epsilon), n};
}

// `values` floats for each channel, where loops look them up; kept apart from what threads add up.
struct ChannelValues {
  static std::int64_t stride_of(std::int64_t channels) { return (channels + 15) / 16 * 16; }
  ChannelValues(std::int64_t channels, std::int64_t values, std::int64_t doubles)
      : stride(stride_of(channels)), data(scratch_of_rank(1, stride * values + 2 * doubles)) {
    sums = reinterpret_cast<double*>(data + stride * values);
  }
  float* operator[](std::int64_t value) const { return data + value * stride; }
  std::int64_t stride;
  float* data;
  double* sums;
};

std::int64_t runs_of(std::int64_t rows) { return std::clamp(rows / kLeastRows, std::int64_t{1}, kRuns); }

// Two sums of each channel of one group: add(first, second, rows) for runs of rows, then everything in order.
template <class Add>
void add_up(const ChannelExtents& e, double* partial, double* to, std::int64_t width, Add&& add) {
  const std::int64_t runs = runs_of(e.rows), n = e.channels;
  parallel_items(runs, e.rows * n, [&](std::int64_t run, int) noexcept {
    double* mine = partial + run * 2 * n;
    std::fill_n(mine, 2 * n, 0.0);
    add(mine, mine + n, part({0, e.rows}, runs, run));
  });
  for (std::int64_t c = 0; c < n; ++c) {
    double sums[2] = {0, 0};
    for (std::int64_t run = 0; run < runs; ++run)
      for (int i : {0, 1}) sums[i] += partial[run * 2 * n + i * n + c];
    to[width * c] = sums[0], to[width * c + 1] = sums[1];
  }
}

std::int64_t partial_doubles(const ChannelExtents& e) { return runs_of(e.rows) * 2 * e.channels; }

}  // namespace

std::int64_t scratch_of_channels(std::int64_t channels) {
  const std::int64_t stride = ChannelValues::stride_of(channels);
  return std::max(4 * stride, stride + 2 * kRuns * 2 * channels);
}

Cost CpuOps::channel_sums(Stream& stream, const Tensor& sums, const Tensor& x) const {
  const ChannelExtents e = check_channel_sums(stream, sums, x);
  const ChannelValues room(e.channels, 0, partial_doubles(e));
  const std::int64_t n = e.channels;
  for (std::int64_t g = 0; g < e.groups; ++g) {
    double* to = doubles(sums) + 3 * g * n;
    const float* from = floats(x) + g * e.rows * n;
    add_up(e, room.sums, to, 3, [&](double* sum, double* squares, Slice rows) noexcept {
      channel_loops().sums(sum, squares, from + rows.first * n, rows.count, n);
    });
    for (std::int64_t c = 0; c < n; ++c) to[3 * c + 2] = static_cast<double>(e.rows);
  }
  return bill_channel_sums(sums, x);
}

Cost CpuOps::batch_norm(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
                        const Tensor& bias, const BatchNorm& how) const {
  const ChannelExtents e = check_batch_norm(stream, out, x, sums, gain, bias, how);
  const ChannelValues values(e.channels, 2, 0);
  const std::int64_t n = e.channels;
  for (std::int64_t g = 0; g < e.groups; ++g) {
    for (std::int64_t c = 0; c < n; ++c) {
      const Facts f = facts_of(doubles(sums), g * n + c, how.epsilon);
      values[0][c] = static_cast<float>(f.mean);
      values[1][c] = static_cast<float>(f.scale * static_cast<double>(floats(gain)[c]));
    }
    parallel_parts(e.rows, e.rows * n, 1,
                   [&, to = floats(out) + g * e.rows * n, from = floats(x) + g * e.rows * n,
                    added = floats(bias)](Slice s) noexcept {
                     channel_loops().norm(to + s.first * n, from + s.first * n, values[0], values[1], added, how.relu,
                                          s.count, n);
                   });
  }
  return bill_batch_norm(out, x, sums, gain, bias);
}

Cost CpuOps::batch_norm_backward_sums(Stream& stream, const Tensor& backward_sums, const Tensor& dy, const Tensor& x,
                                      const Tensor& out, const Tensor& sums, const BatchNorm& how) const {
  const ChannelExtents e = check_batch_norm_backward_sums(stream, backward_sums, dy, x, out, sums, how);
  const ChannelValues room(e.channels, 1, partial_doubles(e));
  const std::int64_t n = e.channels;
  for (std::int64_t g = 0; g < e.groups; ++g) {
    double* to = doubles(backward_sums) + 2 * g * n;
    const std::int64_t first = g * e.rows * n;
    for (std::int64_t c = 0; c < n; ++c)
      room[0][c] = static_cast<float>(facts_of(doubles(sums), g * n + c, how.epsilon).mean);
    add_up(e, room.sums, to, 2,
           [&, d = floats(dy) + first, from = floats(x) + first, made = how.relu ? floats(out) + first : nullptr](
               double* sum, double* products, Slice rows) noexcept {
             const std::int64_t at = rows.first * n;
             channel_loops().backward_sums(sum, products, d + at, from + at, made ? made + at : nullptr, room[0],
                                           rows.count, n);
           });
    for (std::int64_t c = 0; c < n; ++c) to[2 * c + 1] *= facts_of(doubles(sums), g * n + c, how.epsilon).scale;
  }
  return bill_batch_norm_backward_sums(backward_sums, dy, x, out, sums);
}

// dx = gain / deviation · (g - mean(g) - x̂·mean(g·x̂)), means over all that share the statistics.
Cost CpuOps::batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& out,
                                 const Tensor& sums, const Tensor& backward_sums, const Tensor& gain,
                                 const BatchNorm& how, Write write) const {
  const ChannelExtents e = check_batch_norm_backward(stream, dx, dy, x, out, sums, backward_sums, gain, how, write);
  const ChannelValues values(e.channels, 4, 0);
  const std::int64_t n = e.channels;
  for (std::int64_t g = 0; g < e.groups; ++g) {
    const double* back = doubles(backward_sums) + 2 * g * n;
    for (std::int64_t c = 0; c < n; ++c) {
      const Facts f = facts_of(doubles(sums), g * n + c, how.epsilon);
      const double scale = f.scale * static_cast<double>(floats(gain)[c]), count = std::max(f.count, 1.0);
      values[0][c] = static_cast<float>(f.mean);
      values[1][c] = static_cast<float>(scale);
      values[2][c] = static_cast<float>(-scale * f.scale * back[2 * c + 1] / count);
      values[3][c] = static_cast<float>(-scale * back[2 * c] / count);
    }
    const std::int64_t first = g * e.rows * n;
    parallel_parts(e.rows, e.rows * n, 1,
                   [&, to = floats(dx) + first, d = floats(dy) + first, from = floats(x) + first,
                    made = how.relu ? floats(out) + first : nullptr](Slice s) noexcept {
                     const std::int64_t at = s.first * n;
                     channel_loops().backward(to + at, d + at, from + at, made ? made + at : nullptr, values[0],
                                              values[1], values[2], values[3], write == Write::accumulate, s.count, n);
                   });
  }
  return bill_batch_norm_backward(dx, dy, x, out, sums, backward_sums, gain, write);
}

Cost CpuOps::batch_norm_backward_parameters(Stream& stream, const Tensor& dgain, const Tensor& dbias,
                                            const Tensor& backward_sums) const {
  const ChannelExtents e = check_batch_norm_backward_parameters(stream, dgain, dbias, backward_sums);
  const double* from = doubles(backward_sums);
  float* const to[] = {floats(dbias), floats(dgain)};
  for (std::int64_t c = 0; c < e.channels; ++c)
    for (int i : {0, 1}) {
      if (!to[i]) continue;
      double sum = 0;
      for (std::int64_t g = 0; g < e.groups; ++g) sum += from[2 * (g * e.channels + c) + i];
      to[i][c] = static_cast<float>(static_cast<double>(to[i][c]) + sum);
    }
  return bill_batch_norm_backward_parameters(dgain, dbias, backward_sums);
}

Cost CpuOps::update_averages(Stream& stream, const Tensor& averages, const Tensor& sums, double momentum) const {
  const ChannelExtents e = check_update_averages(stream, averages, sums, momentum);
  double* to = doubles(averages);
  for (std::int64_t c = 0; c < e.channels; ++c) {
    double now[2] = {0, 0};
    for (std::int64_t g = 0; g < e.groups; ++g) {
      const Facts f = facts_of(doubles(sums), g * e.channels + c, 0);
      now[0] += f.mean / static_cast<double>(e.groups);
      now[1] += f.variance * (f.count > 1 ? f.count / (f.count - 1) : 1) / static_cast<double>(e.groups);
    }
    for (int i : {0, 1}) to[3 * c + i] = momentum * to[3 * c + i] + (1 - momentum) * now[i];
  }
  return bill_update_averages(averages, sums);
}

Cost CpuOps::sums_of_averages(Stream& stream, const Tensor& sums, const Tensor& averages) const {
  check_sums_of_averages(stream, sums, averages);
  const double* from = doubles(averages);
  double* to = doubles(sums);
  for (std::int64_t k = 0; k < sums.count(); k += 3) {
    const double mean = from[k] / from[k + 2], variance = from[k + 1] / from[k + 2];
    to[k] = mean, to[k + 1] = variance + mean * mean, to[k + 2] = 1;
  }
  return bill_sums_of_averages(sums, averages);
}

}  // namespace quadrille
