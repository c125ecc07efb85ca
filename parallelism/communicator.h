// SPDX-License-Identifier: Apache-2.0
// A group of ranks and the messages between them. Every wait has a deadline, every message a sequence-numbered header:
// when ranks disagree about what comes next, or one does not come, the world is poisoned first and then the exception
// travels; its one message names rank, host, operation, sequence number and who had not arrived. Sums run in rank
// order, element by element, so results do not depend on how messages are cut; NCCL alone has an order of its own.
// Implemented by threads/, mpi/, counting/, nccl/ and staged.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/json.h"
#include "core/ledger.h"
#include "core/tensor.h"

namespace quadrille {

enum class Reduce : std::uint8_t { sum, max };

// A message under way. Collectives and sends are done with the caller's numbers when the call returns (a send copies
// them), so only a receive has something to wait for. Destroying a ticket never waits: the buffers are shared with the
// communicator, which finishes alone.
class [[nodiscard]] Ticket {
 public:
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void wait(Stream& consumer) = 0;  // throws Error: deadline, poison
  };
  Ticket() = default;  // nothing to wait for
  explicit Ticket(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}
  void wait(Stream& consumer) && {
    if (pending_) pending_->wait(consumer);
    pending_.reset();
  }

 private:
  std::shared_ptr<Pending> pending_;
};

// Collectives block until all members have come, so ranks that share several groups must come to them in one order. A
// communicator is used by one thread at a time; different ones of a rank may be used by different threads at once (a
// second thread: courier.h). Tensors lie on the host; on the device where nccl/ or staged.cpp stand before the world,
// in the counting world anywhere. In place: the part of a gather or scatter may be the rank's own part of the whole.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;  // "world", "data", "data+x": for messages and the ledger

  // Tensors f32, f64, bf16 (combined in f32, rounded once) or i32 (no reductions). `full` has size() times the elements
  // of `mine`, in rank order.
  virtual Ticket all_reduce(const Tensor& inout, Reduce, Stream& producer) = 0;
  virtual Ticket all_gather(const Tensor& full, const Tensor& mine, Stream& producer) = 0;
  virtual Ticket reduce_scatter(const Tensor& mine, const Tensor& full, Reduce, Stream& producer) = 0;
  virtual Ticket all_to_all(const Tensor& out, const Tensor& in, Stream& producer) = 0;  // size() equal parts each
  virtual Ticket broadcast(const Tensor& inout, int root, Stream& producer) = 0;
  virtual Ticket send(const Tensor&, int to, Stream& producer) = 0;  // matched in order per pair
  virtual Ticket receive(const Tensor&, int from, Stream& producer) = 0;
  virtual void barrier() = 0;

  // Host side: everyone's value, in rank order. For configuration, inventory, stop flags, timings; not for numbers in
  // bulk.
  virtual std::vector<Json> exchange(const Json& mine) = 0;

  // The ranks of equal colour, in rank order. `colour_of` must be pure and the same function on every rank; nothing is
  // sent. Ranks must make the same splits in the same order.
  virtual std::unique_ptr<Communicator> split(const std::function<int(int rank)>& colour_of, std::string name) = 0;

  // Wakes everyone who waits, or will wait, in any group of this world with this message. Never throws.
  virtual void poison(const std::string& message) noexcept = 0;
  // Whether the world has failed, as far as this rank has heard; looks for news. Any thread may ask.
  virtual bool failed() noexcept = 0;

  // Traffic of this group goes to this ledger (inherited by later splits); null: nowhere.
  virtual void report_to(Ledger*) = 0;

  // From now on, waits of this group (and of its later splits) give the core away at once, instead of first looking
  // again quickly: for a thread beside the one that computes.
  virtual void sleep_in_waits() = 0;

  // Helps messages on their way that were sent and have not left yet; true while there are any. All other functions do
  // so too: this one is for a thread that has nothing else to do while the rank computes. Never throws.
  virtual bool help_sends() noexcept { return false; }

  // Whether messages travel on streams of the device, beside the maths, as they are: they are begun when a call
  // returns, and Ticket::wait makes the consumer's stream wait, not the host. Then no courier is needed.
  virtual bool on_streams() const { return false; }
  // Of such a world: from now on this group's collectives travel with the bulk, in no order with those of the groups
  // that were not told so.
  virtual void travel_in_bulk() {}
  // Books the seconds of messages that are through and not booked yet, for all groups of this rank. They are also
  // booked whenever the rank sends its next message.
  virtual void settle() {}
  // A collective call: sends and receives within this group will follow, so connections for them are made now, in an
  // order that all ranks have in common. Stages and rings call it before the first step.
  virtual void prepare_passing() {}
};

}  // namespace quadrille
