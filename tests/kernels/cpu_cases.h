// SPDX-License-Identifier: Apache-2.0
// Op cases large enough for several threads, several tiles and several bands of the cpu back end, cut unevenly. Used by
// cpu_test.cpp.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/op_cases.h"

namespace quadrille {

// An op with its operands made, so that the call can be repeated by itself.
struct Prepared {
  std::function<Cost()> call;
  std::vector<Tensor> outputs;
  double tolerance = 1e-5;
};
struct LargeCase {
  std::string op, name;
  std::function<Prepared(Bench&)> prepare;
  bool images = false;  // back ends without convolutions refuse it
  OpCase as_op_case() const;
};
const std::vector<LargeCase>& large_cases();
void add_large_image_cases(std::vector<LargeCase>&);  // cpu_image_cases.cpp

}  // namespace quadrille
