// SPDX-License-Identifier: Apache-2.0
// What tests of worlds begin with: ranks to start, what each of them works with, and the message with which all end.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/error.h"
#include "parallelism/world.h"

namespace quadrille::testing {

using World = std::unique_ptr<Communicator>;

inline WorldOptions options(int ranks, double timeout = 60) {
  WorldOptions o;
  o.ranks = ranks;
  o.timeout_seconds = timeout;
  return o;
}

// A rank's own device and stream, made before what uses them.
struct Desk {
  std::unique_ptr<Device> device = make_host_device();
  std::unique_ptr<Stream> stream = device->make_stream();
  Tensor filled(std::int64_t count, float value = 0) const {
    Tensor t = device->empty({count}, DType::f32);
    std::fill_n(t.as<float>(), count, value);
    return t;
  }
};

// Runs and returns the message of the rank that speaks; fails the test if nothing was thrown.
inline std::string message_of(const WorldOptions& o, const RankBody& body) {
  try {
    run_threads(o, body);
  } catch (const Error& error) {
    EXPECT_EQ(dynamic_cast<const Poisoned*>(&error), nullptr);
    return error.what();
  }
  ADD_FAILURE() << "no error came";
  return {};
}

}  // namespace quadrille::testing
