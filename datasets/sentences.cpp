// SPDX-License-Identifier: Apache-2.0
// Text into sentences, by a rule that serves English and German: a sentence ends at . ! or ? (and closing quotes or
// brackets) before a space and a capital letter, a digit or an opening quote, unless the word before the full stop is
// an abbreviation, an initial or, in front of a small letter, anything. Used by the recipes.
#include <algorithm>
#include <array>
#include <cctype>

#include "datasets/recipe.h"

namespace quadrille {
namespace {

constexpr std::array<std::string_view, 40> kAbbreviations = {
    "Mr",  "Mrs", "Ms", "Dr",  "Prof", "Gen",  "Col", "Capt", "Lt",  "Sen",    "Rep", "Gov", "Hon", "St",
    "Jr",  "Sr",  "No", "Nos", "vs",   "cf",   "viz", "e.g",  "i.e", "approx", "Inc", "Co",  "Art", "Sec",
    "Fig", "Abb", "Nr", "bzw", "ca",   "evtl", "ggf", "inkl", "max", "min",    "usw", "z.B"};

bool is_upper_start(std::string_view rest) {
  if (rest.empty()) return false;
  const auto c = static_cast<unsigned char>(rest[0]);
  if (std::isupper(c) || std::isdigit(c) || c == '"' || c == '\'' || c == '(' || c == '[') return true;
  for (std::string_view start : {"\u00c4", "\u00d6", "\u00dc", "\u201e", "\u201c", "\u00bb", "\u00ab"})
    if (rest.starts_with(start)) return true;
  return false;
}

bool ends_no_sentence(std::string_view before) {  // what stands before the full stop
  const std::size_t space = before.find_last_of(" (\"");
  const std::string_view word = before.substr(space == std::string_view::npos ? 0 : space + 1);
  if (word.size() == 1 && (std::isupper(static_cast<unsigned char>(word[0])))) return true;  // an initial
  const bool dotted = word.size() > 1 && word.size() <= 5 && word[word.size() - 2] == '.';   // U.S, z.B
  return dotted || std::ranges::find(kAbbreviations, word) != kAbbreviations.end();
}

std::string on_one_line(std::string_view text) {
  std::string out;
  for (char c : text) {
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
    if (!space)
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

}  // namespace

std::vector<std::string> sentences_of(std::string_view whole) {
  const std::string text = on_one_line(whole);
  std::vector<std::string> sentences;
  std::size_t from = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '.' && text[at] != '!' && text[at] != '?') continue;
    std::size_t end = at + 1;
    while (end < text.size() && (text[end] == '"' || text[end] == '\'' || text[end] == ')' || text[end] == ']' ||
                                 text[end] == '.' || text[end] == '!' || text[end] == '?'))
      ++end;
    if (end >= text.size() || text[end] != ' ' || !is_upper_start(std::string_view(text).substr(end + 1))) continue;
    if (text[at] == '.' && end == at + 1 && ends_no_sentence(std::string_view(text).substr(from, at - from))) continue;
    sentences.push_back(text.substr(from, end - from));
    from = end + 1;
    at = end;
  }
  if (from < text.size()) sentences.push_back(text.substr(from));
  return sentences;
}

}  // namespace quadrille
