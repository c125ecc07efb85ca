// SPDX-License-Identifier: Apache-2.0
// The toy models that `quadrille check` trains, one entry each: what they are made of, in which forms, and which axes
// they have to lay out. Their data follows from the fields they read (addressed_data.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "parallelism/plan.h"
#include "training/law/equality.h"

namespace quadrille {

inline constexpr std::int64_t kLawVocabulary = 509;  // a prime: never divides
inline constexpr std::int64_t kLawLayers = 3;        // uneven over two stages

// These divide by every extent that the number of ranks can give to their axis.
struct LawSizes {
  std::int64_t batch, tokens, heads, embed, mlp;
};

struct LawModel {
  std::string_view kind;
  std::vector<std::string> forms;
  std::vector<Axis> axes;  // beside batch, embed, mlp and vocab: which of sequence, heads, height
  // Its numbers depend on which rows are computed together, as those of batch norm do: the serial run must make the
  // same micro-batches.
  bool rows_matter = false;
  Bounds bf16 = kBoundsBf16;  // how far its numbers may lie apart in bf16
  Json (*config)(const std::string& form, const LawSizes&);
  bool has(Axis) const;
};
const LawModel& law_model(std::string_view kind);  // throws Error: there is no toy of this kind

}  // namespace quadrille
