// SPDX-License-Identifier: Apache-2.0
// How ranks come into being: threads of this process, processes under an MPI launcher, or one rank of an imaginary
// world that only counts. The list of worlds is literal, in world.cpp; an absent one says what would bring it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/error.h"
#include "parallelism/communicator.h"

namespace quadrille {

struct WorldOptions {
  int ranks = 1;                 // threads: how many to start. mpi: what is wanted, checked against what the launcher
                                 // gave; 0: whatever it gave
  double timeout_seconds = 60;   // of every wait inside a message
  double start_seconds = 60;     // mpi: for all processes of the launcher to come
  bool allow_singleton = false;  // mpi: accept a world of one although a launcher's variables are set
  int counting_rank = 0;         // counting: which of the imaginary ranks this is
  // mpi: the number of a signal that this process has received, 0 while there is none; noticed at the next wait, where
  // the world fails. Null: nobody notes signals.
  const std::atomic<int>* interrupted = nullptr;
  std::int64_t mpi_chunk_bytes = std::int64_t{1} << 30;  // mpi: larger messages are cut (its counts have 32 bits)
};

// How a process ends when a rank neither works nor ends (sleeps for ever) after its world has failed: the message is
// printed and the process left at once with this code, because a thread cannot be ended from outside.
constexpr int kExitStuckRank = 3;

// The world itself failed while it was at work: a rank came too late, left, or said something else than the others. The
// user's settings may be as they like; what befalls one rank's own work stays the Error that it was.
class WorldFailure : public Error {
 public:
  using Error::Error;
};

using RankBody = std::function<void(std::unique_ptr<Communicator> world)>;

// Each runs `body` once per rank of this process and returns when all have ended. If a rank throws, its world is
// poisoned, the others end, and the first cause is rethrown: one Error whose message begins with "rank R on HOST: " (an
// imaginary rank's message stays as it was thrown). A rank that ends well while others wait for it is an error of
// theirs. A failed world has `timeout_seconds` to end, then
// kExitStuckRank.
void run_threads(const WorldOptions&, const RankBody& body);
void run_counting(const WorldOptions&, const RankBody& body);
void run_mpi(const WorldOptions&, const RankBody& body);  // parallelism/mpi, or mpi/absent.cpp which throws Error

struct WorldKind {
  std::string_view name;  // "threads", "mpi", "counting"
  void (*run)(const WorldOptions&, const RankBody&);
  std::string_view absent_because;  // empty when built
};
const WorldKind& world_named(std::string_view name);  // throws Error: unknown or absent

// What the variables of an MPI or Slurm launcher (OMPI_, PMI_, PMIX_, SLURM_) say about this process.
struct Launcher {
  std::string variable;  // that told so: "OMPI_COMM_WORLD_SIZE"; empty: no launcher
  int ranks = 1;         // at least so many
  int rank = 0;          // of this process
  bool counted = true;   // a variable gives the size; false: a rank above 0 proves company, and rank 0 cannot know
  // Every process meets the same mistake, and one is enough to tell it.
  bool speaks() const { return rank == 0 || !counted; }
};
Launcher launcher_from_environment();  // throws Error: a variable that holds no number
bool speaks_for_launcher() noexcept;   // the same, and true where the variables cannot be read

// Throws Error when a launcher started several processes but the world is `threads` (each would be a run of its own).
void refuse_accidental_singletons(const Launcher&, std::string_view world, bool allow_singleton);

// For an error that every process finds on its own: the one that speaks throws Error, the others wait a moment and
// throw Poisoned, which programs do not print. So there is one message, and no launcher ends the speaker before it has
// spoken.
[[noreturn]] void refuse_as_one(bool speaks, const std::string& message);

std::string host_name();
// What mpi/ was built with ("Open MPI 4.1.4"), or why it is absent.
std::string mpi_description();
std::string_view mpi_absent_because();  // empty when built

}  // namespace quadrille
