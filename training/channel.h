// SPDX-License-Identifier: Apache-2.0
// One direction in which the stages of a pipeline hand on what they made. With overlap "send" the rank's courier
// carries it while the stage goes on; the tensor is held until the next one is sent, on the device that only counts as
// well, so that an arena sees the same history. Used by the engine.
#pragma once

#include <memory>

#include "parallelism/plan.h"

namespace quadrille {

class Channel {
 public:
  // To the next stage (1) or the one before (-1), round a ring. A collective call of the mesh's world.
  // Traffic goes to `ledger`.
  Channel(const Plan&, int direction, Ledger&);

  void send(Tensor, Stream&);                  // waits for the one before
  void receive(const Tensor& place, Stream&);  // from the other side; returns when it is there
  void settle(Stream&);                        // what was sent has left, and nothing is held

 private:
  std::unique_ptr<Communicator> group_;
  int to_, from_;
  bool holds_;
  Tensor held_;
  Ticket under_way_;
};

}  // namespace quadrille
