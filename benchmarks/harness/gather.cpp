// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/harness/gather.h"

#include <algorithm>

namespace quadrille {

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;  // of a rank's text per exchange

std::vector<std::string> pieces_of(const std::string& text) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.size(), at + kPiece);
    if (const auto line = text.rfind('\n', end - 1); end < text.size() && line != std::string::npos && line >= at)
      end = line + 1;
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

}  // namespace

std::vector<std::string> gather_text(Communicator& world, const std::string& mine) {
  const std::vector<std::string> pieces = pieces_of(mine);
  std::int64_t most = 0;
  for (const Json& count : world.exchange(static_cast<std::int64_t>(pieces.size())))
    most = std::max(most, count.integer());
  std::vector<std::string> all(static_cast<std::size_t>(world.rank() == 0 ? world.size() : 0));
  for (std::size_t i = 0; i < static_cast<std::size_t>(most); ++i) {
    const std::vector<Json> given = world.exchange(i < pieces.size() ? Json(pieces[i]) : Json(""));
    for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank] += given[rank].string();
  }
  return all;
}

}  // namespace quadrille
