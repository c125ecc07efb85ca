// SPDX-License-Identifier: Apache-2.0
// Strategy tables on up to sixteen ranks. Promise: at rest every element of a value is held by ranks / parts ranks.
#include <array>
#include <optional>

#include "parallelism/plan.h"
#include "parallelism/world.h"
#include "tests/fuzz/fuzz.h"

using namespace quadrille;

namespace {

constexpr std::array kAxes = {Axis::batch, Axis::sequence, Axis::embed, Axis::heads, Axis::mlp, Axis::vocab};
constexpr std::int64_t kExtent = 37;  // a prime: uneven parts

// The positions a rank holds are as many as its part is long, ascending but at most one jump, and inside the whole.
void promise_runs(const Plan& plan, Axis axis) {
  const std::int64_t extent = 2 * kExtent * plan.mesh().extent_of(plan.context_axes());
  const Dims dims = {{axis, extent}};
  std::int64_t count = 0, end = 0;
  const auto runs = plan.runs(dims[0], plan.at_rest(dims));
  for (const Slice run : runs) {
    promise(run.first >= end && run.count >= 0 && run.end() <= extent, "runs ascend within the whole");
    end = run.end(), count += run.count;
  }
  promise(runs.size() <= 2 && count == plan.slice(dims[0], plan.at_rest(dims)).count, "runs are the part");
}

// Adds to `held` how much of each axis this rank holds.
void ask(const Plan& plan, std::array<std::int64_t, kAxes.size()>& held) {
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    const Dims dims = {{kAxes[i], kExtent}};
    const Slice mine = plan.slice(dims[0], plan.at_rest(dims));
    promise(mine.first >= 0 && mine.count >= 0 && mine.first + mine.count <= kExtent, "parts lie within the whole");
    held[i] += mine.count;
    promise_runs(plan, kAxes[i]);
    for (Axis other : kAxes) {
      Dims pair = {{kAxes[i], kExtent}, {other, kExtent}};
      const States states = plan.of_parameter(pair);
      plan.shape(pair, states);
      for (int m = 0; m < plan.mesh().axes(); ++m) plan.scatter_target(pair, states, m);
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const int ranks = 1 + static_cast<int>(input.byte() % 16);
  answers([&] {
    const Json table = parse_json(input.rest(), "table");
    const auto axes = mesh_axes(table, ranks);
    std::array<std::int64_t, kAxes.size()> held{}, parts{};
    WorldOptions options;
    options.ranks = ranks;
    for (options.counting_rank = 0; options.counting_rank < ranks; ++options.counting_rank) {
      run_counting(options, [&](std::unique_ptr<Communicator> world) {
        const Mesh mesh(std::move(world), axes);
        const Plan plan(table, mesh);
        ask(plan, held);
        for (std::size_t i = 0; i < kAxes.size(); ++i) parts[i] = plan.parts(kAxes[i]);
      });
    }
    for (std::size_t i = 0; i < kAxes.size(); ++i)
      promise(held[i] * parts[i] == kExtent * ranks, "every element is held equally often");
  });
  return 0;
}
