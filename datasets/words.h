// SPDX-License-Identifier: Apache-2.0
// How text falls into words before pairs are merged: the pattern of GPT-2's encoder.py,
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// written as a scan. A classifier says what stands at a position, so that the same scan serves GPT-2 (code points) and
// our own byte pairs (bytes, no contractions). Used by bpe.cpp, learn_merges.cpp and gpt2.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace quadrille {

enum class CharClass : std::uint8_t { letter, number, space, other };
struct Char {
  CharClass kind;
  std::size_t bytes;
};

// Bytes of 0x80 and more count as letters: then no word boundary ever falls inside a character, in any language.
inline Char byte_class(std::string_view text, std::size_t at) {
  const auto c = static_cast<unsigned char>(text[at]);
  const auto lower = static_cast<unsigned char>(c | 0x20);
  if (c >= 0x80 || (lower >= 'a' && lower <= 'z')) return {CharClass::letter, 1};
  if (c >= '0' && c <= '9') return {CharClass::number, 1};
  if (c == ' ' || (c >= '\t' && c <= '\r')) return {CharClass::space, 1};
  return {CharClass::other, 1};
}
// The character of well-formed UTF-8, by its Unicode category.
Char unicode_class(std::string_view text, std::size_t at);

// Categories of code points above 127, from utf8proc. Without it there are none, and text with such characters is
// refused.
bool has_unicode_tables();
CharClass class_of(std::uint32_t code_point);

inline std::size_t contraction_at(std::string_view rest) {
  constexpr std::array<std::string_view, 7> kEndings = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  for (std::string_view ending : kEndings) {
    if (rest.starts_with(ending)) return ending.size();
  }
  return 0;
}

// Calls word(text.substr(...)) for each word; together they are the text.
template <class Classify, class Word>
void split_words(std::string_view text, bool contractions, Classify classify, Word word) {
  const auto run_end = [&](std::size_t at, CharClass kind) {
    while (at < text.size()) {
      const Char c = classify(text, at);
      if (c.kind != kind) break;
      at += c.bytes;
    }
    return at;
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = contractions && text[at] == '\'' ? at + contraction_at(text.substr(at)) : at;
    if (end == at) {
      const std::size_t start = text[at] == ' ' && at + 1 < text.size() ? at + 1 : at;  // the optional space of a word
      const CharClass kind = classify(text, start).kind;
      if (kind != CharClass::space) end = run_end(start, kind);
    }
    if (end == at) {  // white space: all of a run, but what stands before a word is left to the word
      std::size_t last = at;
      for (end = at; end < text.size(); end += classify(text, end).bytes) {
        if (classify(text, end).kind != CharClass::space) break;
        last = end;
      }
      if (end < text.size() && last > at) end = last;
    }
    word(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace quadrille
