// SPDX-License-Identifier: Apache-2.0
// Sizes of BERT against published counts, and what its configuration refuses.
#include "models/bert/bert.h"

#include <gtest/gtest.h>

#include "parallelism/world.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

std::unique_ptr<ModelDescription> described(const std::string& text, std::int64_t words = 2) {
  return describe_bert(parse_json(text, "model"), words);
}

std::int64_t parameters_of(const ModelDescription& description) {
  std::int64_t n = 0;
  run_counting({}, [&](std::unique_ptr<Communicator> world) {
    const Mesh mesh(std::move(world), {});
    const Plan plan(Json::object(), mesh);
    Parameters parameters(plan);
    const auto blocks = description.build(parameters, 0);
    n = parameters.count();
  });
  return n;
}

// The published code's: 335,141,888 with the pooler; the layer, norm and bias of the masked words' head; two classes.
TEST(BertSizes, OfBertLarge) {
  const auto large = described(R"({"kind": "bert", "layers": 24, "embed": 1024, "heads": 16, "tokens": 512,
                                   "masked": 76, "vocabulary": 30522})");
  EXPECT_EQ(parameters_of(*large), 336'226'108);
  EXPECT_EQ(335'141'888 + 1024 * 1024 + 1024 + 2 * 1024 + 30522 + 2 * 1024 + 2, 336'226'108);
  const double forward = large->forward_flops(1, false);
  EXPECT_NEAR(forward, 339.920e9, 0.0005e9);
  EXPECT_NEAR(3 * forward, 1.01976e12, 5e6);
  EXPECT_EQ(large->forward_flops(1, true), forward) << "nothing is hidden from a query";
  EXPECT_EQ(large->forward_flops(8, false), 8 * forward);
  const auto phase1 = described(R"({"kind": "bert", "layers": 24, "embed": 1024, "heads": 16, "tokens": 128,
                                    "masked": 20, "vocabulary": 30522})");
  EXPECT_NEAR(phase1->forward_flops(1, false), 80.214e9, 0.0005e9);
}

TEST(BertSizes, OfBertBase) {
  const auto base = described(R"({"kind": "bert", "layers": 12, "embed": 768, "heads": 12, "tokens": 512,
                                  "masked": 76, "vocabulary": 30522})");
  EXPECT_EQ(parameters_of(*base), 109'482'240 + 768 * 768 + 768 + 2 * 768 + 30522 + 2 * 768 + 2);
}

TEST(BertSizes, ThatContradictOneAnotherAreRefusedTogether) {
  const std::string text = message_of([] {
    described(R"({"kind": "bert", "layers": 1, "embed": 10, "heads": 3, "tokens": 8, "masked": 9, "vocabulary": 5,
                  "dropout": 1, "norm_epsilon": 0})",
              6);
  });
  for (const char* part : {"heads 3", "legal heads", "masked 9", "dropout", "norm_epsilon", "ids up to 5"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  EXPECT_NE(message_of([] { described(R"({"kind": "bert", "layer": 1})"); }).find("layers"), std::string::npos);
}

TEST(BertSizes, DefaultsAreWrittenOut) {
  const auto small =
      described(R"({"kind": "bert", "layers": 1, "embed": 8, "heads": 2, "tokens": 8, "masked": 2})", 11);
  EXPECT_EQ(small->resolved().at("mlp").integer(), 32);
  EXPECT_EQ(small->resolved().at("vocabulary").integer(), 11);
  EXPECT_EQ(small->resolved().at("segments").integer(), 2);
  EXPECT_EQ(small->resolved().at("norm_epsilon").number(), 1e-12);
}

}  // namespace
}  // namespace quadrille
