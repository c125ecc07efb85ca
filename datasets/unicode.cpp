// SPDX-License-Identifier: Apache-2.0
// See unicode.h: what needs no tables.
#include "datasets/unicode.h"

namespace quadrille {

void append_utf8(std::uint32_t c, std::string& text) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((c >> shift) & 0x3f)); };
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xc0 | (c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    text += static_cast<char>(0xe0 | (c >> 12));
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xf0 | (c >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string lower_case(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (c.value < 0x80) {
      out += static_cast<char>(c.value >= 'A' && c.value <= 'Z' ? c.value + 32 : c.value);
    } else if (c.value >= 0x110000) {
      out += text[at];
    } else {
      append_utf8(small_letter(c.value), out);
    }
    at += c.bytes;
  }
  return out;
}

}  // namespace quadrille
