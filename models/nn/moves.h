// SPDX-License-Identifier: Apache-2.0
// The messages of the crossings: numbers of a value moved along one mesh axis. Parts of unequal size travel padded to
// the largest; cutting and pasting along any dim goes through Ops::move_block. Used by the tape, and by whoever needs a
// whole parameter on every rank. Formulas of docs/law.md 2.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "core/arena.h"
#include "kernels/ops.h"
#include "parallelism/plan.h"

namespace quadrille {

// Everything a rank computes with. One per rank thread; tapes refer to it.
struct Context {
  const Plan& plan;
  const Ops& ops;
  Stream& stream;
  Arena& arena;
  Ledger& ledger;
  DType dtype = DType::f32;   // of activations and of weights as blocks use them
  bool tf32 = false;          // products may round f32 operands to TF32
  bool step_matters = false;  // set by tapes: an op was told the number of the step (dropout's masks)
  const Mesh& mesh() const { return plan.mesh(); }
};

// A message under way and what it will have made. wait() must be called once; what it gives is complete.
class [[nodiscard]] Later {
 public:
  Later() = default;
  explicit Later(Tensor made) : made_(std::move(made)) {}
  Later(Ticket ticket, Tensor made, std::function<void()> finish = {})
      : ticket_(std::move(ticket)), made_(std::move(made)), finish_(std::move(finish)) {}
  Tensor wait(Stream& stream) {
    std::move(ticket_).wait(stream);
    if (finish_) finish_();
    finish_ = {};
    return std::exchange(made_, {});
  }

 private:
  Ticket ticket_;
  Tensor made_;
  std::function<void()> finish_;  // puts the message's numbers in their place
};

// Each result is a new tensor at the high end of the arena. `parts`: the states under which the value is split on m.
Tensor gather_parts(Context&, const Tensor& mine, const Dims&, const States& parts,
                    int m);  // all-gather: the whole along m
Tensor scatter_sum(Context&, const Tensor& whole, const Dims&, const States& parts,
                   int m);  // reduce-scatter: own part of the sum
// The same begun over this group, which must join the ranks of m.
Later begin_scatter_sum(Context&, const Tensor& whole, const Dims&, const States& parts, int m, Communicator&);
Tensor exchange_parts(Context&, const Tensor& mine, const Dims&, const States& from, const States& to,
                      int m);                                                             // all-to-all
Tensor own_part(Context&, const Tensor& whole, const Dims&, const States& parts, int m);  // cut, nothing sent
Tensor pasted_into_zeros(Context&, const Tensor& part, const Dims&, const States& parts,
                         int m);  // the reverse of own_part

// Along a sequence that is split over several mesh axes, in one message, to and from its natural order, whatever order
// the ranks hold positions in. `over`: all mesh axes on which it is split.
Tensor gather_sequence(Context&, const Tensor& mine, const Dims&, const States& parts, MeshAxes over);
Tensor scatter_sequence_sum(Context&, const Tensor& whole, const Dims&, const States& parts, MeshAxes over);
// The places on the mesh of the member of the group along `over` that has this rank there.
std::vector<int> places_of(const Mesh&, MeshAxes over, int member);

Later begin_sum_over(Context&, const Tensor& inout, MeshAxes over, Communicator&);
void sum_over(Context&, const Tensor& inout, MeshAxes over, Reduce = Reduce::sum);  // all-reduce; nothing on short axes

}  // namespace quadrille
