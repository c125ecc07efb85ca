// SPDX-License-Identifier: Apache-2.0
// What a row of data consists of: arrays with a name, the shape of one row and a type. Data sets offer them, models ask
// for them; they meet by name. Used by datasets, models, training and the harness.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace quadrille {

struct Field {
  std::string name;         // "ids", "labels", "image"
  Shape shape;              // of one row: [tokens], [height, width, channels]
  DType type = DType::i32;  // i32 or f32
  bool operator==(const Field&) const = default;
};
using Fields = std::vector<Field>;

// "ids [256] i32, labels [256] i32"
std::string text_of(const Fields&);
// Throws Error naming the fields there are.
const Field& field_named(const Fields&, std::string_view name);
// Throws Error with both lists unless each wanted field is offered with the same shape and type.
void require_fields(const Fields& wanted, const Fields& offered);

// What all text for predicting the next word has: ids and labels [tokens].
Fields text_fields(std::int64_t tokens);

}  // namespace quadrille
