// SPDX-License-Identifier: Apache-2.0
// The list of back ends and how one is found by name.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "kernels/backend.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

void expect_refusal(const std::function<void()>& action, const std::vector<std::string_view>& parts) {
  const std::string message = message_of(action);
  for (const std::string_view part : parts) EXPECT_TRUE(contains(message, part)) << message;
}

TEST(Backends, AreListedWithWhatTheyNeed) {
  ASSERT_EQ(backends().size(), 4u);
  for (const Backend& b : backends()) {
    EXPECT_EQ(b.absent_because.empty(), b.ops != nullptr) << b.name;
    EXPECT_EQ(b.absent_because.empty(), b.open_device != nullptr) << b.name;
    EXPECT_GE(b.attention.block, 1) << b.name;
    if (b.ops != nullptr) {
      EXPECT_EQ(b.ops().name(), b.name);
    }
  }
  EXPECT_FALSE(backend_named("reference").timed_claims);
  EXPECT_TRUE(backend_named("reference").open_device(0)->holds_numbers());
  EXPECT_FALSE(backend_named("counting").open_device(0)->holds_numbers());
}

TEST(Backends, AnUnknownNameIsRefusedWithTheNearest) {
  expect_refusal([] { backend_named("refrence"); },
                 {"refrence", "did you mean \"reference\"", "reference, cpu, cuda, counting"});
  expect_refusal([] { backend_named("quantum"); }, {"quantum", "reference, cpu, cuda, counting"});
}

TEST(Backends, AnAbsentOneIsRefusedWithTheReason) {
  for (const Backend& b : backends())
    if (!b.absent_because.empty()) expect_refusal([&] { backend_named(b.name); }, {b.name, b.absent_because});
}

}  // namespace
}  // namespace quadrille
