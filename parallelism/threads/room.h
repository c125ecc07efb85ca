// SPDX-License-Identifier: Apache-2.0
// Where the rank threads of one group meet, and the world that all rooms of a run belong to. A collective is: enter
// (wait for all, compare headers), work on each other's buffers, leave (wait for all). Nobody leaves a room while
// another still works in it, failed or not: that is what keeps a failing rank's buffers valid for those who read them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parallelism/message.h"

namespace quadrille::threads {

class Room;

class World {
 public:
  World(int ranks, double timeout_seconds);

  double timeout_seconds() const { return timeout_seconds_; }
  bool may_spin() const { return may_spin_; }
  bool poisoned() const { return poisoned_.load(std::memory_order_acquire); }
  std::string cause() const;
  void refuse_if_poisoned() const;  // throws Poisoned
  // The first message stays and wakes everyone. Must not be called with a room locked.
  // True: this was the first. `by_world`: a WorldFailure, not a rank's own Error.
  bool poison(int rank, const std::string& message, bool by_world = false) noexcept;
  [[noreturn]] void throw_cause() const;
  [[noreturn]] void give_up(int rank, const std::string& message);  // poisons, then throws
  void leave(int rank);                                             // this rank ended well and will not come again
  bool has_left(int rank) const { return left_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire); }

  // The room of one group. All members come here with the same key (parent, ordinal of the split, colour); the first
  // one opens it, and it is held until the last one has come.
  using Key = std::tuple<std::uint64_t, std::uint64_t, int>;
  std::shared_ptr<Room> room(const Key&, const std::vector<int>& world_ranks, const std::string& name);
  void watch(const std::shared_ptr<Room>&);  // from now on it hears of poison

 private:
  void wake_all() noexcept;

  const double timeout_seconds_;
  const bool may_spin_;
  std::atomic<bool> poisoned_ = false;
  std::vector<std::atomic<bool>> left_;
  mutable std::mutex cause_mutex_;  // innermost: may be taken with a room locked
  std::string cause_;
  bool by_world_ = false;
  std::mutex mutex_;  // of what follows; outermost: rooms are locked under it
  std::uint64_t next_id_ = 1;
  std::map<Key, std::pair<std::shared_ptr<Room>, std::size_t>> opening_;  // and how many have come
  std::vector<std::weak_ptr<Room>> rooms_;
};

class Room {
 public:
  Room(World& world, std::uint64_t id, std::vector<int> world_ranks, std::string name);

  struct Guest {  // what a rank brings to a collective
    Header header;
    void* out = nullptr;
    const void* in = nullptr;
    const std::string* text = nullptr;
    bool sleeps = false;  // gives its core away at once while it waits
  };
  // Between enter and leave, `guests` of all ranks may be used. leave() never throws and waits for those at work only.
  void enter(int rank, const Guest&);
  void leave(bool sleeps) noexcept;
  const std::vector<Guest>& guests() const { return guests_; }

  // Messages from rank to rank. `put` copies and returns; `announce` names a place for the number-th message, so that
  // it can be copied there directly; `take` waits for it; `withdraw` makes the place unknown again.
  void put(int from, int to, const Header&, const void* data);
  void announce(int from, int to, const Header&, void* data);
  void take(int from, int to, const Header&, void* data);
  void withdraw(int from, int to, const Header&) noexcept;

  std::uint64_t id() const { return id_; }
  const std::string& name() const { return name_; }
  const std::vector<int>& world_ranks() const { return world_ranks_; }
  void wake() noexcept;

 private:
  struct Parcel {
    Header header;
    std::vector<std::byte> bytes;  // empty when it was delivered to the announced place
    bool delivered = false;
  };
  using Label = std::pair<int, std::uint64_t>;  // sender, its number
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<Label, Parcel> parcels;
    std::map<Label, std::pair<Header, void*>> places;
  };

  void spin_while(const std::atomic<std::uint64_t>& counter, std::uint64_t seen) const;
  std::vector<int> missing(bool only_gone) const;  // of those not yet here
  bool gone(int rank) const { return world_.has_left(world_ranks_[static_cast<std::size_t>(rank)]); }
  int world_rank(int rank) const { return world_ranks_[static_cast<std::size_t>(rank)]; }
  Mailbox& mailbox(int rank) { return *mailboxes_[static_cast<std::size_t>(rank)]; }

  World& world_;
  const std::uint64_t id_;
  const std::vector<int> world_ranks_;
  const std::string name_;
  const int size_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Guest> guests_;
  std::vector<char> here_;
  int arrived_ = 0, working_ = 0;
  std::atomic<std::uint64_t> opened_ = 0, closed_ = 0;  // rounds
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
};

}  // namespace quadrille::threads
