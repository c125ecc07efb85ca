// SPDX-License-Identifier: Apache-2.0
// What WordPiece and BLEU ask of characters. Decoding, ASCII and white space are known to every build; the rest comes
// from utf8proc (unicode_utf8proc.cpp), and a build without it refuses characters above 127 by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quadrille {

struct CodePoint {
  std::uint32_t value;
  std::size_t bytes;
};
// The character that begins at text[at]; where the bytes are not UTF-8, the one byte as it is, beyond all characters.
inline CodePoint code_point_at(std::string_view text, std::size_t at) {
  constexpr std::uint32_t kNone = 0x110000;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i])); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes > text.size() - at) return {kNone + lead, 1};
  std::uint32_t value = lead & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {kNone + lead, 1};
    value = value << 6 | (byte(i) & 0x3f);
  }
  return {value, bytes};
}
void append_utf8(std::uint32_t code_point, std::string& text);

// Unicode's property White_Space (PropList.txt), and the four separators of ASCII below it.
constexpr bool is_white_space(std::uint32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

// Of characters above 127.
enum class Kind : std::uint8_t { letter, control, punctuation, other };
Kind kind_of(std::uint32_t code_point);       // control: categories Cc and Cf; punctuation: P*
std::uint32_t small_letter(std::uint32_t c);  // itself where it has none
// Appends the canonical decomposition (NFD) of one character without its marks (category Mn).
void append_without_marks(std::uint32_t code_point, std::string& text);

std::string lower_case(std::string_view text);

}  // namespace quadrille
