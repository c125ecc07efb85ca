// SPDX-License-Identifier: Apache-2.0
// How a dim of a value is dealt out to the ranks of a group, and the two messages between parts and whole. Parts of
// unequal size, or of several runs, travel packed: a slot for each rank, padded to the largest. Used by moves.cpp and
// moves_sequence.cpp alone.
#pragma once

#include <vector>

#include "models/nn/moves.h"

namespace quadrille {

struct Cut {
  std::int64_t outer = 1, inner = 1, whole = 0;  // elements before and after the dim, its rows over all ranks
  std::vector<std::vector<Slice>> runs;          // by rank of the group, of the whole
  int own = 0;                                   // this rank
  std::vector<std::int64_t> counts;              // rows of each rank
  std::int64_t largest = 0;
  bool even = true;      // the counts are equal
  bool in_order = true;  // and each is one run, one after the other

  // Fills what follows from the runs.
  Cut(std::int64_t outer, std::int64_t inner, std::int64_t whole, std::vector<std::vector<Slice>> runs, int own);
  std::int64_t slot() const { return outer * largest * inner; }
  std::int64_t own_count() const { return counts[static_cast<std::size_t>(own)]; }
  bool lies_as_sent() const { return in_order && outer == 1; }  // parts lie in the whole as they arrive
};

// `group`: in the order of the cut's ranks. Results are new tensors at the high end of the arena.
Tensor gather_cut(Context&, const Cut&, Communicator& group, const Tensor& mine, const Shape& whole);
Later begin_scatter_cut(Context&, const Cut&, Communicator& group, const Tensor& whole, const Shape& mine);

}  // namespace quadrille
