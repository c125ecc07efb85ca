// SPDX-License-Identifier: Apache-2.0
// BLEU: known values, tokens, and what is refused.
#include "datasets/bleu.h"

#include <cmath>

#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

using Lines = std::vector<std::string>;
constexpr const char* kFox = "the quick brown fox jumps over the lazy dog";

double score(const Lines& said, const Lines& wanted) { return bleu(said, wanted).score; }

TEST(Bleu, KnownValues) {
  // 8/9 * 7/8 * 6/7 * 5/6 = 5/9; its fourth root.
  EXPECT_NEAR(score({"the quick brown fox jumps over the lazy cat"}, {kFox}), 86.33, 0.005);
  EXPECT_DOUBLE_EQ(score({kFox}, {kFox}), 100);
  EXPECT_EQ(score({""}, {kFox}), 0);
  EXPECT_EQ(score({}, {}), 0);
  EXPECT_EQ(score({"ein ganz anderer Satz"}, {kFox}), 0);
}

TEST(Bleu, ADetachedFullStopMakesNoDifference) {
  const std::string stop = fmt::format("{}.", kFox), detached = fmt::format("{} .", kFox);
  EXPECT_DOUBLE_EQ(score({detached}, {stop}), 100);
  EXPECT_DOUBLE_EQ(score({"the quick brown fox jumps over the lazy cat ."}, {stop}),
                   score({"the quick brown fox jumps over the lazy cat."}, {detached}));
}

TEST(Bleu, CountsOfAWordAreLimitedByTheReference) {
  // Papineni's example: of seven "the" two count; no 2-gram, 3-gram or 4-gram fits: 1/(2*6), 1/(4*5), 1/(8*4).
  const Bleu result = bleu(Lines{"the the the the the the the"}, Lines{"the cat is on the mat now"});
  EXPECT_NEAR(result.precisions[0], 100 * 2.0 / 7, 1e-9);
  EXPECT_NEAR(result.precisions[1], 100 / 12.0, 1e-9);
  EXPECT_NEAR(result.precisions[2], 100 / 20.0, 1e-9);
  EXPECT_NEAR(result.precisions[3], 100 / 32.0, 1e-9);
  EXPECT_NEAR(result.score, 100 * std::pow(2.0 / 7 / 12 / 20 / 32, 0.25), 1e-9);
}

TEST(Bleu, ShortOutputIsPenalised) {
  const Bleu result = bleu(Lines{"the quick brown fox jumps"}, Lines{kFox});
  EXPECT_NEAR(result.brevity, std::exp(1 - 9.0 / 5), 1e-12);
  EXPECT_NEAR(result.score, 100 * result.brevity, 1e-9);
}

TEST(Bleu, TheCorpusIsCountedNotTheLines) {
  const Lines wanted = {kFox, "a b c d e"};
  EXPECT_NE(score({kFox, "a b x d e"}, wanted), (100 + score({"a b x d e"}, {"a b c d e"})) / 2);
  // 9 + 4 of 14 words, 8 + 2 of 12, 7 + 0 of 10, 6 + 0 of 8
  EXPECT_NEAR(score({kFox, "a b x d e"}, wanted), 100 * std::pow(13.0 / 14 * 10 / 12 * 7 / 10 * 6 / 8, 0.25), 1e-9);
}

TEST(Bleu, Tokens) {
  EXPECT_EQ(tokens_13a("Hello, world!"), (Lines{"Hello", ",", "world", "!"}));
  EXPECT_EQ(tokens_13a("1,000.5 and .5 or 5. 10-20 well-known it's"),
            (Lines{"1,000.5", "and", ".", "5", "or", "5", ".", "10", "-", "20", "well-known", "it's"}));
  EXPECT_EQ(tokens_13a("&quot;a&amp;b&quot; (x/y) [z]"),
            (Lines{"\"", "a", "&", "b", "\"", "(", "x", "/", "y", ")", "[", "z", "]"}));
  EXPECT_EQ(tokens_13a("Gr\u00fc\u00dfe\u00a0aus \u201eK\u00f6ln\u201c."),
            (Lines{"Gr\u00fc\u00dfe", "aus", "\u201eK\u00f6ln\u201c", "."}));
  EXPECT_EQ(tokens_13a("  "), Lines{});
}

TEST(Bleu, CaseAndSignature) {
  const Bleu mixed = bleu(Lines{"The Quick Brown Fox"}, Lines{"the quick brown fox"}),
             lower = bleu(Lines{"The Quick Brown Fox"}, Lines{"the quick brown fox"}, true);
  EXPECT_EQ(mixed.score, 0);
  EXPECT_DOUBLE_EQ(lower.score, 100);
  EXPECT_NE(mixed.signature.find("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:quadrille-"), std::string::npos);
  EXPECT_NE(lower.signature.find("case:lc"), std::string::npos);
  EXPECT_NE(text_of(lower).find("BLEU = 100.00 100.0/100.0/100.0/100.0 (BP = 1.000, 4 tokens of 4)"),
            std::string::npos);
}

TEST(Bleu, UnequalNumbersOfLinesAreRefused) {
  expect_parts(message_of([] { bleu(Lines{"a"}, Lines{}); }), {"1 hypotheses for 0 references", "as many lines"});
}

}  // namespace
}  // namespace quadrille
