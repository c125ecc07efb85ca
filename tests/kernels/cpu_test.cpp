// SPDX-License-Identifier: Apache-2.0
// What only the cpu back end promises: every instruction set is right, not just the one of this machine; work that is
// large enough for several threads is right; the same bits again and again; nothing is allocated once warm; what is not
// a number stays visible. The op cases proper run in ops_test.cpp.
#include <gtest/gtest.h>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <hwy/targets.h>

#include <cmath>
#include <limits>
#include <thread>

#include "kernels/backend.h"
#include "kernels/cpu/attention_loops.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/scratch.h"
#include "tests/kernels/cpu_allocations.h"
#include "tests/kernels/cpu_cases.h"
#include "tests/kernels/op_cases.h"

namespace quadrille {
namespace {

std::string text(const OpCase& c, const Verdict& v) {
  return fmt::format("{}: {}", c.name, fmt::join(v.complaints, "; "));
}

// Chooses one instruction set for the life of the object.
class Only {
 public:
  explicit Only(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~Only() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

std::vector<Result> results_of(const OpCase& c, int threads) {
  cpu_backend().use_threads(threads);
  const std::unique_ptr<Device> device = cpu_backend().open_device(0);
  Bench bench(cpu_backend().ops(), *device, DType::f32, 7);
  c.run(bench);
  return bench.results();
}
void expect_same_bits(const OpCase& c, const std::vector<Result>& a, const std::vector<Result>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].values.size(), b[i].values.size()) << c.name;
    for (std::size_t j = 0; j < a[i].values.size(); ++j)
      ASSERT_TRUE(a[i].values[j] == b[i].values[j] || (std::isnan(a[i].values[j]) && std::isnan(b[i].values[j])))
          << c.name << " " << a[i].name << "[" << j << "]: " << a[i].values[j] << " and " << b[i].values[j];
  }
}

class EveryInstructionSet : public testing::TestWithParam<std::int64_t> {};

TEST_P(EveryInstructionSet, AgreesWithTheReference) {
  const Only only(GetParam());
  const std::unique_ptr<Device> device = cpu_backend().open_device(0);
  cpu_backend().use_threads(1);
  for (const OpCase& c : op_cases()) {
    const Verdict v = judge(c, cpu_backend().ops(), *device, DType::f32, cpu_backend().attention);
    EXPECT_TRUE(v.agrees()) << text(c, v);
  }
}
TEST_P(EveryInstructionSet, IsItsOwnCode) {
  const AttentionLoops* best = &attention_loops();
  const bool is_best = hwy::GetChosenTarget().GetIndex() == [&] {
    const Only only(GetParam());
    return hwy::GetChosenTarget().GetIndex();
  }();
  const Only only(GetParam());
  EXPECT_EQ(&attention_loops() == best, is_best);
}
INSTANTIATE_TEST_SUITE_P(Cpu, EveryInstructionSet, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return hwy::TargetName(info.param); });

// A parameter of the number of threads.
class LargeWork : public testing::TestWithParam<int> {};

TEST_P(LargeWork, AgreesWithTheReference) {
  const std::unique_ptr<Device> device = cpu_backend().open_device(0);
  cpu_backend().use_threads(GetParam());
  for (const LargeCase& large : large_cases()) {
    const OpCase c = large.as_op_case();
    const Verdict v = judge(c, cpu_backend().ops(), *device, DType::f32, cpu_backend().attention);
    EXPECT_TRUE(v.agrees()) << text(c, v);
  }
}
TEST_P(LargeWork, GivesTheSameBitsTwice) {
  for (const LargeCase& large : large_cases()) {
    const OpCase c = large.as_op_case();
    expect_same_bits(c, results_of(c, GetParam()), results_of(c, GetParam()));
  }
}
// Ops whose results are repeated on replicas: all but products, whose sums oneDNN orders, and convolutions made of
// them.
TEST_P(LargeWork, GivesTheSameBitsAsOneThread) {
  for (const LargeCase& large : large_cases()) {
    const OpCase c = large.as_op_case();
    if (c.op != "matmul" && c.op != "conv" && !c.op.starts_with("conv_"))
      expect_same_bits(c, results_of(c, GetParam()), results_of(c, 1));
  }
}
INSTANTIATE_TEST_SUITE_P(Cpu, LargeWork, testing::Values(1, 2, 3));

TEST(Cpu, RankThreadsDoNotDisturbEachOther) {
  for (const LargeCase& large : large_cases()) {
    const OpCase c = large.as_op_case();
    const std::vector<Result> alone = results_of(c, 1);
    std::vector<Result> first, second;
    std::thread a([&] { first = results_of(c, 1); }), b([&] { second = results_of(c, 1); });
    a.join(), b.join();
    expect_same_bits(c, first, alone);
    expect_same_bits(c, second, alone);
  }
}

TEST(Cpu, AllocatesNoBufferOnceWarm) {
  cpu_backend().use_threads(2);
  const std::unique_ptr<Device> device = cpu_backend().open_device(0);
  for (const LargeCase& c : large_cases()) {
    Bench bench(cpu_backend().ops(), *device, DType::f32, 7);
    const Prepared p = c.prepare(bench);
    p.call();
    const std::int64_t before = buffers_allocated(), scratch = scratch_bytes();
    p.call();
    EXPECT_EQ(buffers_allocated(), before) << c.name;
    EXPECT_EQ(scratch_bytes(), scratch) << c.name;
  }
}

TEST(Cpu, GeluIsAccurateEverywhere) {
  for (int i = -120'000; i <= 120'000; ++i) {
    const float x = static_cast<float>(i) * 1e-4f;
    float y = 0;
    element_loops().gelu(&y, &x, 1);
    const double wide = static_cast<double>(x), wanted = 0.5 * wide * std::erfc(-wide * std::sqrt(0.5));
    // The tail multiplies the rounding of x²/2 by itself: up to 72 at x = 12.
    const double tolerance = (wide < 0 ? 4e-7 + 1e-7 * wide * wide / 2 : 4e-7) * std::abs(wanted) + 1e-38;
    ASSERT_NEAR(static_cast<double>(y), wanted, tolerance) << x;
  }
}

TEST(Cpu, NotANumberStaysVisible) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const Only only(target);
    for (const std::int64_t bad : {0, 17, 36}) {
      std::vector<float> x(37, 0.5f), y(37), z(37);
      x[static_cast<std::size_t>(bad)] = nan;
      element_loops().gelu(y.data(), x.data(), 37);
      EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(bad)])) << hwy::TargetName(target);
      element_loops().gated_silu(z.data(), x.data(), y.data(), 37);
      EXPECT_TRUE(std::isnan(z[static_cast<std::size_t>(bad)])) << hwy::TargetName(target);
      std::vector<float> ones(37, 1.0f), made(37);
      channel_loops().norm(made.data(), x.data(), ones.data(), ones.data(), ones.data(), true, 1, 37);
      EXPECT_TRUE(std::isnan(made[static_cast<std::size_t>(bad)])) << hwy::TargetName(target);
      channel_loops().add_relu(made.data(), ones.data(), x.data(), 37);
      EXPECT_TRUE(std::isnan(made[static_cast<std::size_t>(bad)])) << hwy::TargetName(target);
      channel_loops().take_larger(ones.data(), x.data(), 37);
      EXPECT_TRUE(std::isnan(ones[static_cast<std::size_t>(bad)])) << hwy::TargetName(target);
      double sums[2];
      row_loops().exponential_sums(sums, x.data(), 0.5f, 37);
      EXPECT_TRUE(std::isnan(sums[0])) << hwy::TargetName(target);
    }
  }
}

}  // namespace
}  // namespace quadrille
