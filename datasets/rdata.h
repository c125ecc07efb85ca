// SPDX-License-Identifier: Apache-2.0
// Reads the data of an R package: the lazy-load pair NAME.rdx (index) and NAME.rdb (values), as R's "R Internals"
// manual describes its serialisation. Only what text needs: character vectors, and integer vectors and lists for the
// index. Every length is checked against what is left, so truncated or hostile files end in an Error. Used by
// fetch.cpp.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quadrille {

struct RVector {
  std::string name;
  std::vector<std::string> lines;
};

// The character vectors of the pair `stem`.rdx, `stem`.rdb; other values are passed over.
std::vector<RVector> read_r_character_vectors(const std::string& stem);
// The same from the two files' bytes; `name` stands in messages.
std::vector<RVector> parse_r_character_vectors(std::string_view rdx, std::string_view rdb, const std::string& name);

}  // namespace quadrille
