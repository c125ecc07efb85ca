// SPDX-License-Identifier: Apache-2.0
// Beam search against every sequence of a toy vocabulary, against a greedy walk, and in its refusals.
#include "training/beam_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "core/random.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr std::int32_t kWords = 4, kBegin = 2, kEnd = 3;

// log p of the next word: a softmax of numbers that follow from the whole prefix.
std::vector<double> after(std::uint64_t seed, const Ids& prefix) {
  Key key = key_of(seed, "words");
  for (const std::int32_t id : prefix) key = key_of(key, static_cast<std::uint64_t>(id));
  std::vector<double> p;
  double sum = 0;
  for (std::uint64_t w = 0; w < kWords; ++w) {
    p.push_back(std::exp(1.5 * normal_at(key, w)));
    sum += p.back();
  }
  for (double& x : p) x = std::log(x / sum);
  return p;
}

NextWords words_of(std::uint64_t seed) {
  return [seed](std::span<const Ids> prefixes) {
    std::vector<std::vector<double>> all;
    for (const Ids& p : prefixes) all.push_back(after(seed, p));
    return all;
  };
}

// Visits every sequence that ends within `longest`.
void best_of_all(std::uint64_t seed, const BeamSearch& how, const Ids& prefix, double log_p, Hypothesis& best) {
  const auto length = static_cast<std::int64_t>(prefix.size());
  if (length > how.longest) return;
  const std::vector<double> next = after(seed, prefix);
  for (std::int32_t w = 0; w < kWords; ++w) {
    const double here = log_p + next[static_cast<std::size_t>(w)];
    if (w == how.end) {
      const double score = here / std::pow((5.0 + static_cast<double>(length)) / 6.0, how.alpha);
      if (!best.finished || score > best.score) best = {{prefix.begin() + 1, prefix.end()}, score, true};
    } else {
      Ids longer = prefix;
      longer.push_back(w);
      best_of_all(seed, how, longer, here, best);
    }
  }
}

TEST(BeamSearch, OfFullWidthFindsTheBestOfAllSequences) {
  for (const double alpha : {0.0, 0.6, 2.0})
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const BeamSearch how{1000, alpha, 5, kBegin, kEnd};
      Hypothesis wanted;
      best_of_all(seed, how, {kBegin}, 0, wanted);
      const Hypothesis found = beam_search(how, words_of(seed));
      EXPECT_TRUE(found.finished);
      EXPECT_EQ(found.words, wanted.words) << seed << " " << alpha;
      EXPECT_NEAR(found.score, wanted.score, 1e-12);
    }
}

// A narrow beam never claims more than the best of all, and its score is that of its words.
TEST(BeamSearch, OfAnyWidthTellsTheScoreOfWhatItFound) {
  double better = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    double before = -std::numeric_limits<double>::infinity();
    for (const std::int64_t width : {1, 2, 4}) {
      const BeamSearch how{width, 0.6, 6, kBegin, kEnd};
      Hypothesis all;
      best_of_all(seed, how, {kBegin}, 0, all);
      const Hypothesis found = beam_search(how, words_of(seed));
      if (!found.finished) continue;
      Ids prefix = {kBegin};
      double log_p = 0;
      for (const std::int32_t w : found.words) {
        log_p += after(seed, prefix)[static_cast<std::size_t>(w)];
        prefix.push_back(w);
      }
      log_p += after(seed, prefix)[kEnd];
      EXPECT_NEAR(found.score, log_p / how.penalty(static_cast<std::int64_t>(found.words.size()) + 1), 1e-12);
      EXPECT_LE(found.score, all.score + 1e-12);
      better += found.score > before + 1e-12 && width > 1;
      before = found.score;
    }
  }
  EXPECT_GT(better, 5);  // wider beams find more
}

// Words 0 and 1 in turn, far likelier than all else, and the end after four of them.
NextWords alternating() {
  return [](std::span<const Ids> prefixes) {
    std::vector<std::vector<double>> all;
    for (const Ids& p : prefixes) {
      std::vector<double> row(kWords, -20);
      row[p.size() == 5 ? kEnd : (p.size() + 1) % 2] = -1e-3;
      all.push_back(row);
    }
    return all;
  };
}

TEST(BeamSearch, OfWidthOneIsGreedy) {
  const Hypothesis found = beam_search({1, 0.6, 10, kBegin, kEnd}, alternating());
  EXPECT_EQ(found.words, (Ids{0, 1, 0, 1}));
  EXPECT_NEAR(found.score, -5e-3 / std::pow(10.0 / 6.0, 0.6), 1e-15);
}

TEST(BeamSearch, GivesTheBestLivingOneWhereNoneEnds) {
  const auto never = [](std::span<const Ids> prefixes) {
    std::vector<std::vector<double>> all(prefixes.size(), {-1, -2, -3, -std::numeric_limits<double>::infinity()});
    return all;
  };
  const Hypothesis found = beam_search({1, 0.6, 3, kBegin, kEnd}, never);
  EXPECT_FALSE(found.finished);
  EXPECT_EQ(found.words, (Ids{0, 0, 0}));
}

TEST(BeamSearch, PenaltyIsThatOfThePaper) {
  const BeamSearch how{4, 0.6, 50, 0, 1};
  EXPECT_EQ(how.penalty(1), 1);
  EXPECT_NEAR(how.penalty(7), std::pow(2.0, 0.6), 1e-15);
}

TEST(BeamSearch, RefusesWhatIsNoSearch) {
  says(message_of([] { beam_search({0, 0.6, 3, kBegin, kEnd}, words_of(1)); }), {"width 0"});
  const auto broken = [](std::span<const Ids> prefixes) {
    return std::vector<std::vector<double>>(prefixes.size(), std::vector<double>(kWords, std::nan("")));
  };
  says(message_of([&] { beam_search({1, 0.6, 3, kBegin, kEnd}, broken); }), {"not a number"});
}

}  // namespace
}  // namespace quadrille
