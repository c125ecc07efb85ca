// SPDX-License-Identifier: Apache-2.0
// Decoding by beam search with a length penalty (Wu et al. 2016, arXiv 1609.08144), in the form of MLPerf's Transformer
// reference (mlcommons/training, retired_benchmarks/transformer): beams of finished and of living hypotheses, 2 x width
// candidates a step, and an end where no living one can still be better. A pure function of what it is told about the
// next words. With a width of 1 it is greedy, but for its end: it goes on while a longer one may have a better score.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace quadrille {

struct BeamSearch {
  std::int64_t width = 4;
  double alpha = 0.6;               // a score is log p / ((5 + length) / 6)^alpha, length in words and end mark
  std::int64_t longest = 50;        // words and end mark
  std::int32_t begin = 0, end = 0;  // marks
  double penalty(std::int64_t length) const;
};

struct Hypothesis {
  std::vector<std::int32_t> words;  // without marks
  double score = 0;
  bool finished = false;  // false: none ended within `longest`
};

// For each prefix, all of one length and beginning with the begin mark: log p of every word of the vocabulary.
using NextWords = std::function<std::vector<std::vector<double>>(std::span<const std::vector<std::int32_t>> prefixes)>;

// The best hypothesis of one sentence. Of equal scores the one first found wins. Throws Error: no width, no length, a
// row of another size than the one before it, or a word that is not a number.
Hypothesis beam_search(const BeamSearch&, const NextWords&);

}  // namespace quadrille
