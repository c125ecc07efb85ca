// SPDX-License-Identifier: Apache-2.0
// Judges a back end on this machine by the table of op cases, without a test framework: for devices that the tests'
// machine does not have. One JSON object for each number type; every complaint on stderr.
// Usage: judge_ops BACKEND [f32|f64|bf16 ...]     exit 1: a case disagrees with the reference
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "core/error.h"
#include "kernels/backend.h"
#include "tests/kernels/op_cases.h"

namespace quadrille {
namespace {

bool judge_type(const Backend& backend, DType type) {
  const std::unique_ptr<Device> device = backend.open_device(0);
  int failed = 0;
  std::string worst_case;
  double worst = 0;
  int judged = 0;
  for (const OpCase& c : op_cases()) {
    if (c.images && !backend.convolutions) continue;
    ++judged;
    const Verdict verdict = judge(c, backend.ops(), *device, type, backend.attention);
    for (const std::string& complaint : verdict.complaints)
      fmt::print(stderr, "{} in {}: {}\n", c.name, name_of(type), complaint);
    failed += verdict.agrees() ? 0 : 1;
    if (verdict.worst > worst) worst = verdict.worst, worst_case = c.name;
  }
  fmt::print(R"({{"backend": "{}", "device": "{}", "dtype": "{}", "cases": {}, "failed": {}, )", backend.name,
             device->name(), name_of(type), judged, failed);
  fmt::print(R"("worst_in_tolerances": {:.3g}, "worst_case": "{}"}})"
             "\n",
             worst, worst_case);
  std::fflush(stdout);
  return failed == 0;
}

bool run(int count, char** words) {
  require(count > 1, "usage: judge_ops BACKEND [f32|f64|bf16 ...]");
  const Backend& backend = backend_named(words[1]);
  if (backend.use_threads) backend.use_threads(1);
  std::vector<DType> types;
  for (int i = 2; i < count; ++i) types.push_back(dtype_from(words[i]));
  if (types.empty()) types = {DType::f32, DType::f64, DType::bf16};
  bool good = true;
  for (const DType type : types) good = judge_type(backend, type) && good;
  return good;
}

}  // namespace
}  // namespace quadrille

int main(int count, char** words) {
  try {
    return quadrille::run(count, words) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fputs((std::string("judge_ops: ") + error.what() + "\n").c_str(), stderr);
    return 2;
  }
}
