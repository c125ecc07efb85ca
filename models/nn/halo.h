// SPDX-License-Identifier: Apache-2.0
// Rows of a split height that windows reach beyond a rank's own: which rank holds them, which wants them, and the
// messages between the two. Output rows [o, o') of a window of k rows, stride s and padding p reach input rows
// [o·s - p, (o'-1)·s - p + k), clipped to the image, whoever holds them: with a stride, or few rows, these are not
// always the neighbour's, nor as many above as below.
#pragma once

#include <cstdint>
#include <vector>

#include "models/nn/moves.h"

namespace quadrille {

// The input rows that a run of output rows reaches.
Slice reached(Slice out, std::int64_t kernel, std::int64_t stride, std::int64_t pad, std::int64_t height);

class Halo {
 public:
  // `held`, `wanted`: runs of the whole height, by rank of the group.
  Halo(Communicator& group, std::vector<Slice> held, std::vector<Slice> wanted);
  bool needed() const { return needed_; }  // some rank wants other rows than it holds
  // Between images [rows, height, width, channels] of the rows held and of those wanted; new tensors at the high end of
  // the arena. A row that several ranks wanted gets the sum of what they give back, in the order of ranks.
  Tensor borrow(Context&, const Tensor& held) const;
  Tensor give_back(Context&, const Tensor& wanted) const;

 private:
  Tensor exchange(Context&, const Tensor&, const std::vector<Slice>& from, const std::vector<Slice>& to, Write) const;
  Communicator* group_;
  std::vector<Slice> held_, wanted_;
  int own_;
  bool needed_ = false;
};

}  // namespace quadrille
