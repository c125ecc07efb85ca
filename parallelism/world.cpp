// SPDX-License-Identifier: Apache-2.0
#include "parallelism/world.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>

#include "core/error.h"

namespace quadrille {

namespace {

// The number a variable holds; -1 when it is not set or no number.
int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text) return -1;
  const std::string_view view(text);
  int value = -1;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  return error == std::errc() && end == view.data() + view.size() ? value : -1;
}

}  // namespace

const WorldKind& world_named(std::string_view name) {
  static const std::array<WorldKind, 3> kWorlds = {{
      {"threads", run_threads, {}},
      {"mpi", run_mpi, mpi_absent_because()},
      {"counting", run_counting, {}},
  }};
  for (const WorldKind& kind : kWorlds) {
    if (kind.name != name) continue;
    require(kind.absent_because.empty(), "world {} is not in this program: {}", name, kind.absent_because);
    return kind;
  }
  fail("there is no world {}: threads, mpi and counting are known", name);
}

// Sizes first: they say it outright. PMIx gives only a rank, and any but 0 proves company. Inside a Slurm step its own
// size counts, elsewhere that of the allocation.
Launcher launcher_from_environment() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const int ranks = number_in(variable); ranks > 0) return {variable, ranks};
  if (const int rank = number_in("PMIX_RANK"); rank > 0) return {"PMIX_RANK", rank + 1};
  for (const char* variable : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"})
    if (const int ranks = number_in(variable); ranks > 0) return {variable, ranks};
  return {};
}

void refuse_accidental_singletons(const Launcher& launcher, std::string_view world, bool allow_singleton) {
  if (launcher.ranks <= 1 || world == "mpi" || allow_singleton) return;
  fail(
      "{} says that a launcher started {} or more processes, but world {} makes each of them a run of its own: add "
      "--world "
      "mpi to make them one run, start without the launcher, or add --allow-singleton if this is what you want",
      launcher.variable, launcher.ranks, world);
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "unknown host";
  return name.data();
}

}  // namespace quadrille
