// SPDX-License-Identifier: Apache-2.0
// Messages that travel while their rank computes. A Courier is one thread beside the rank's own; the collectives (and,
// where asked for, sends) of a communicator that it carries return at once and run on that thread, all of them in the
// order in which they were posted. It sleeps when it waits, so it takes no core from those who compute. Used through
// Mesh::beside.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "parallelism/communicator.h"

namespace quadrille {

enum class Sends : std::uint8_t { at_once, carried };  // of a carried group: on the calling thread, or the courier's

class Courier {
 public:
  // `keep_entries`: as in Ledger. Belongs to one rank, and is declared before the communicators that it carries.
  explicit Courier(bool keep_entries = false);
  // Completes what was posted. While an exception passes, it gives up instead (see `attend`), with a message that can
  // only say that there was an exception.
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // Returns what `work` returns. If it throws while messages are under way, the world is failed with the message of
  // what was thrown, messages not yet begun are dropped, and the exception travels on only when no tensor is touched
  // any more. So work that posts runs inside of this, and the device of its tensors lives outside.
  template <class Work>
  auto attend(Work&& work) {
    try {
      return work();
    } catch (const std::exception& error) {
      give_up(error.what());
      throw;
    } catch (...) {
      give_up("an exception of unknown type");
      throw;
    }
  }

  void drain();  // returns when nothing is under way; throws what went wrong with any message, like Ticket::wait

  // Adds to the rank's ledger the traffic of all messages completed since the last time: volume and seconds as for
  // others, nothing exposed (what a wait exposed is in that ledger already), trace entries on a track of their own.
  void settle_accounts(Ledger& of_the_rank);

 private:
  class Office;
  class Carried;
  friend std::unique_ptr<Communicator> carried_by(Courier&, std::unique_ptr<Communicator>, Sends);
  void give_up(const std::string& message) noexcept;

  std::shared_ptr<Office> office_;  // tickets may outlive the courier
  int exceptions_;                  // under way at birth
};

// The same group, its collectives carried:
// - They return at once. Their tensors must not be written, and what they make not be read, before the ticket has been
//   waited for; later messages carried by the same courier may use them without. The tensors are kept alive until then;
//   the waiting thread lets go of them (so an arena sees the same history every time), for a dropped ticket the
//   courier's.
// - `Ticket::wait` sleeps until the message is complete, and throws what went wrong: Error, WorldFailure or Poisoned,
//   after the world has been failed with the same message. After a failure nothing is carried any more: what was posted
//   later fails alike, and posting throws.
// - Dropping a ticket never waits; the message travels all the same. Before a device goes, its messages must be through
//   (waited for, or drained).
// - Ranks that share several carried groups must post to them in one order.
// - receive runs at once on the calling thread, in no order with what is carried, and so does send unless sends are
//   carried: then it is as a collective, at the price of one group more for each rank (a group has one thread at a
//   time, so each rank's letters go through a group in which its courier sends and all others receive).
// - barrier and exchange first wait for all that was posted; a split is carried too.
// - It cannot deadlock where the same program could not with everything done at the place where it is posted. Put all
//   messages of all ranks in the order of such a run. The first of them that is not over has nothing before it, on any
//   member, that is not over: each member has posted it or is free to, and it is at the head of its courier. So it gets
//   on, whatever the order in which other stages post theirs. A send never waits for its receiver.
// - The ledger given to report_to gets what the calling thread waited (`exposed`, entries of kind wait) and the bill of
//   sends and receives; the bill of carried messages is the courier's until it settles. Reports nowhere until told.
std::unique_ptr<Communicator> carried_by(Courier&, std::unique_ptr<Communicator> inner, Sends = Sends::at_once);

}  // namespace quadrille
