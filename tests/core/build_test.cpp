// SPDX-License-Identifier: Apache-2.0
// The build knows what it is made of: each part is there with its place, or absent with a remedy, never neither.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/build.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

TEST(Build, ListsEachPartWithItsPlaceOrARemedy) {
  std::set<std::string_view> names;
  for (const Part& part : build_parts()) {
    EXPECT_TRUE(names.insert(part.name).second) << part.name << " is listed twice";
    EXPECT_NE(part.built, part.path.empty()) << part.name;
    EXPECT_EQ(part.built, part.remedy.empty()) << part.name;
  }
  for (const std::string_view name : {"fmt", "nlohmann/json", "CLI11", "OpenMP", "oneDNN", "Highway", "hwloc", "MPI",
                                      "zlib", "libarchive", "libjpeg-turbo", "CUDA", "NCCL", "GoogleTest"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(Build, PartsTellTheTruth) {
  const std::string fmt_version =
      fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
  EXPECT_EQ(build_part("fmt").version, fmt_version);
  EXPECT_TRUE(build_part("GoogleTest").built);  // this test runs
  // Built in the preset cuda only, so a build without it says how to get it.
  EXPECT_EQ(build_part("CUDA").built, build_part("cuDNN").built);
  EXPECT_TRUE(build_part("CUDA").built || contains(build_part("CUDA").remedy, "QUADRILLE_CUDA=AUTO") ||
              contains(build_part("CUDA").remedy, "not found"))
      << build_part("CUDA").remedy;
  EXPECT_EQ(message_of([] { build_part("Cuda"); }), "there is no part \"Cuda\" of the build");
}

TEST(Build, KnowsCompilerFlagsAndRevision) {
  const BuildFacts facts = build_facts();
  EXPECT_TRUE(facts.compiler.starts_with("GNU ") || facts.compiler.starts_with("Clang ")) << facts.compiler;
  EXPECT_TRUE(contains(facts.flags, "-Wall"));
  EXPECT_FALSE(facts.type.empty());
  EXPECT_FALSE(facts.version.empty());
  const bool digits = facts.revision.size() == 40 &&
                      std::all_of(facts.revision.begin(), facts.revision.end(),
                                  [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  EXPECT_TRUE(digits || (facts.revision == "unknown" && !facts.modified)) << facts.revision;
}

}  // namespace
}  // namespace quadrille
