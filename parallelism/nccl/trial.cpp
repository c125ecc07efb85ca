// SPDX-License-Identifier: Apache-2.0
// A sum through NCCL alone: what shows on one GPU that the library loads, makes a communicator and moves numbers. Used
// by benchmarks/micro/nccl_bench.cpp.
#include <algorithm>
#include <chrono>
#include <vector>

#include "core/cuda/device.h"
#include "core/error.h"
#include "parallelism/device_worlds.h"
#include "parallelism/nccl/connection.h"
#include "parallelism/nccl/station.h"

namespace quadrille {

namespace {

constexpr int kTimed = 11;

// Small whole numbers, so that sums are exact in any order.
float number_of(int rank, std::int64_t i) { return static_cast<float>(i % 1021 + rank); }

}  // namespace

double try_nccl(std::unique_ptr<Communicator> host, Device& device, std::int64_t numbers, double timeout_seconds) {
  require(numbers > 0, "a sum of {} numbers, wanted at least 1", numbers);
  auto watch = host->split([](int) { return 0; }, host->name());
  nccl::Station station(std::move(watch), device, timeout_seconds);
  nccl::Connection connection(station, *host);
  const auto stream = device.make_stream();
  const auto at_host = device.host_side();
  const Tensor in = device.empty({numbers}, DType::f32), out = device.empty({numbers}, DType::f32),
               seen = at_host->empty({numbers}, DType::f32);
  for (std::int64_t i = 0; i < numbers; ++i) seen.as<float>()[i] = number_of(host->rank(), i);
  stream->copy(in, seen);
  stream->zero(out);
  stream->synchronize();
  std::vector<double> seconds;
  for (int k = 0; k < kTimed; ++k) {
    host->barrier();
    const auto begin = std::chrono::steady_clock::now();
    connection.call("all_reduce", [&](ncclComm_t comm) {
      return ncclAllReduce(in.data(), out.data(), static_cast<std::size_t>(numbers), ncclFloat32, ncclSum, comm,
                           cuda_stream(*stream));
    });
    stream->synchronize();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  stream->copy(seen, out);
  stream->synchronize();
  for (std::int64_t i = 0; i < numbers; ++i) {
    float sum = 0;
    for (int rank = 0; rank < host->size(); ++rank) sum += number_of(rank, i);
    require(seen.as<float>()[i] == sum, "NCCL: number {} of an all_reduce over {} ranks is {}, wanted {}", i,
            host->size(), seen.as<float>()[i], sum);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kTimed / 2, seconds.end());
  return seconds[kTimed / 2];
}

}  // namespace quadrille
