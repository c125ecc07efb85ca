// SPDX-License-Identifier: Apache-2.0
// This process among the others of an MPI launcher: waiting that tests and sleeps, the deadline, and the control
// messages by which an error reaches everyone. MPI's own collectives are not used: they cannot be interrupted, and
// their order of summation is their own. Any thread may use it, each in groups of its own: one mutex is held for each
// look into MPI and released between looks, so that threads which wait for different messages all get on. Used by
// group.cpp and world.cpp of this folder.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "parallelism/message.h"
#include "parallelism/world.h"

namespace quadrille::mpi {

void check(int result, const char* call);  // throws Error with MPI's words

enum class Progress : std::uint8_t { idle, flowing, finished };  // flowing: bytes are under way, do not sleep long

// Something one rank waits for, and what to say if it does not come. Ranks are those of the group. The transport calls
// its functions with its mutex held.
class Wait {
 public:
  Wait(const Header& header, const std::string& group, const std::vector<int>& world_ranks)
      : header(header), group(group), world_ranks(world_ranks) {}
  virtual ~Wait() = default;
  virtual void start() {}          // once, before the first step
  virtual Progress step() = 0;     // throws Disagreement
  virtual void stop() noexcept {}  // after a failure: its buffers will go
  virtual std::vector<int> missing() const = 0;
  const Header& header;
  const std::string& group;
  const std::vector<int>& world_ranks;
  bool sleeps = false;  // gives the core away at once between two looks
};

// Another message came than the one awaited: the world fails with these words.
struct Disagreement {
  std::string text;
};

// What goes before the numbers of every message. `context` names the group.
struct Envelope {
  std::uint64_t context = 0;
  Header header;
  std::int64_t payload = 0;  // bytes
};
constexpr std::int64_t kInline = 4000;  // payloads up to here travel with their envelope

constexpr auto kAnswerTime = std::chrono::milliseconds(1000);  // for the answers to a claim

class Transport {
 public:
  // Starts MPI and checks what was wanted against what the launcher gave.
  explicit Transport(const WorldOptions&);
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::int64_t chunk_bytes() const { return chunk_bytes_; }

  // Two tags for a group, this one and the next; throws Error when another living group of this process has them.
  int open_tags(std::uint64_t context, const std::string& group);
  void close_tags(int tag) noexcept;

  // Returns when the wait is over. Throws Error (deadline, a rank that left) or Poisoned.
  void drive(Wait&);
  // Copies the message and sends it in its own time.
  void post(int world_rank, int tag, const Envelope&, const void* payload, const std::string& group, int peer);

  bool help_sends() noexcept;  // true while posted messages are under way
  bool failed() noexcept;      // looks for news first
  void refuse_if_poisoned();
  // Tells everyone that the world has failed, and waits a moment for their answers. Of several ranks that claim at the
  // same time the lowest speaks; the others' claims answer its own.
  void claim(const std::string& message) noexcept;
  // A request is left behind whose buffers will go: from now on MPI must not move data, so it is not called any more.
  // With the mutex held, and only after the world has failed.
  void abandon() noexcept { abandoned_ = true; }
  bool abandoned() const noexcept { return abandoned_; }

  [[noreturn]] void throw_cause() const;  // Error on the rank that speaks, Poisoned elsewhere
  void farewell();                        // all ended well: waits for everyone, then ends MPI
  // After a failure: a rank that does not speak lets the launcher end it, so that the speaker's words come first. If
  // somebody did not answer, the speaker's exit takes them along (MPI_Abort). A speaker may be unable to come (its
  // courier noticed the failure while its own thread hangs): then the lowest other rank speaks.
  void prepare_exit() noexcept;

 private:
  enum class Kind : std::int32_t { poison, answer, spoken, left };
  struct Control {
    Kind kind = Kind::poison;
    char text[2000] = {};
  };
  struct Posted;

  // All of what follows is called with the mutex held; a Lock is given to those who may release it for a while.
  using Lock = std::unique_lock<std::mutex>;
  Lock enter();
  void enter_again(Lock&);
  template <class Duration>
  void sleep(Lock&, Duration);
  void check_options(const WorldOptions&, int thread_level) const;
  void tell(int world_rank, Kind, const std::string& text);
  void listen();
  void look(Lock&);        // handles messages, and fails the world when a signal was noted
  void handle_messages();  // control messages; frees sent ones
  void hear(int from, const Control&);
  void refuse(Lock&);  // throws the cause if the world has failed
  void claim(Lock&, const std::string& message, std::chrono::milliseconds answer_time) noexcept;
  [[noreturn]] void give_up(Lock&, const std::string& message);  // claims, then throws
  void drive(Lock&, Wait&);
  Progress step(Lock&, Wait&);
  void flush();
  std::string trouble(Wait&, bool expired) const;

  std::mutex mutex_;                  // of MPI and of all that changes below
  std::atomic<int> at_the_door_ = 0;  // threads that wait for the mutex
  int rank_ = 0, size_ = 1;
  double timeout_seconds_;
  std::int64_t chunk_bytes_;
  const std::atomic<int>* interrupted_;
  int tag_limit_ = 32767;
  std::map<int, std::uint64_t> tags_;
  std::list<std::shared_ptr<Posted>> posted_;
  std::list<std::pair<MPI_Request, std::unique_ptr<Control>>> told_;
  MPI_Request heard_ = MPI_REQUEST_NULL;
  Control ear_;
  std::vector<char> left_, answered_;
  int speaker_ = -1;     // the rank whose words count
  bool spoken_ = false;  // it is about to say them
  bool poisoned_ = false, speaks_ = false, all_answered_ = true, abandoned_ = false;
  bool gave_up_ = false;   // the cause is one of the world itself
  bool claiming_ = false;  // a thread of this rank waits for answers
  std::string cause_;
};

// One message on its way out. The payload must stay until done(); the envelope is kept here. Used with the transport's
// mutex held, like Arrival.
class Departure {
 public:
  Departure() = default;
  Departure(const Departure&) = delete;
  Departure& operator=(const Departure&) = delete;
  ~Departure() { stop(); }
  void start(Transport&, int world_rank, int tag, const Envelope&, const void* payload);
  bool done();
  void stop() noexcept;  // after an error: the payload will not stay

 private:
  Transport* transport_ = nullptr;
  std::vector<std::byte> packet_;
  std::vector<MPI_Request> requests_;
};

// One message on its way in, to a place that must stay until done().
class Arrival {
 public:
  Arrival() = default;
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;
  ~Arrival() { take_back(); }
  void expect(Transport&, int world_rank, int tag, void* place, std::int64_t bytes);
  bool done() const { return state_ == State::done; }
  void take_back() noexcept;  // after an error: the place will not stay
  // finished once: when the envelope has come it is shown to `accept`, which throws if it is not the one awaited.
  template <class Accept>
  Progress step(Accept accept) {
    if (state_ == State::done) return Progress::finished;
    if (!tested()) return state_ == State::payload ? Progress::flowing : Progress::idle;
    if (state_ == State::packet) accept(envelope());
    advance();
    return done() ? Progress::finished : Progress::flowing;
  }

 private:
  enum class State : std::uint8_t { done, packet, payload };
  bool tested();
  const Envelope& envelope();
  void advance();
  void next_chunk();

  Transport* transport_ = nullptr;
  State state_ = State::done;
  int peer_ = 0, tag_ = 0;
  std::byte* place_ = nullptr;
  std::int64_t bytes_ = 0, got_ = 0, chunk_ = 0;
  std::vector<std::byte> packet_;
  Envelope envelope_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace quadrille::mpi
