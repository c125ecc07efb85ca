// SPDX-License-Identifier: Apache-2.0
// A build without utf8proc: nothing is known of characters above 127, and whoever asks is refused.
#include "core/error.h"
#include "datasets/unicode.h"
#include "datasets/words.h"

namespace quadrille {

namespace {

[[noreturn]] void unknown(std::uint32_t code_point) {
  fail("the category of U+{:04X} is unknown to this build: install libutf8proc-dev and configure again", code_point);
}

}  // namespace

bool has_unicode_tables() { return false; }

CharClass class_of(std::uint32_t code_point) { unknown(code_point); }
Kind kind_of(std::uint32_t code_point) { unknown(code_point); }
std::uint32_t small_letter(std::uint32_t code_point) { unknown(code_point); }
void append_without_marks(std::uint32_t code_point, std::string&) { unknown(code_point); }

}  // namespace quadrille
