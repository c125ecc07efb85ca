// SPDX-License-Identifier: Apache-2.0
// See same_settings.h.
#include "benchmarks/harness/same_settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "datasets/sha256.h"

namespace quadrille {

namespace {

using Leaves = std::vector<std::pair<std::string, std::string>>;  // "training.rate.peak", "0.001"

void add_leaves(const Json& value, const std::string& path, Leaves& leaves) {
  if (!value.is_object()) {
    leaves.emplace_back(path, value.text());
    return;
  }
  for (const auto& [name, child] : value.members()) add_leaves(child, path.empty() ? name : path + "." + name, leaves);
}

std::string value_at(const Leaves& leaves, const std::string& path) {
  for (const auto& [name, value] : leaves)
    if (name == path) return value;
  return "not set";
}

// Empty when all leaves are equal.
std::string first_difference(const Leaves& first, const Leaves& other) {
  for (const Leaves* all : {&first, &other})
    for (const auto& leaf : *all) {
      const std::string here = value_at(other, leaf.first), there = value_at(first, leaf.first);
      if (here != there) return fmt::format("{} is {}, on rank 0 it is {}", leaf.first, here, there);
    }
  return {};
}

}  // namespace

SettingsDifference settings_difference(const std::vector<Json>& settings) {
  Leaves first;
  add_leaves(settings.front(), "", first);
  for (std::size_t rank = 1; rank < settings.size(); ++rank) {
    Leaves other;
    add_leaves(settings[rank], "", other);
    if (const std::string text = first_difference(first, other); !text.empty())
      return {static_cast<int>(rank), fmt::format("rank {} was started with other settings than rank 0: {}; start all "
                                                  "ranks with the same program and the same settings",
                                                  rank, text)};
  }
  return {};
}

void require_same_settings(Communicator& world, const Json& mine) {
  const std::vector<Json> digests = world.exchange(Json(sha256_of(mine.text())));
  if (std::all_of(digests.begin(), digests.end(), [&](const Json& each) { return each == digests.front(); })) return;
  const SettingsDifference found = settings_difference(world.exchange(mine));
  if (found.rank < 0) return;  // the same values in another order
  fail("{}", found.message);   // on all ranks the same words; the world lets one of them speak
}

}  // namespace quadrille
