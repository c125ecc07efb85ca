// SPDX-License-Identifier: Apache-2.0
// Every op case on every back end of this build. Built a second time on the stand-in for the CUDA runtime (tests/cuda),
// where the cuda back end is there.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "tests/kernels/op_cases.h"

namespace quadrille {
namespace {

std::string text(const OpCase& c, const Verdict& v) {
  return fmt::format("{}: {}", c.name, fmt::join(v.complaints, "; "));
}

class EveryBackend : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const Backend& b : backends())
      if (b.name == GetParam()) backend_ = &b;
    if (!backend_->absent_because.empty()) GTEST_SKIP() << backend_->absent_because;
    if (backend_->use_threads) backend_->use_threads(2);
    device_ = backend_->open_device(0);
  }
  Verdict judged(const OpCase& c, DType real) { return judge(c, backend_->ops(), *device_, real, backend_->attention); }

  // The cases of what it has.
  std::vector<OpCase> cases() const {
    std::vector<OpCase> found;
    for (const OpCase& c : op_cases())
      if (!c.images || backend_->convolutions) found.push_back(c);
    return found;
  }

  const Backend* backend_ = nullptr;
  std::unique_ptr<Device> device_;
};

TEST_P(EveryBackend, AgreesWithTheReferenceInF32) {
  for (const OpCase& c : cases()) {
    const Verdict v = judged(c, DType::f32);
    EXPECT_TRUE(v.agrees()) << text(c, v);
  }
}

TEST_P(EveryBackend, AgreesInBf16) {
  for (const OpCase& c : cases()) {
    const Verdict v = judged(c, DType::bf16);
    EXPECT_TRUE(v.agrees()) << text(c, v);
  }
}

// To the nearest, ties to even; beyond the range to infinity; what is no number stays none.
TEST_P(EveryBackend, RoundsToBf16) {
  if (!device_->holds_numbers()) GTEST_SKIP() << "no numbers";
  const float in[] = {1,         1 + 0x1p-8F, 1 + 3 * 0x1p-8F, 1 + 0x1p-8F + 0x1p-20F, -1 - 0x1p-8F, 3.4e38F,
                      0x1p-130F, NAN,         -INFINITY};
  const float wanted[] = {1, 1, 1 + 2 * 0x1p-7F, 1 + 0x1p-7F, -1, INFINITY, 0x1p-130F, NAN, -INFINITY};
  Bench b(backend_->ops(), *device_, DType::bf16, 0, DType::f32);
  const std::int64_t n = std::size(in);
  const Tensor from = b.put_sum({n}, Numbers(in, in + n)), to = b.unset({n});
  b.ops().convert(b.stream(), to, from);
  const Numbers got = b.read(to);
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i]))) << in[i] << " became " << got[i];
}

// A back end without f64 must say so in every op that has a floating type; move_block moves anything.
TEST_P(EveryBackend, AgreesInF64OrRefusesIt) {
  std::vector<std::string> refused, agreed;
  const std::unique_ptr<Device> nowhere = make_counting_device();
  for (const OpCase& c : cases()) {
    const Verdict v = judged(c, DType::f64);
    Bench bench(counting_ops(), *nowhere, DType::f64, 0);
    c.run(bench);
    EXPECT_TRUE(v.agrees() || v.refused) << text(c, v);
    if (v.refused) {
      EXPECT_NE(v.complaints.front().find("f64"), std::string::npos) << text(c, v);
    }
    if (bench.used_real() && c.op != "move_block") (v.refused ? refused : agreed).push_back(c.name);
  }
  EXPECT_TRUE(refused.empty() || agreed.empty())
      << "computed in f64 while other cases are refused: " << fmt::format("{}", fmt::join(agreed, ", "));
}

TEST_P(EveryBackend, RefusesImagesWhereItHasNone) {
  if (backend_->convolutions) GTEST_SKIP() << "it has them";
  for (const OpCase& c : op_cases()) {
    if (!c.images) continue;
    const Verdict v = judged(c, DType::f32);
    EXPECT_TRUE(v.refused && v.complaints.front().find("convolutions are not in the back end") != std::string::npos)
        << text(c, v);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryBackend, testing::Values("reference", "cpu", "cuda", "counting"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace quadrille
