// SPDX-License-Identifier: Apache-2.0
// What the tests on the stand-in share: a device and a stream, numbers there and back, and the look at a planted fault.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/cuda/device.h"
#include "core/error.h"
#include "tests/cuda/standin/standin.h"

namespace quadrille {

class OnStandin : public testing::Test {
 protected:
  ~OnStandin() override {
    for (const std::string& fault : standin::forgive()) ADD_FAILURE() << "nobody expected: " << fault;
  }

  Tensor put(const std::vector<float>& values) {
    const Tensor here = host->empty({static_cast<std::int64_t>(values.size())}, DType::f32);
    std::copy(values.begin(), values.end(), here.host<float>().begin());
    Tensor there = device->empty(here.shape(), DType::f32);
    stream->copy(there, here);
    return there;
  }
  std::vector<float> read(const Tensor& t) {
    const Tensor here = host->empty(t.shape(), DType::f32);
    stream->copy(here, t);
    stream->synchronize();
    const auto numbers = here.host<float>();
    return {numbers.begin(), numbers.end()};
  }
  // The stream fails, with a message that has these words in it; then all is forgiven.
  void expect_fault(const std::vector<std::string>& words) {
    std::string message = "no fault";
    try {
      stream->synchronize();
    } catch (const Error& error) {
      message = error.what();
    }
    for (const std::string& w : words) EXPECT_NE(message.find(w), std::string::npos) << w << " in: " << message;
    EXPECT_EQ(standin::forgive().size(), 1U);
  }

  std::unique_ptr<Device> device = open_cuda_device(0), host = make_host_device();
  std::unique_ptr<Stream> stream = device->make_stream();
};

}  // namespace quadrille
