// SPDX-License-Identifier: Apache-2.0
// The check behind `quadrille check --layouts`: right layouts pass, and of a wrong one it names layout, tensor, what
// was found and what was wanted.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/backend.h"
#include "tests/training/faulty_communicator.h"
#include "training/law/visit.h"

namespace quadrille {
namespace {

// Every fifth of them: the whole list is visited by the program itself, as a test of its own (tests/benchmarks).
std::vector<LawLayout> layouts_of(int ranks, const char* model = "gpt") {
  std::vector<LawLayout> few;
  const std::vector<LawLayout> all = LawSpace(model, ranks, backend_named("reference")).layouts();
  for (std::size_t k = 0; k < all.size(); k += 5) few.push_back(all[k]);
  return few;
}

LawVisit on_threads(int ranks) {
  LawVisit how;
  how.options.ranks = ranks;
  return how;
}

std::string text_of(const LawFinding& finding) {
  std::string text = finding.refusal;
  for (const Distance& d : finding.beyond) text += "\n  " + d.text();
  return text;
}

TEST(Check, LayoutsOfTwoRanksEqualTheSerialRun) {
  const std::vector<LawLayout> layouts = layouts_of(2);
  std::size_t told = 0;
  LawVisit how = on_threads(2);
  how.tell = [&](const LawLayout&, const LawFinding& finding) { EXPECT_EQ(finding.layout, told++); };
  for (const LawFinding& finding : visit(layouts, how))
    EXPECT_TRUE(finding.good()) << layouts[finding.layout].name << text_of(finding);
  EXPECT_EQ(told, layouts.size());
}

TEST(Check, LayoutsOfImagesEqualTheSerialRun) {
  const std::vector<LawLayout> layouts = layouts_of(2, "resnet");
  for (const LawFinding& finding : visit(layouts, on_threads(2)))
    EXPECT_TRUE(finding.good()) << layouts[finding.layout].name << text_of(finding);
}

TEST(Check, RefusesAModelWithoutAToy) { EXPECT_ANY_THROW(LawSpace("bert_of_nobody", 2, backend_named("reference"))); }

TEST(Check, NamesWhatIsWrongWhereAMessageIsLost) {
  std::vector<LawLayout> layouts = LawSpace("gpt", 2, backend_named("reference")).layouts();
  std::erase_if(layouts, [](const LawLayout& layout) {  // those that sum whole gradients over data, and a few without
    return layout.name.find("store") != std::string::npos || layout.name.find("y=2") != std::string::npos;
  });
  LawVisit how = on_threads(2);
  how.wrap = [](std::unique_ptr<Communicator> right) {
    return std::make_unique<FaultyCommunicator>(std::move(right),
                                                MessageFault{"all_reduce", "data", MessageFault::Effect::left_out, 4});
  };
  int wrong = 0;
  for (const LawFinding& finding : visit(layouts, how)) {
    const bool has_data = layouts[finding.layout].name.find("data=2") != std::string::npos;
    EXPECT_EQ(!has_data, finding.good()) << layouts[finding.layout].name << text_of(finding);
    if (finding.good()) continue;
    ++wrong;
    // Weights that were updated by different gradients are no replicas any more.
    EXPECT_NE(finding.refusal.find("replicas of"), std::string::npos) << text_of(finding);
  }
  EXPECT_GT(wrong, 0);
}

TEST(Check, NamesTheTensorAndBothNumbers) {
  std::vector<LawLayout> layouts = layouts_of(1);
  layouts.resize(1);
  layouts[0].workload.training.label_smoothing = 0.2;  // not what the serial run does
  const LawFinding finding = visit(layouts, on_threads(1)).front();
  EXPECT_FALSE(finding.good());
  const std::string text = text_of(finding);
  for (const char* part : {"loss of step 1", "gradient of layers.0.up.weight[", "found ", "wanted ", "bound "})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST(Check, NamesTheTensorsOfADroppedLayer) {
  std::vector<LawLayout> layouts = layouts_of(1);
  layouts.resize(1);
  layouts[0].workload.model.set("layers", 2);
  const LawFinding finding = visit(layouts, on_threads(1)).front();
  EXPECT_NE(finding.refusal.find("gradient of layers.2."), std::string::npos) << finding.refusal;
  EXPECT_NE(finding.refusal.find("is missing"), std::string::npos) << finding.refusal;
}

TEST(Distances, FindTheWorstPlaceAndNeverTakeWhatIsNoNumberForEqual) {
  Observed serial, other;
  serial.losses = {2}, serial.norms = {1}, serial.gradients["w"] = {1, -4, 2};
  other = serial;
  other.gradients["w"][2] = 2.5;
  const auto of = [&] { return worst_of_each(distances(serial, other, kBoundsF64)); };
  ASSERT_EQ(of().size(), 3u);
  EXPECT_EQ(of()[2].where, "w[2]");
  EXPECT_DOUBLE_EQ(of()[2].relative, 0.5 / 4);
  other.losses = {std::numeric_limits<double>::quiet_NaN()};
  EXPECT_FALSE(of()[0].within());
  other.losses = {};
  EXPECT_ANY_THROW(of());
}

}  // namespace
}  // namespace quadrille
