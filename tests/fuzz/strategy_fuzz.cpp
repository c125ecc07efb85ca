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

// Adds to `held` how much of each axis this rank holds.
void ask(const Plan& plan, std::array<std::int64_t, kAxes.size()>& held) {
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    const Dims dims = {{kAxes[i], kExtent}};
    const Slice mine = plan.slice(dims[0], plan.at_rest(dims));
    promise(mine.first >= 0 && mine.count >= 0 && mine.first + mine.count <= kExtent, "parts lie within the whole");
    held[i] += mine.count;
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
