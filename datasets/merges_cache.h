// SPDX-License-Identifier: Apache-2.0
// Learned merges kept beside the text they come from, so that only the first run learns them. The file names the text's
// checksums and carries its own, so merges of another text or a damaged file are never used.
#pragma once

#include <vector>

#include "datasets/text.h"

namespace quadrille {

// Reads the cached merges of these files and this vocabulary; learns (and keeps, if the folder can be written)
// otherwise. Throws Error when the cached file is damaged.
std::vector<Merge> learned_merges(const TextFiles& train, std::int64_t vocabulary);
std::string merges_path(const TextFiles& train, std::int64_t vocabulary);

}  // namespace quadrille
