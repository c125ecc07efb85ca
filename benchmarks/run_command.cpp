// SPDX-License-Identifier: Apache-2.0
// `quadrille run`: refuses what can be refused at once, starts the ranks, and leaves the rest to the session.
#include <fmt/core.h>

#include <algorithm>

#include "benchmarks/commands.h"
#include "benchmarks/harness/cores.h"
#include "benchmarks/harness/gpus.h"
#include "benchmarks/harness/interruption.h"
#include "benchmarks/harness/session.h"
#include "benchmarks/harness/text.h"
#include "core/error.h"
#include "kernels/backend.h"
#include "parallelism/world.h"

namespace quadrille {

namespace {

constexpr double kLeastStart = 10;  // seconds: a launcher starts processes one after the other

std::string default_folder(const Experiment* experiment, const RunOptions& options, const RunClock& clock) {
  std::string suite = experiment ? experiment->suite : options.suite;
  for (char& c : suite)
    if (c == '/') c = '_';
  std::string time = text_utc(clock.birth_unix());
  for (char& c : time)
    if (c == ':') c = '-';
  return fmt::format("runs/{}-{}", suite, time);
}

}  // namespace

int run_command(const RunOptions& options, const RunClock& clock, std::atomic<bool>& began, const WrapWorld& wrap) {
  const Launcher launcher = launcher_from_environment();
  std::string world = options.world;
  if (world.empty()) world = launcher.ranks > 1 && !options.allow_singleton ? "mpi" : "threads";
  const WorldKind& kind = world_named(world);
  require(kind.name != "counting",
          "world counting computes nothing, so nothing can be trained in it; use quadrille plan");
  refuse_accidental_singletons(launcher, world, options.allow_singleton);
  const Backend& backend = backend_named(options.backend.value_or("cpu"));
  refuse_gpu_options(backend, options.gpus);
  if (backend.devices && world == "threads") backend.devices();  // throws where there is none
  require(!backend.devices || options.links.empty(),
          "--links slows messages of the host down; those between GPUs travel in the order of streams, so leave it out "
          "with --backend {}",
          backend.name);
  if (!options.out.empty()) refuse_used_folder(options.out);

  WorldOptions ranks;
  ranks.ranks = options.ranks.value_or(world == "mpi" ? launcher.ranks : 1);
  ranks.timeout_seconds = options.timeout_seconds;
  ranks.start_seconds = std::max(kLeastStart, options.timeout_seconds);
  ranks.allow_singleton = options.allow_singleton;

  if (world == "mpi" && launcher.ranks > 1)
    ranks.interrupted = note_signals();
  else
    leave_on_signals();

  Session session{options, clock, began};
  session.world = world;
  const double begin = clock.seconds();
  if (world == "threads") session.experiment = std::make_unique<const Experiment>(resolve(options, ranks.ranks, world));
  if (world == "threads") {  // known here already: no need to start the ranks first
    PlacementRequest host;
    host.ranks = ranks.ranks, host.threads = options.threads.value_or(0), host.usable = usable_cores();
    host.oversubscribe = options.oversubscribe;
    place_rank(host);
  }
  session.data_seconds = clock.seconds() - begin;
  session.out = options.out.empty() ? default_folder(session.experiment.get(), options, clock) : options.out;
  try {
    kind.run(ranks, [&](std::unique_ptr<Communicator> communicator) {
      run_rank(session, wrap ? wrap(std::move(communicator)) : std::move(communicator));
    });
  } catch (...) {
    remove_empty_folders(session.made);
    throw;
  }
  return session.exit;
}

}  // namespace quadrille
