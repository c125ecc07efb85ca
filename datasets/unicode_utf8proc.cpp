// SPDX-License-Identifier: Apache-2.0
// Categories of characters from utf8proc (small, no dependencies; own tables would have to follow Unicode's versions).
#include <utf8proc.h>

#include "datasets/words.h"

namespace quadrille {
namespace {

// Unicode's property White_Space above 127 (PropList.txt).
bool is_space(std::uint32_t c) {
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

}  // namespace

bool has_unicode_tables() { return true; }

CharClass class_of(std::uint32_t code_point) {
  if (is_space(code_point)) return CharClass::space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::number;
    default:
      return CharClass::other;
  }
}

}  // namespace quadrille
