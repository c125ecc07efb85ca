// SPDX-License-Identifier: Apache-2.0
// The part of the strategy that is about tokens: the "context" key, and the order in which the positions of a sequence
// are dealt out to ranks. Balanced, the sequence is stored as chunks 0, 2c-1, 1, 2c-2, ...: everything else cuts this
// order into consecutive parts like any other axis, and only those who need a position ask for `runs`.
#include <algorithm>

#include "core/error.h"
#include "core/faults.h"
#include "parallelism/plan.h"

namespace quadrille {

MeshAxes Plan::context_axes() const {
  MeshAxes axes = 0;
  for (int m : rest_[static_cast<std::size_t>(Axis::sequence)])
    if (!rests_on(Axis::heads, m)) axes |= bit(m);
  return mesh_.real(axes);
}

void Plan::read_context(const Json* given, std::vector<std::string>& faults) {
  const auto& order = rest_[static_cast<std::size_t>(Axis::sequence)];
  const auto free_of_heads = [this](int m) { return !rests_on(Axis::heads, m); };
  const Json none = Json::object();
  Reader reader(given ? *given : none, "strategy.context");
  std::string how = "gather";
  collect_faults(faults, [&] { how = reader.choice("attention", {"gather", "turn", "ring"}, "gather"); });
  context_.attention = how == "turn" ? KeyExchange::turn : how == "ring" ? KeyExchange::ring : KeyExchange::gather;
  const bool turns = context_.attention == KeyExchange::turn;
  bool balanced = !turns;
  collect_faults(faults, [&] { balanced = reader.boolean("balanced", !turns); });
  collect_faults(faults, [&] { reader.done(); });
  if (given && std::none_of(order.begin(), order.end(), free_of_heads))
    faults.push_back(
        fmt::format("{}: \"context\" is given but \"sequence\" rests on no mesh axis without heads: add e.g. "
                    "\"sequence\": \"c\" to \"axes\", or leave \"context\" out",
                    given->origin()));
  if (balanced && turns)
    faults.push_back(fmt::format(
        "{}: \"context.balanced\" is for \"gather\" and \"ring\": with \"turn\" every rank has whole rows of "
        "some heads, equal work already; leave it out",
        given->origin()));
  context_.balanced = balanced && context_axes() != 0;
}

std::vector<Slice> Plan::runs(Dim dim, const States& states) const {
  std::vector<int> own;
  for (int m = 0; m < mesh_.axes(); ++m) own.push_back(mesh_.at(m));
  return runs(dim, states, own);
}

std::vector<Slice> Plan::runs(Dim dim, const States& states, std::span<const int> places) const {
  Slice stored{0, dim.extent};
  if (dim.axis == Axis::none) return {stored};
  for (int m : nesting(dim.axis)) {
    const auto k = static_cast<std::size_t>(m);
    if (states[k] == State{Kind::split, dim.axis}) stored = part(stored, mesh_.extent(m), places[k]);
  }
  if (dim.axis != Axis::sequence || !context_.balanced || stored.count == 0) return {stored};
  const std::int64_t chunks = 2 * mesh_.extent_of(context_axes()), size = dim.extent / chunks;
  require(size * chunks == dim.extent, "a sequence of {} tokens was to be dealt out in {} equal chunks", dim.extent,
          chunks);
  std::vector<Slice> runs;
  for (std::int64_t at = stored.first; at < stored.end(); at += runs.back().count) {
    const std::int64_t slot = at / size, chunk = slot % 2 == 0 ? slot / 2 : chunks - 1 - slot / 2;
    runs.push_back({chunk * size + at % size, std::min(size - at % size, stored.end() - at)});
  }
  std::vector<Slice> joined;  // the last rank's two chunks are neighbours
  for (Slice run : runs) {
    if (!joined.empty() && joined.back().end() == run.first)
      joined.back().count += run.count;
    else
      joined.push_back(run);
  }
  return joined;
}

}  // namespace quadrille
