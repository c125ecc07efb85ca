// SPDX-License-Identifier: Apache-2.0
// See bleu.h.
#include "datasets/bleu.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/build.h"
#include "core/error.h"
#include "datasets/unicode.h"

namespace quadrille {
namespace {

constexpr std::size_t kOrders = 4;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Punctuation and symbols of ASCII but ' , - and the full stop.
bool stands_alone(char c) {
  return (c >= '!' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

// Puts spaces where `pair` says so of two neighbours, left to right, no byte looked at twice. Bytes beyond ASCII count
// as one more character that is no digit, so UTF-8 needs no decoding here.
template <class Pair, class Write>
std::string over_pairs(const std::string& text, Pair pair, Write write) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (i + 1 < text.size() && pair(text[i], text[i + 1])) {
      write(out, text[i], text[i + 1]);
      i += 2;
    } else {
      out += text[i++];
    }
  }
  return out;
}

bool is_point(char c) { return c == '.' || c == ','; }

using Counts = std::unordered_map<std::string, std::int64_t>;

Counts ngrams(const std::vector<std::string>& words, std::size_t order) {
  Counts counts;
  for (std::size_t i = 0; i + order <= words.size(); ++i) {
    std::string key;
    for (std::size_t k = 0; k < order; ++k) {
      key += words[i + k];
      key += ' ';  // in no token
    }
    ++counts[std::move(key)];
  }
  return counts;
}

struct Sums {
  std::array<std::int64_t, kOrders> matched{}, all{};
};

void add_line(const std::vector<std::string>& said, const std::vector<std::string>& wanted, Sums& sums) {
  for (std::size_t n = 0; n < kOrders; ++n) {
    const Counts reference = ngrams(wanted, n + 1);
    for (const auto& [gram, count] : ngrams(said, n + 1)) {
      const auto found = reference.find(gram);
      sums.all[n] += count;
      if (found != reference.end()) sums.matched[n] += std::min(count, found->second);
    }
  }
}

void finish(const Sums& sums, Bleu& result) {
  if (result.words > 0) {
    result.brevity = result.words >= result.wanted
                         ? 1
                         : std::exp(1 - static_cast<double>(result.wanted) / static_cast<double>(result.words));
  }
  if (sums.matched[0] == 0) return;  // without one right word there is nothing to smooth
  double halved = 1, logs = 0;
  for (std::size_t n = 0; n < kOrders; ++n) {
    if (sums.all[n] == 0) return;  // no line has so many words: no score
    const auto all = static_cast<double>(sums.all[n]);
    if (sums.matched[n] == 0) halved *= 2;
    result.precisions[n] =
        sums.matched[n] == 0 ? 100 / (halved * all) : 100 * static_cast<double>(sums.matched[n]) / all;
    logs += std::log(result.precisions[n] / 100);
  }
  result.score = 100 * result.brevity * std::exp(logs / kOrders);
}

}  // namespace

std::vector<std::string> tokens_13a(std::string_view line) {
  std::string text(line);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  std::string spaced = " ";
  for (char c : text) {
    if (stands_alone(c)) {
      spaced += ' ';
      spaced += c;
      spaced += ' ';
    } else {
      spaced += c;
    }
  }
  spaced += ' ';
  spaced = over_pairs(
      spaced, [](char a, char b) { return !is_digit(a) && is_point(b); },
      [](std::string& out, char a, char b) { (((out += a) += ' ') += b) += ' '; });
  spaced = over_pairs(
      spaced, [](char a, char b) { return is_point(a) && !is_digit(b); },
      [](std::string& out, char a, char b) { (((out += ' ') += a) += ' ') += b; });
  spaced = over_pairs(
      spaced, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](std::string& out, char a, char b) { (((out += a) += ' ') += b) += ' '; });
  std::vector<std::string> words;
  std::string word;
  for (std::size_t at = 0; at < spaced.size();) {
    const CodePoint c = code_point_at(spaced, at);
    if (!is_white_space(c.value)) {
      word.append(spaced, at, c.bytes);
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
    at += c.bytes;
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

Bleu bleu(std::span<const std::string> hypotheses, std::span<const std::string> references, bool lower) {
  require(hypotheses.size() == references.size(),
          "{} hypotheses for {} references: line i of one belongs to line i of the other, so both must have as many "
          "lines",
          hypotheses.size(), references.size());
  Bleu result;
  Sums sums;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const auto said = tokens_13a(lower ? lower_case(hypotheses[i]) : hypotheses[i]);
    const auto wanted = tokens_13a(lower ? lower_case(references[i]) : references[i]);
    result.words += static_cast<std::int64_t>(said.size());
    result.wanted += static_cast<std::int64_t>(wanted.size());
    add_line(said, wanted, sums);
  }
  finish(sums, result);
  result.signature = fmt::format("nrefs:1|case:{}|eff:no|tok:13a|smooth:exp|version:quadrille-{}",
                                 lower ? "lc" : "mixed", build_facts().version);
  return result;
}

std::string text_of(const Bleu& bleu) {
  const auto& p = bleu.precisions;
  return fmt::format("BLEU = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f}, {} tokens of {})  {}", bleu.score, p[0],
                     p[1], p[2], p[3], bleu.brevity, bleu.words, bleu.wanted, bleu.signature);
}

}  // namespace quadrille
