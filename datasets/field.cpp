// SPDX-License-Identifier: Apache-2.0
// See field.h.
#include "datasets/field.h"

#include <algorithm>

#include "core/error.h"

namespace quadrille {

std::string text_of(const Fields& fields) {
  std::string text;
  for (const Field& f : fields)
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", f.name, f.shape.text(), name_of(f.type));
  return text.empty() ? "none" : text;
}

const Field& field_named(const Fields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  require(found != fields.end(), "no field \"{}\" in a row; there are: {}", name, text_of(fields));
  return *found;
}

void require_fields(const Fields& wanted, const Fields& offered) {
  const bool all = std::ranges::all_of(wanted, [&](const Field& f) { return std::ranges::count(offered, f) > 0; });
  require(all,
          "the model takes rows of {}; the data have {}: change the sizes of the model or of the data until these "
          "agree, or take another data set",
          text_of(wanted), text_of(offered));
}

Fields text_fields(std::int64_t tokens) { return {{"ids", {tokens}, DType::i32}, {"labels", {tokens}, DType::i32}}; }

}  // namespace quadrille
