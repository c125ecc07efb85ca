// SPDX-License-Identifier: Apache-2.0
#include "parallelism/threads/room.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/error.h"
#include "parallelism/world.h"

namespace quadrille::threads {

namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point deadline_in(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Longer than a wake-up through the kernel is worth, shorter than anyone could miss the core.
constexpr auto kSpin = std::chrono::microseconds(20);

void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

World::World(int ranks, double timeout_seconds)
    : timeout_seconds_(timeout_seconds),
      may_spin_(ranks <= static_cast<int>(std::thread::hardware_concurrency())),
      left_(static_cast<std::size_t>(ranks)) {}

std::string World::cause() const {
  const std::lock_guard lock(cause_mutex_);
  return cause_;
}

void World::throw_cause() const {
  const std::lock_guard lock(cause_mutex_);
  if (by_world_) throw WorldFailure(cause_);
  throw Error(cause_);
}

void World::refuse_if_poisoned() const {
  if (poisoned()) throw Poisoned(cause());
}

bool World::poison(int rank, const std::string& message, bool by_world) noexcept {
  {
    const std::lock_guard lock(cause_mutex_);
    if (poisoned()) return false;
    by_world_ = by_world;
    try {
      cause_ = fmt::format("rank {} on {}: {}", rank, host_name(), message);
    } catch (...) {  // no memory for the words: the others must still wake
    }
    poisoned_.store(true, std::memory_order_release);
  }
  wake_all();
  return true;
}

void World::give_up(int rank, const std::string& message) {
  if (poison(rank, message, true)) throw WorldFailure(cause());
  throw Poisoned(cause());
}

void World::leave(int rank) {
  left_[static_cast<std::size_t>(rank)].store(true, std::memory_order_release);
  wake_all();
}

void World::wake_all() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& known : rooms_)
    if (const auto room = known.lock()) room->wake();
}

void World::watch(const std::shared_ptr<Room>& room) {
  const std::lock_guard lock(mutex_);
  rooms_.push_back(room);
}

std::shared_ptr<Room> World::room(const Key& key, const std::vector<int>& world_ranks, const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto& [room, come] = opening_[key];
  if (!room) {
    room = std::make_shared<Room>(*this, next_id_++, world_ranks, name);
    std::erase_if(rooms_, [](const auto& known) { return known.expired(); });
    rooms_.push_back(room);
  }
  require(
      room->world_ranks() == world_ranks && room->name() == name,
      "the ranks disagree about a split: group {} with {} and group {} with {}. All must make the same splits in the "
      "same order, with one pure function",
      room->name(), rank_list(room->world_ranks()), name, rank_list(world_ranks));
  auto result = room;
  if (++come == world_ranks.size()) opening_.erase(key);
  return result;
}

Room::Room(World& world, std::uint64_t id, std::vector<int> world_ranks, std::string name)
    : world_(world),
      id_(id),
      world_ranks_(std::move(world_ranks)),
      name_(std::move(name)),
      size_(static_cast<int>(world_ranks_.size())),
      guests_(world_ranks_.size()),
      here_(world_ranks_.size(), 0) {
  for (int rank = 0; rank < size_; ++rank) mailboxes_.push_back(std::make_unique<Mailbox>());
}

// The empty lock makes sure that whoever read the flags before they changed is asleep by now and hears the call.
void Room::wake() noexcept {
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
  for (const auto& box : mailboxes_) {
    {
      const std::lock_guard lock(box->mutex);
    }
    box->changed.notify_all();
  }
}

void Room::spin_while(const std::atomic<std::uint64_t>& counter, std::uint64_t seen) const {
  if (!world_.may_spin()) return;
  const auto until = Clock::now() + kSpin;
  while (counter.load(std::memory_order_acquire) == seen && !world_.poisoned() && Clock::now() < until) {}
}

std::vector<int> Room::missing(bool only_gone) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank)
    if (!here_[static_cast<std::size_t>(rank)] && (!only_gone || gone(rank))) ranks.push_back(rank);
  return ranks;
}

void Room::enter(int rank, const Guest& guest) {
  const auto deadline = deadline_in(world_.timeout_seconds());
  std::unique_lock lock(mutex_);
  world_.refuse_if_poisoned();
  const std::uint64_t round = opened_.load(std::memory_order_relaxed);
  guests_[static_cast<std::size_t>(rank)] = guest;
  here_[static_cast<std::size_t>(rank)] = 1;
  if (++arrived_ == size_) {
    std::vector<Header> headers;
    for (const Guest& each : guests_) headers.push_back(each.header);
    if (const std::string text = disagreement(name_, headers); !text.empty()) {
      lock.unlock();
      world_.give_up(world_rank(rank), text);
    }
    std::fill(here_.begin(), here_.end(), 0);
    arrived_ = 0;
    working_ = size_;
    opened_.store(round + 1, std::memory_order_release);
    lock.unlock();
    changed_.notify_all();
    return;
  }
  if (!guest.sleeps) {
    lock.unlock();
    spin_while(opened_, round);
    lock.lock();
  }
  bool expired = false;
  while (opened_.load(std::memory_order_relaxed) == round) {
    world_.refuse_if_poisoned();  // the round did not open and never will: nobody touches our buffers
    std::string text;
    if (const auto gone_ranks = missing(true); !gone_ranks.empty())
      text = quadrille::gone(name_, guest.header, gone_ranks);
    else if (expired)
      text = late(name_, guest.header, world_.timeout_seconds(), missing(false));
    if (!text.empty()) {
      lock.unlock();
      world_.give_up(world_rank(rank), text);
    }
    expired = changed_.wait_until(lock, deadline) == std::cv_status::timeout;
  }
}

void Room::leave(bool sleeps) noexcept {
  std::unique_lock lock(mutex_);
  const std::uint64_t round = closed_.load(std::memory_order_relaxed);
  if (--working_ == 0) {
    closed_.store(round + 1, std::memory_order_release);
    lock.unlock();
    changed_.notify_all();
    return;
  }
  if (!sleeps) {
    lock.unlock();
    spin_while(closed_, round);
    lock.lock();
  }
  changed_.wait(lock, [&] { return closed_.load(std::memory_order_relaxed) != round; });
}

void Room::put(int from, int to, const Header& header, const void* data) {
  world_.refuse_if_poisoned();
  Mailbox& box = mailbox(to);
  const Label label{from, header.sequence};
  const std::int64_t bytes = header.count * size_of(header.dtype);
  {
    const std::lock_guard lock(box.mutex);
    Parcel parcel{header, {}, false};
    if (const auto place = box.places.find(label); place != box.places.end() && fits(place->second.first, header)) {
      copy_bytes(place->second.second, data, bytes);
      parcel.delivered = true;
    } else {
      const auto* first = static_cast<const std::byte*>(data);
      if (bytes > 0) parcel.bytes.assign(first, first + bytes);
    }
    box.parcels.emplace(label, std::move(parcel));
  }
  box.changed.notify_all();
}

void Room::announce(int from, int to, const Header& header, void* data) {
  world_.refuse_if_poisoned();
  Mailbox& box = mailbox(to);
  const std::lock_guard lock(box.mutex);
  box.places[{from, header.sequence}] = {header, data};
}

void Room::take(int from, int to, const Header& header, void* data) {
  const auto deadline = deadline_in(world_.timeout_seconds());
  Mailbox& box = mailbox(to);
  const Label label{from, header.sequence};
  std::unique_lock lock(box.mutex);
  bool expired = false;
  for (;;) {
    const auto found = box.parcels.find(label);
    if (found != box.parcels.end()) {
      const Parcel parcel = std::move(found->second);
      box.parcels.erase(found);
      box.places.erase(label);
      if (fits(header, parcel.header)) {
        if (!parcel.delivered) copy_bytes(data, parcel.bytes.data(), header.count * size_of(header.dtype));
        return;
      }
      lock.unlock();
      world_.give_up(world_rank(to), mismatch(name_, to, header, from, parcel.header));
    }
    std::string text;
    if (world_.poisoned() || expired || gone(from)) {
      box.places.erase(label);
      world_.refuse_if_poisoned();
      const int peer[] = {from};
      text = gone(from) ? quadrille::gone(name_, header, peer) : late(name_, header, world_.timeout_seconds(), peer);
      lock.unlock();
      world_.give_up(world_rank(to), text);
    }
    expired = box.changed.wait_until(lock, deadline) == std::cv_status::timeout;
  }
}

void Room::withdraw(int from, int to, const Header& header) noexcept {
  Mailbox& box = mailbox(to);
  const std::lock_guard lock(box.mutex);
  box.places.erase({from, header.sequence});
}

}  // namespace quadrille::threads
