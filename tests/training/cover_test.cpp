// SPDX-License-Identifier: Apache-2.0
// What `quadrille check` visits: every pair of choices that any lawful layout has, lawful layouts only, each accepted
// by the checks that a run goes through, and the same list every time.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "kernels/backend.h"
#include "training/law/layouts.h"

namespace quadrille {
namespace {

using Pairs = std::set<std::tuple<std::size_t, int, std::size_t, int>>;

Pairs pairs_in(const std::vector<Choice>& choices) {
  Pairs pairs;
  for (const Choice& c : choices)
    for (std::size_t i = 0; i < c.size(); ++i)
      for (std::size_t j = i + 1; j < c.size(); ++j) pairs.emplace(i, c[i], j, c[j]);
  return pairs;
}

// Neighbours may not be equal, and 0 at the front asks for 0 at the end: pairs without any lawful combination exist.
bool quarrelsome(const Choice& c) {
  for (std::size_t i = 0; i + 1 < c.size(); ++i)
    if (c[i] != kOpen && c[i] == c[i + 1]) return false;
  return c.front() != 0 || c.back() == kOpen || c.back() == 0;
}

TEST(Cover, HasEveryPairThatAnyLawfulCombinationHas) {
  for (const std::vector<int>& values : {std::vector<int>{3, 3, 3, 3}, {2, 5, 1, 4}, {4}, {7, 2, 2, 2, 3}}) {
    const std::vector<Choice> few = cover_pairs(values, quarrelsome), all = all_choices(values, quarrelsome);
    EXPECT_EQ(pairs_in(few), pairs_in(all));
    EXPECT_LE(few.size(), all.size());
    for (const Choice& c : few) EXPECT_TRUE(quarrelsome(c) && std::find(c.begin(), c.end(), kOpen) == c.end());
  }
}

TEST(Cover, IsSmall) {
  const std::vector<int> values = {10, 4, 4, 3, 3, 2, 2, 2};
  const auto lawful = [](const Choice&) { return true; };
  EXPECT_EQ(all_choices(values, lawful).size(), 10u * 4 * 4 * 3 * 3 * 2 * 2 * 2);
  EXPECT_LE(cover_pairs(values, lawful).size(), 60u);  // 10 x 4 = 40 at least
}

TEST(Meshes, AreAllWaysToMultiplyToTheRanks) {
  EXPECT_EQ(law_meshes(1).size(), 1u);
  EXPECT_EQ(law_meshes(4).size(), 21u);  // 4 on one of six axes, or 2 on two of them
  EXPECT_EQ(law_meshes(6).size(), 36u);
  EXPECT_EQ(law_meshes(8).size(), 56u);
  for (const std::vector<int>& mesh : law_meshes(12)) {
    int product = 1;
    for (const int extent : mesh) product *= extent;
    EXPECT_EQ(product, 12);
  }
}

class Layouts : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  static int ranks() { return std::get<1>(GetParam()); }
  static LawSpace space() { return {std::get<0>(GetParam()), ranks(), backend_named("reference")}; }
};

TEST_P(Layouts, AreAcceptedAndHaveNamesOfTheirOwn) {
  const LawSpace space = Layouts::space();
  std::set<std::string> names;
  for (const LawLayout& layout : space.layouts()) {
    EXPECT_TRUE(names.insert(layout.name).second) << layout.name;
    EXPECT_NO_THROW(check_workload(layout.workload, ranks())) << layout.name;
    EXPECT_NO_THROW(check_workload(layout.serial, 1)) << layout.serial_name;
  }
}

TEST_P(Layouts, AreTheSameEveryTime) {
  const auto once = space().layouts();
  const auto again = space().layouts();
  ASSERT_EQ(once.size(), again.size());
  for (std::size_t k = 0; k < once.size(); ++k) EXPECT_EQ(once[k].name, again[k].name);
}

TEST_P(Layouts, OfEveryMeshOccurWithEveryChoiceThatItAllows) {
  const LawSpace space = Layouts::space();
  const auto lawful = [&](const Choice& c) { return space.lawful(c); };
  const Pairs covered = pairs_in(cover_pairs(space.counts(), lawful));
  EXPECT_EQ(space.factors().front().values.size(), law_meshes(ranks()).size()) << "no mesh is left out";
  // Pairs of the first factor, the mesh, with every value for which a lawful choice exists.
  for (std::size_t k = 1; k < space.factors().size(); ++k)
    for (int mesh = 0; mesh < space.counts().front(); ++mesh)
      for (int v = 0; v < space.counts()[k]; ++v) {
        Choice choice(space.factors().size(), kOpen);
        choice[0] = mesh, choice[k] = v;
        EXPECT_TRUE(covered.contains({0, mesh, k, v}) || !space.lawful(choice))
            << space.factors()[0].values[static_cast<std::size_t>(mesh)] << " with " << space.factors()[k].name
            << " number " << v;
      }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Layouts,
                         ::testing::Combine(::testing::Values("gpt", "resnet"), ::testing::Values(1, 2, 3, 4, 6, 8)));

}  // namespace
}  // namespace quadrille
