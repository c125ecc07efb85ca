// SPDX-License-Identifier: Apache-2.0
#include "parallelism/world.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace quadrille {

namespace {

// The number a variable holds; -1 when it is not set.
int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text) return -1;
  const std::string_view view(text);
  int value = -1;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  require(error == std::errc() && end == view.data() + view.size() && value >= 0,
          "{} is \"{}\", wanted a number: how many processes the launcher started cannot be told; unset it, or start "
          "with a launcher that sets it right",
          variable, text);
  return value;
}

struct Variables {
  const char *size, *rank;
};
// The innermost launcher first: mpirun may run inside a Slurm step, and a step inside an allocation.
constexpr Variables kLaunchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"PMI_SIZE", "PMI_RANK"},
    {"PMIX_SIZE", "PMIX_RANK"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
    {"SLURM_NTASKS", "SLURM_PROCID"},
    {"SLURM_NPROCS", "SLURM_PROCID"},
};

}  // namespace

const WorldKind& world_named(std::string_view name) {
  static const std::array<WorldKind, 3> kWorlds = {{
      {"threads", run_threads, {}},
      {"mpi", run_mpi, mpi_absent_because()},
      {"counting", run_counting, {}},
  }};
  std::vector<std::string> names;
  for (const WorldKind& kind : kWorlds) {
    if (kind.name != name) {
      names.emplace_back(kind.name);
      continue;
    }
    require(kind.absent_because.empty(), "world {} is not in this program: {}", name, kind.absent_because);
    return kind;
  }
  const std::string known = fmt::format("{}", fmt::join(names, ", "));
  require(
      name != "nccl",
      "NCCL is no world of its own: ranks of world threads or mpi use it by themselves with --backend cuda (or told "
      "so by --collectives nccl). The worlds are {}",
      known);
  const std::string near = nearest(name, names);
  fail("unknown world \"{}\": {}the known ones are {}", name,
       near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near), known);
}

// A size says it outright, once some variable gives one. Where there is only a rank, any but 0 proves company. All
// variables are read before one is believed: an unreadable one is refused, whatever the others say.
Launcher launcher_from_environment() {
  std::optional<Launcher> found;
  std::optional<int> known_rank;
  for (const auto& [size_variable, rank_variable] : kLaunchers) {
    const int ranks = number_in(size_variable), rank = number_in(rank_variable);
    if (rank >= 0 && !known_rank) known_rank = rank;
    if (found && found->counted) continue;
    if (ranks > std::max(rank, found ? found->rank : 0))
      found = Launcher{size_variable, ranks, rank, true};
    else if (rank > 0 && !found)
      found = Launcher{rank_variable, rank + 1, rank, false};
  }
  if (!found) return {};
  if (found->counted) found->rank = known_rank.value_or(0);
  return *found;
}

bool speaks_for_launcher() noexcept {
  try {
    return launcher_from_environment().speaks();
  } catch (...) {
    return true;
  }
}

void refuse_as_one(bool speaks, const std::string& message) {
  if (speaks) throw Error(message);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  throw Poisoned(message);
}

void refuse_accidental_singletons(const Launcher& launcher, std::string_view world, bool allow_singleton) {
  if (launcher.ranks <= 1 || world == "mpi" || allow_singleton) return;
  refuse_as_one(
      launcher.speaks(),
      fmt::format("{} says that a launcher started {} or more processes, but world {} makes each of them a run of "
                  "its own: add --world mpi to make them one run, start without the launcher, or add "
                  "--allow-singleton if this is what you want",
                  launcher.variable, launcher.ranks, world));
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "unknown host";
  return name.data();
}

}  // namespace quadrille
