// SPDX-License-Identifier: Apache-2.0
#include "parallelism/mpi/transport.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "core/error.h"

namespace quadrille::mpi {

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr int kControlTag = 0, kFirstTag = 2;
// After a signal: launchers kill what still runs a second after their SIGTERM, and the words must be out by then.
constexpr auto kAnswerTimeAfterSignal = Milliseconds(300);
constexpr auto kLinger = Milliseconds(3000);  // longer: the speaker's exit is to come first

// Launchers pass on Ctrl-C as SIGTERM, and end so the other ranks when one of them was killed.
std::string interruption(int signal) {
  if (signal == SIGTERM)
    return "the run was interrupted by SIGTERM from its launcher (which was interrupted itself, or has lost a rank) "
           "before it had ended: there is no result";
  return fmt::format("the run was interrupted by signal {} before it had ended: there is no result", signal);
}

// Quick tests first, unless the thread is one that always sleeps: most messages are there at once. Then sleeps, short
// enough that nobody notices, long enough to leave the core to those who compute.
class Patience {
 public:
  explicit Patience(bool always_sleeps) : always_sleeps_(always_sleeps) { reset(); }
  void reset() { tests_ = always_sleeps_ ? kQuickTests : 0, pause_ = kShortest; }
  // `crowded`: another thread wants to look too, and a mere yield would not let it.
  void pause(Progress progress, bool crowded) {
    if (progress == Progress::flowing && (always_sleeps_ || crowded))
      std::this_thread::sleep_for(kShortest);
    else if (progress == Progress::flowing || (++tests_ < kQuickTests && !crowded))
      sched_yield();
    else
      std::this_thread::sleep_for(pause_), pause_ = std::min(pause_ * 2, kLongest);
  }

 private:
  static constexpr int kQuickTests = 200;
  static constexpr std::chrono::microseconds kShortest{10}, kLongest{300};
  const bool always_sleeps_;
  int tests_ = 0;
  std::chrono::microseconds pause_ = kShortest;
};

// MPI_Init waits without end for processes that never call it, and cannot be called off. So a second thread watches,
// and ends the process; the launcher then ends the rest. Higher ranks wait a little longer: one message is enough.
class StartDeadline {
 public:
  explicit StartDeadline(double seconds) : seconds_(seconds), watch_([this] { watch(); }) {}
  ~StartDeadline() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    watch_.join();
  }
  StartDeadline(const StartDeadline&) = delete;
  StartDeadline& operator=(const StartDeadline&) = delete;

 private:
  void watch() {
    const Launcher launcher = launcher_of_this_process();
    const std::chrono::duration<double> patience(seconds_ + std::min(launcher.rank, 8));
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, patience, [this] { return over_; })) return;
    fmt::print(
        stderr,
        "quadrille: error: rank {} on {}: MPI did not start within {:g} s: of the {} processes of the launcher at "
        "least one has not called MPI_Init; start the same program on every rank, or give more time (--timeout)\n",
        launcher.rank, host_name(), seconds_, launcher.ranks);
    std::fflush(stderr);
    std::_Exit(kExitStuckRank);
  }
  static Launcher launcher_of_this_process() {
    try {
      return launcher_from_environment();
    } catch (const Error&) {  // told elsewhere
      return {};
    }
  }

  const double seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread watch_;  // starts last: it uses all of the above
};

}  // namespace

void check(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(result, text, &length);
  fail("{} failed: {}", call, text);
}

// A message that was copied: it owns what it sends.
struct Transport::Posted {
  std::vector<std::byte> payload;
  Departure departure;
  Header header;
  std::string group;
  int peer = 0;
};

Transport::Transport(const WorldOptions& options)
    : timeout_seconds_(options.timeout_seconds),
      chunk_bytes_(options.mpi_chunk_bytes),
      interrupted_(options.interrupted) {
  int already = 0, level = 0;
  check(MPI_Initialized(&already), "MPI_Initialized");
  require(!already, "MPI can be started only once in a process: a second world mpi was asked for");
  {
    const StartDeadline deadline(options.start_seconds);
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
  }
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  int* limit = nullptr;
  int known = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&limit), &known), "MPI_Comm_get_attr");
  if (known) tag_limit_ = *limit;
  left_.assign(static_cast<std::size_t>(size_), 0);
  answered_.assign(static_cast<std::size_t>(size_), 0);
  check_options(options, level);
  listen();
}

// Everyone finds the same numbers, so nothing needs to be sent: rank 0 speaks.
void Transport::check_options(const WorldOptions& options, int thread_level) const {
  if (thread_level < MPI_THREAD_SERIALIZED)
    refuse_as_one(rank_ == 0, fmt::format("{} does not let a second thread of a process take its turn "
                                          "(MPI_THREAD_SERIALIZED): use one that was built with support for threads",
                                          mpi_description()));
  if (!(timeout_seconds_ > 0))
    refuse_as_one(rank_ == 0, fmt::format("a timeout of {} s was asked for: more than 0 is wanted", timeout_seconds_));
  if (chunk_bytes_ <= 0 || chunk_bytes_ > 0x7fffffff)
    refuse_as_one(rank_ == 0,
                  fmt::format("MPI chunks of {} bytes were asked for: 1 to 2147483647 are possible", chunk_bytes_));
  const Launcher launcher = launcher_from_environment();
  if (size_ == 1 && launcher.ranks > 1 && !options.allow_singleton)
    refuse_as_one(launcher.speaks(),
                  fmt::format("{} says that a launcher started {} or more processes, but MPI sees a world of 1: "
                              "the launcher and this MPI do not fit together; use the mpirun of {}, or add "
                              "--allow-singleton",
                              launcher.variable, launcher.ranks, mpi_description()));
  if (options.ranks > 0 && options.ranks != size_)
    refuse_as_one(rank_ == 0,
                  fmt::format("{} ranks are wanted, but the launcher gave {}: start with mpirun -n {} (or srun -n {}), "
                              "or ask for {} ranks",
                              options.ranks, size_, options.ranks, options.ranks, size_));
}

Transport::Lock Transport::enter() {
  Lock lock(mutex_, std::defer_lock);
  enter_again(lock);
  return lock;
}

void Transport::enter_again(Lock& lock) {
  ++at_the_door_;
  lock.lock();
  --at_the_door_;
}

template <class Duration>
void Transport::sleep(Lock& lock, Duration duration) {
  lock.unlock();
  std::this_thread::sleep_for(duration);
  enter_again(lock);
}

int Transport::open_tags(std::uint64_t context, const std::string& group) {
  const Lock lock = enter();
  const auto pairs = static_cast<std::uint64_t>((tag_limit_ - kFirstTag) / 2);
  const int tag = kFirstTag + 2 * static_cast<int>(context % pairs);
  const auto [place, fresh] = tags_.emplace(tag, context);
  require(fresh,
          "group {} would share its MPI tag with another group (this MPI has tags up to {}): split it under another "
          "name",
          group, tag_limit_);
  return place->first;
}

void Transport::close_tags(int tag) noexcept {
  const Lock lock = enter();
  tags_.erase(tag);
}

void Transport::tell(int world_rank, Kind kind, const std::string& text) {
  auto control = std::make_unique<Control>();
  control->kind = kind;
  std::memcpy(control->text, text.data(), std::min(text.size(), sizeof(control->text) - 1));
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(control.get(), sizeof(Control), MPI_BYTE, world_rank, kControlTag, MPI_COMM_WORLD, &request),
        "MPI_Isend");
  told_.emplace_back(request, std::move(control));
}

void Transport::listen() {
  check(MPI_Irecv(&ear_, sizeof(Control), MPI_BYTE, MPI_ANY_SOURCE, kControlTag, MPI_COMM_WORLD, &heard_), "MPI_Irecv");
}

void Transport::look(Lock& lock) {
  handle_messages();
  const int signal = interrupted_ ? interrupted_->load() : 0;
  if (signal != 0 && !poisoned_) claim(lock, interruption(signal), kAnswerTimeAfterSignal);
}

void Transport::handle_messages() {
  for (;;) {
    int arrived = 0;
    MPI_Status status;
    check(MPI_Test(&heard_, &arrived, &status), "MPI_Test");
    if (!arrived) break;
    const Control control = ear_;
    listen();
    hear(status.MPI_SOURCE, control);
  }
  std::erase_if(told_, [](auto& message) {
    int gone = 0;
    check(MPI_Test(&message.first, &gone, MPI_STATUS_IGNORE), "MPI_Test");
    return gone != 0;
  });
  std::erase_if(posted_, [](const auto& message) { return message->departure.done(); });
}

void Transport::hear(int from, const Control& control) {
  const auto index = static_cast<std::size_t>(from);
  switch (control.kind) {
    case Kind::left:
      left_[index] = 1;
      return;
    case Kind::answer:
      answered_[index] = 1;
      return;
    case Kind::spoken:
      spoken_ = true;
      return;
    case Kind::poison:
      break;
  }
  answered_[index] = 1;
  const bool mine_stands = poisoned_ && speaks_ && rank_ < from;
  if (!poisoned_ || (speaks_ && from < rank_)) cause_ = control.text, speaks_ = false, speaker_ = from;
  poisoned_ = true;
  if (!mine_stands) tell(from, Kind::answer, {});
}

void Transport::refuse_if_poisoned() {
  Lock lock = enter();
  refuse(lock);
}

// If another thread of this rank is telling the others, it is given the time: what is thrown here leads to the end of
// MPI.
void Transport::refuse(Lock& lock) {
  if (!poisoned_) return;
  while (claiming_) sleep(lock, std::chrono::microseconds(100));
  throw_cause();
}

void Transport::throw_cause() const {
  if (speaks_ && gave_up_) throw WorldFailure(cause_);
  if (speaks_) throw Error(cause_);
  throw Poisoned(cause_);
}

void Transport::give_up(Lock& lock, const std::string& message) {
  gave_up_ = gave_up_ || !poisoned_;
  claim(lock, message, kAnswerTime);
  throw_cause();
}

void Transport::claim(const std::string& message) noexcept {
  Lock lock = enter();
  claim(lock, message, kAnswerTime);
}

void Transport::claim(Lock& lock, const std::string& message, Milliseconds answer_time) noexcept {
  try {
    if (!poisoned_) handle_messages();
    if (poisoned_) {  // somebody was first
      while (claiming_) sleep(lock, std::chrono::microseconds(100));
      return;
    }
    poisoned_ = speaks_ = claiming_ = true, speaker_ = rank_;
    cause_ = fmt::format("rank {} on {}: {}", rank_, host_name(), message);
    answered_[static_cast<std::size_t>(rank_)] = 1;
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) tell(peer, Kind::poison, cause_);
    const auto until = Clock::now() + answer_time;
    const auto all = [&] { return std::all_of(answered_.begin(), answered_.end(), [](char c) { return c != 0; }); };
    while (!all() && Clock::now() < until && !abandoned_) {
      handle_messages();
      sleep(lock, std::chrono::microseconds(100));
    }
    all_answered_ = all();
  } catch (const std::exception& error) {  // MPI itself fails: this rank speaks, and its exit takes the others along
    poisoned_ = speaks_ = true;
    all_answered_ = false;
    if (cause_.empty()) cause_ = message;
  }
  claiming_ = false;
}

std::string Transport::trouble(Wait& wait, bool expired) const {
  std::vector<int> missing = wait.missing();
  if (expired) return late(wait.group, wait.header, timeout_seconds_, missing);
  std::erase_if(missing, [&](int rank) {
    return !left_[static_cast<std::size_t>(wait.world_ranks[static_cast<std::size_t>(rank)])];
  });
  return missing.empty() ? std::string() : gone(wait.group, wait.header, missing);
}

// Whatever ends a wait early, the world has failed before its buffers go: only then may MPI be left alone.
void Transport::drive(Wait& wait) {
  Lock lock = enter();
  try {
    refuse(lock);
    wait.start();
    drive(lock, wait);
  } catch (const std::exception& error) {
    claim(lock, error.what(), kAnswerTime);  // unless the world has failed already
    wait.stop();
    throw;
  }
}

Progress Transport::step(Lock& lock, Wait& wait) {
  try {
    return wait.step();
  } catch (const Disagreement& disagreement) {
    give_up(lock, disagreement.text);
  }
}

void Transport::drive(Lock& lock, Wait& wait) {
  const auto patience_ends = [&] {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_seconds_));
  };
  auto deadline = patience_ends();
  std::size_t missing = wait.missing().size();
  Patience patience(wait.sleeps);
  for (;;) {
    look(lock);
    refuse(lock);
    // A rank's last words come after its messages: who is known to have left before this step and is missing after it
    // will never come.
    const bool some_left = std::any_of(left_.begin(), left_.end(), [](char c) { return c != 0; });
    const Progress progress = step(lock, wait);
    if (progress == Progress::finished) return;
    if (const std::size_t now = wait.missing().size(); now < missing || progress == Progress::flowing) {
      if (now < missing) patience.reset();
      missing = now;
      deadline = patience_ends();
    }
    const bool expired = Clock::now() >= deadline;
    if (expired || some_left)
      if (const std::string text = trouble(wait, expired); !text.empty()) give_up(lock, text);
    const bool crowded = at_the_door_ > 0;
    lock.unlock();
    patience.pause(progress, crowded);
    enter_again(lock);
    refuse(lock);  // before MPI is called again
  }
}

void Transport::post(int world_rank, int tag, const Envelope& envelope, const void* payload, const std::string& group,
                     int peer) {
  const auto message = std::make_shared<Posted>();
  const auto* first = static_cast<const std::byte*>(payload);
  if (envelope.payload > 0) message->payload.assign(first, first + envelope.payload);
  message->header = envelope.header, message->group = group, message->peer = peer;
  Lock lock = enter();
  refuse(lock);
  look(lock);
  refuse(lock);
  message->departure.start(*this, world_rank, tag, envelope, message->payload.data());
  posted_.push_back(message);
}

// Errors are left to those who come next and may throw.
bool Transport::help_sends() noexcept {
  const Lock lock = enter();
  if (poisoned_ || posted_.empty()) return false;
  try {
    handle_messages();
  } catch (const std::exception&) {
    return false;
  }
  return !posted_.empty();
}

bool Transport::failed() noexcept {
  const Lock lock = enter();
  if (!poisoned_ && !abandoned_) {
    try {
      handle_messages();
    } catch (const std::exception&) {  // MPI itself complains: the next message will say so
      return false;
    }
  }
  return poisoned_;
}

// Waits for the posted messages, one after the other. The thread is alone by now.
void Transport::flush() {
  class Sent : public Wait {
   public:
    Sent(Posted& message, const std::vector<int>& ranks)
        : Wait(message.header, message.group, ranks), message_(message) {}
    Progress step() override { return message_.departure.done() ? Progress::finished : Progress::idle; }
    void stop() noexcept override { message_.departure.stop(); }
    std::vector<int> missing() const override { return {message_.peer}; }

   private:
    Posted& message_;
  };
  const std::vector<int> nobody_can_be_gone(static_cast<std::size_t>(size_), rank_);
  while (!posted_.empty()) {
    const auto message = std::move(posted_.front());
    posted_.pop_front();
    Sent sent(*message, nobody_can_be_gone);
    drive(sent);
  }
}

// Has no deadline: a rank may work on alone as long as it likes once nobody waits for its messages.
void Transport::farewell() {
  flush();
  Lock lock = enter();
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) tell(peer, Kind::left, {});
  left_[static_cast<std::size_t>(rank_)] = 1;
  const auto all_gone = [&] { return std::all_of(left_.begin(), left_.end(), [](char c) { return c != 0; }); };
  Patience patience(false);
  for (look(lock); !all_gone() || !told_.empty(); look(lock)) {
    refuse(lock);
    patience.pause(Progress::idle, false);
  }
  refuse(lock);
  check(MPI_Cancel(&heard_), "MPI_Cancel");
  check(MPI_Wait(&heard_, MPI_STATUS_IGNORE), "MPI_Wait");
  check(MPI_Finalize(), "MPI_Finalize");
}

void Transport::prepare_exit() noexcept {
  if (speaks_) {
    if (!all_answered_)
      std::atexit([] {
        std::fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, kExitStuckRank);
      });
    try {
      const Lock lock = enter();
      for (int peer = 0; !abandoned_ && peer < size_; ++peer)
        if (peer != rank_) tell(peer, Kind::spoken, {});
    } catch (const std::exception&) {  // they will hear of its end
    }
    return;
  }
  const auto until = Clock::now() + kLinger;
  while (Clock::now() < until) {
    std::this_thread::sleep_for(Milliseconds(1));
    try {
      Lock lock = enter();
      if (!abandoned_) look(lock);
    } catch (...) {  // MPI has nothing more to give
      abandoned_ = true;
    }
  }
  // Still here: the speaker has not ended.
  if (!spoken_ && rank_ == (speaker_ == 0 ? 1 : 0)) speaks_ = true;
}

}  // namespace quadrille::mpi
