// SPDX-License-Identifier: Apache-2.0
// The world of rank threads: one process, one thread per rank, sums where the buffers lie. It needs no launcher, so
// every strategy can be run and tested on a laptop; it is the default of every program.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>

#include "core/error.h"
#include "parallelism/group.h"
#include "parallelism/threads/room.h"
#include "parallelism/world.h"

namespace quadrille {

namespace {

using threads::Room;
using threads::World;

// A rank at work needs a moment to notice that its world has failed, however short its messages may take.
constexpr double kLeastGrace = 1;  // seconds

// Leaves the room on every path out of the work.
class Visit {
 public:
  Visit(Room& room, int rank, const Room::Guest& guest) : room_(room), sleeps_(guest.sleeps) {
    room_.enter(rank, guest);
  }
  ~Visit() { room_.leave(sleeps_); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  Room& room_;
  const bool sleeps_;
};

std::byte* at(void* base, std::int64_t bytes) { return static_cast<std::byte*>(base) + bytes; }
const std::byte* at(const void* base, std::int64_t bytes) { return static_cast<const std::byte*>(base) + bytes; }

void copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

// What one rank does while all are in the room. Every address is written by one rank only, and read by nobody else
// unless nobody writes it: all_reduce gives each rank a range of all buffers, the others write their own `out` alone.
void work(const Header& header, int rank, const std::vector<Room::Guest>& guests) {
  const int size = static_cast<int>(guests.size());
  const std::int64_t width = size_of(header.dtype), bytes = header.count * width;
  void* out = guests[static_cast<std::size_t>(rank)].out;
  switch (header.operation) {
    case Operation::all_reduce: {
      const Range mine = cache_aligned_part(header.count, header.dtype, size, rank);
      std::vector<void*> parts;
      for (const auto& guest : guests) parts.push_back(mine.count ? at(guest.out, mine.first * width) : nullptr);
      combine_everywhere(header.reduce, header.dtype, parts, mine.count);
      break;
    }
    case Operation::reduce_scatter: {
      std::vector<const void*> parts;
      for (const auto& guest : guests) parts.push_back(bytes ? at(guest.in, rank * bytes) : nullptr);
      combine_in_rank_order(header.reduce, header.dtype, parts, header.count, out);
      break;
    }
    case Operation::all_gather:
      for (int peer = 0; bytes > 0 && peer < size; ++peer)
        copy(at(out, peer * bytes), guests[static_cast<std::size_t>(peer)].in, bytes);
      break;
    case Operation::all_to_all:
      for (int peer = 0; bytes > 0 && peer < size; ++peer)
        copy(at(out, peer * (bytes / size)), at(guests[static_cast<std::size_t>(peer)].in, rank * (bytes / size)),
             bytes / size);
      break;
    case Operation::broadcast:
      if (rank != header.root) copy(out, guests[static_cast<std::size_t>(header.root)].in, bytes);
      break;
    case Operation::barrier:
    case Operation::exchange:
    case Operation::send:
    case Operation::receive:
      break;
  }
}

class ThreadGroup : public Group {
 public:
  ThreadGroup(std::shared_ptr<World> world, std::shared_ptr<Room> room, int rank)
      : Group(rank, static_cast<int>(room->world_ranks().size()), room->name(), Moves::host_numbers),
        world_(std::move(world)),
        room_(std::move(room)) {}

  void poison(const std::string& message) noexcept override { world_->poison(world_rank(rank()), message); }
  bool failed() noexcept override { return world_->poisoned(); }

 private:
  // Buffers stay alive until leave(), which no rank passes while another works: no references need to be kept.
  void collective(const Header& header, const Tensor& out, const Tensor& in) override {
    const Visit visit(*room_, rank(), {header, out.data(), in.data(), nullptr, sleeps()});
    work(header, rank(), room_->guests());
  }

  void post(const Header& header, const Tensor& tensor, int to) override {
    room_->put(rank(), to, header, tensor.data());
  }

  std::shared_ptr<Ticket::Pending> await(const Header& header, const Tensor& tensor, int from) override {
    return std::make_shared<Receipt>(room_, world_, header, tensor, from, rank());
  }

  std::vector<Json> exchange_values(const Header& header, const Json& mine) override {
    const std::string text = mine.text();
    std::vector<std::string> texts;
    {
      const Visit visit(*room_, rank(), {header, nullptr, nullptr, &text, sleeps()});
      for (const auto& guest : room_->guests()) texts.push_back(*guest.text);
    }
    std::vector<Json> values;
    for (std::size_t peer = 0; peer < texts.size(); ++peer)
      values.push_back(parse_json(texts[peer], fmt::format("rank {} of {}", peer, name())));
    return values;
  }

  std::unique_ptr<Group> subgroup(std::vector<int> members, int place, std::uint64_t ordinal, int colour,
                                  std::string name) override {
    world_->refuse_if_poisoned();
    for (int& member : members) member = world_rank(member);
    return std::make_unique<ThreadGroup>(world_, world_->room({room_->id(), ordinal, colour}, members, name), place);
  }

  int world_rank(int rank) const { return room_->world_ranks()[static_cast<std::size_t>(rank)]; }

  class Receipt : public Ticket::Pending {
   public:
    Receipt(std::shared_ptr<Room> room, std::shared_ptr<World> world, const Header& header, Tensor tensor, int from,
            int to)
        : world_(std::move(world)),
          room_(std::move(room)),
          header_(header),
          tensor_(std::move(tensor)),
          from_(from),
          to_(to) {
      room_->announce(from_, to_, header_, tensor_.data());
    }
    ~Receipt() override { room_->withdraw(from_, to_, header_); }
    void wait(Stream&) override { room_->take(from_, to_, header_, tensor_.data()); }

   private:
    std::shared_ptr<World> world_;
    std::shared_ptr<Room> room_;
    Header header_;
    Tensor tensor_;
    int from_, to_;
  };

  std::shared_ptr<World> world_;
  std::shared_ptr<Room> room_;  // refers to the world: declared after it
};

// Which rank threads have ended; the supervisor sleeps on it.
class Roll {
 public:
  explicit Roll(int ranks) : ended_(static_cast<std::size_t>(ranks), false) {}
  void sign_off(int rank) {
    const std::lock_guard lock(mutex_);
    ended_[static_cast<std::size_t>(rank)] = true;
    changed_.notify_all();
  }
  // Returns the ranks still running `grace_seconds` after the world was poisoned; empty when all have ended.
  std::vector<int> wait(const World& world, double grace_seconds) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running().empty() || world.poisoned(); });
    changed_.wait_for(lock, std::chrono::duration<double>(grace_seconds), [&] { return running().empty(); });
    return running();
  }

 private:
  std::vector<int> running() const {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < ended_.size(); ++rank)
      if (!ended_[rank]) ranks.push_back(static_cast<int>(rank));
    return ranks;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> ended_;
};

void run_rank(const std::shared_ptr<World>& world, const std::shared_ptr<Room>& room, int rank, const RankBody& body) {
  try {
    body(std::make_unique<ThreadGroup>(world, room, rank));
    world->leave(rank);
  } catch (const std::exception& error) {
    world->poison(rank, error.what());  // the first cause stays
  } catch (...) {
    world->poison(rank, "an exception of unknown type");
  }
}

// A thread cannot be ended from outside, and what it refers to must not go away under it. So the process ends here.
[[noreturn]] void end_without(const std::vector<int>& stuck, const std::string& cause, double seconds) {
  fmt::print(stderr, "quadrille: error: {} ({} did not end within {:g} s after that: the process ends without it)\n",
             cause, rank_list(stuck), seconds);
  std::_Exit(kExitStuckRank);
}

}  // namespace

void run_threads(const WorldOptions& options, const RankBody& body) {
  require(options.ranks >= 1, "a world of {} ranks was asked for: at least 1 is wanted", options.ranks);
  require(options.timeout_seconds > 0, "a timeout of {} s was asked for: more than 0 is wanted",
          options.timeout_seconds);
  const auto world = std::make_shared<World>(options.ranks, options.timeout_seconds);
  std::vector<int> ranks(static_cast<std::size_t>(options.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto room = std::make_shared<Room>(*world, 0, ranks, "world");
  world->watch(room);
  Roll roll(options.ranks);
  std::vector<std::thread> threads;
  try {
    for (const int rank : ranks) {
      threads.emplace_back([&, rank] {
        run_rank(world, room, rank, body);
        roll.sign_off(rank);
      });
    }
  } catch (const std::system_error& error) {
    const int started = static_cast<int>(threads.size());
    world->poison(started,
                  fmt::format("only {} of {} rank threads could be started ({}): fewer ranks, or a higher limit "
                              "(ulimit -u), are needed",
                              started, options.ranks, error.what()));
    for (int rank = started; rank < options.ranks; ++rank) roll.sign_off(rank);
  }
  const double grace = std::max(options.timeout_seconds, kLeastGrace);
  const auto stuck = roll.wait(*world, grace);
  if (!stuck.empty()) end_without(stuck, world->cause(), grace);
  for (auto& thread : threads) thread.join();
  if (world->poisoned()) world->throw_cause();
}

}  // namespace quadrille
