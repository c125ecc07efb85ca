// SPDX-License-Identifier: Apache-2.0
// The message that both worlds pass on: 2^31 + 8 numbers of f32 from rank 0 to rank 1, and whether there is room for
// it. The sender's tensor is written at four places only; what is not written costs no memory where it is read.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "benchmarks/harness/environment.h"
#include "core/error.h"
#include "core/tensor.h"
#include "parallelism/communicator.h"

namespace quadrille::large {

constexpr std::int64_t kCount = (std::int64_t{1} << 31) + 8;

// Empty when there is room; otherwise how much is missing.
inline std::string memory_lacking() {
  const std::int64_t needed = std::int64_t{12} << 30, free = free_memory_bytes();
  return free >= needed ? "" : fmt::format("{} bytes of memory are free, {} are wanted", free, needed);
}

inline void pass_on(Communicator& world) {
  const auto device = make_host_device();
  const auto stream = device->make_stream();
  const Tensor numbers = device->empty({kCount}, DType::f32);
  const std::int64_t places[] = {0, kCount / 2, kCount - 9, kCount - 1};
  const auto mark = [](std::int64_t place) { return static_cast<float>(place % 1000 + 1); };
  if (world.rank() == 0)
    for (const std::int64_t place : places) numbers.as<float>()[place] = mark(place);
  world.broadcast(numbers, 0, *stream).wait(*stream);
  for (const std::int64_t place : places)
    require(numbers.as<float>()[place] == mark(place), "number {} is {}, {} was sent", place,
            numbers.as<float>()[place], mark(place));
}

}  // namespace quadrille::large
