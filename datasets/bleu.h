// SPDX-License-Identifier: Apache-2.0
// BLEU of whole corpora on detokenised text (Papineni et al., ACL 2002): one reference a line, 13a tokens (NIST's
// mteval-v13a.pl), 4-grams, exponential smoothing (an order without a match counts half as many as the one before).
// With these settings and its signature it is what "A Call for Clarity in Reporting BLEU Scores" (Post, WMT 2018)
// defines. Pure functions. Used by the command `bleu` and by evaluations of translation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quadrille {

struct Bleu {
  double score = 0;                    // 0 to 100
  std::array<double, 4> precisions{};  // of 1- to 4-grams, in per cent, smoothed
  double brevity = 0;                  // the penalty of short output
  std::int64_t words = 0, wanted = 0;  // tokens of the hypotheses and of the references
  std::string signature;               // all that a score depends on
};

// Line i of both belongs together; throws Error unless both have as many. `lower`: letters of both are made small first
// (ASCII alone in a build without utf8proc; other letters are then refused).
Bleu bleu(std::span<const std::string> hypotheses, std::span<const std::string> references, bool lower = false);
std::vector<std::string> tokens_13a(std::string_view line);
// "BLEU = 86.33 88.9/87.5/85.7/83.3 (BP = 1.000, 9 tokens of 9)  nrefs:1|..."
std::string text_of(const Bleu&);

}  // namespace quadrille
