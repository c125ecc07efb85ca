// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/micro/device_probe.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/bf16.h"
#include "core/error.h"
#include "core/random.h"

namespace quadrille {

namespace {

constexpr std::int64_t kSmallest = 256, kLargest = 8192;

// Addressed numbers between -1 and 1.
template <class T>
void fill(const Tensor& host) {
  std::uint64_t state = 1;
  for (T& number : host.host<T>()) {
    state = mix(state + 1);
    const auto value = static_cast<float>(static_cast<double>(state >> 40) * 0x1p-23 - 1);
    number = static_cast<T>(value);
  }
}

// A square matrix, made of copies of one block.
Tensor matrix(Device& device, Stream& stream, const Tensor& block, std::int64_t extent) {
  const Tensor whole = device.empty({extent, extent}, block.dtype());
  const Tensor flat = whole.flat();
  for (std::int64_t first = 0; first < flat.count(); first += block.count()) {
    const std::int64_t count = std::min(block.count(), flat.count() - first);
    stream.copy(flat.rows(first, count), block.rows(0, count));
  }
  stream.synchronize();
  return whole;
}

struct Timed {
  double seconds = 0, flops = 0;
};
Timed products(Stream& stream, const Ops& ops, const Tensor& out, const Tensor& a, const Tensor& b, bool tf32,
               int count) {
  Matmul how;
  how.tf32 = tf32;
  Timed timed;
  const auto begin = stream.record();
  for (int i = 0; i < count; ++i) timed.flops += ops.matmul(stream, out, a, b, {}, how).flops;
  const auto end = stream.record();
  end->block_host();
  timed.seconds = end->seconds_since(*begin);
  return timed;
}

}  // namespace

double probe_products(Device& device, const Ops& ops, DType dtype, bool tf32, double seconds) {
  const auto stream = device.make_stream();
  const auto memory = make_host_device();
  const Tensor block = memory->empty({std::int64_t{1} << 20}, dtype);
  if (dtype == DType::bf16)
    fill<bf16>(block);
  else if (dtype == DType::f64)
    fill<double>(block);
  else
    fill<float>(block);
  Tensor a, b, out;
  double one = 0;
  for (std::int64_t extent = kSmallest; extent <= kLargest && one < 2e-3; extent *= 2) {
    a = {}, b = {}, out = {};
    a = matrix(device, *stream, block, extent), b = matrix(device, *stream, block, extent);
    out = device.empty({extent, extent}, dtype);
    products(*stream, ops, out, a, b, tf32, 1);  // algorithms are looked for
    one = products(*stream, ops, out, a, b, tf32, 1).seconds;
  }
  constexpr int kRuns = 5;
  const int each = std::max(1, static_cast<int>(std::min(1e4, std::ceil(seconds / kRuns / std::max(one, 1e-6)))));
  std::vector<double> rates;
  for (int run = 0; run < kRuns; ++run) {
    const Timed timed = products(*stream, ops, out, a, b, tf32, each);
    require(timed.seconds > 0, "the probe of products on {} took no time", device.name());
    rates.push_back(timed.flops / timed.seconds);
  }
  std::sort(rates.begin(), rates.end());
  return rates[kRuns / 2];
}

}  // namespace quadrille
