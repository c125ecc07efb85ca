// SPDX-License-Identifier: Apache-2.0
#include "parallelism/mesh.h"

#include <utility>

#include "core/error.h"
#include "parallelism/courier.h"

namespace quadrille {

namespace {

// "data 2 x x 4", for messages.
std::string extents_text(const std::vector<MeshAxis>& axes) {
  std::string text;
  for (const MeshAxis& axis : axes) text += (text.empty() ? "" : " * ") + axis.name + " " + std::to_string(axis.extent);
  return text.empty() ? "no axes" : text;
}

void check(const std::vector<MeshAxis>& axes, int world_size) {
  require(axes.size() <= kMaxMeshAxes, "a mesh of {} axes was asked for: at most {} are possible", axes.size(),
          kMaxMeshAxes);
  std::int64_t product = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    require(!axes[i].name.empty(), "axis {} of the mesh has no name", i);
    require(axes[i].extent >= 1, "mesh axis {} has {} ranks: at least 1 is wanted", axes[i].name, axes[i].extent);
    for (std::size_t j = 0; j < i; ++j)
      require(axes[j].name != axes[i].name, "the mesh names axis {} twice", axes[i].name);
    product *= axes[i].extent;
    require(product <= world_size,
            "the mesh {} has more places than the {} ranks of the world: make an axis shorter or "
            "start more ranks",
            extents_text(axes), world_size);
  }
  require(product == world_size,
          "the mesh {} has {} places but the world has {} ranks: the extents must multiply to the ranks",
          extents_text(axes), product, world_size);
}

// The place of a rank on each axis; the last axis runs fastest.
std::vector<int> place_of(int rank, const std::vector<MeshAxis>& axes) {
  std::vector<int> at(axes.size());
  for (std::size_t i = axes.size(); i-- > 0; rank /= axes[i].extent) at[i] = rank % axes[i].extent;
  return at;
}

// Equal for two ranks if they differ only along `axes`: the place on all the other axes as one number.
int colour(int rank, const std::vector<MeshAxis>& mesh, MeshAxes axes) {
  int value = 0, weight = 1;
  for (int i = static_cast<int>(mesh.size()); i-- > 0;) {
    const int extent = mesh[static_cast<std::size_t>(i)].extent;
    if (!(axes & bit(i))) value += weight * (rank % extent), weight *= extent;
    rank /= extent;
  }
  return value;
}

}  // namespace

Mesh::Mesh(std::unique_ptr<Communicator> world, std::vector<MeshAxis> outer_to_inner, Courier* courier, bool overlap)
    : world_(std::move(world)), axes_(std::move(outer_to_inner)), courier_(courier) {
  check(axes_, world_->size());
  at_ = place_of(world_->rank(), axes_);
  for (MeshAxes set = 1; set <= all(); ++set) {  // ascending: the same splits in the same order on every rank
    if (real(set) != set) continue;
    const auto part = [&] { return world_->split([&](int rank) { return colour(rank, axes_, set); }, names(set)); };
    groups_[set] = part();
    if (courier_) {
      beside_[set] = carried_by(*courier_, part());
    } else if (overlap && world_->on_streams()) {
      beside_[set] = part();
      beside_[set]->travel_in_bulk();
    }
  }
}

int Mesh::extent_of(MeshAxes set) const {
  int product = 1;
  for (int i = 0; i < axes(); ++i)
    if (set & bit(i)) product *= extent(i);
  return product;
}

std::string Mesh::names(MeshAxes set) const {
  std::string text;
  for (int i = 0; i < axes(); ++i)
    if (set & bit(i)) text += (text.empty() ? "" : "+") + name(i);
  return text;
}

int Mesh::find(std::string_view wanted) const {
  for (int i = 0; i < axes(); ++i)
    if (name(i) == wanted) return i;
  return -1;
}

MeshAxes Mesh::real(MeshAxes set) const {
  MeshAxes result = 0;
  for (int i = 0; i < axes(); ++i)
    if ((set & bit(i)) && extent(i) > 1) result |= bit(i);
  return result;
}

bool Mesh::first_on(MeshAxes set) const {
  for (int i = 0; i < axes(); ++i)
    if ((set & bit(i)) && at(i) != 0) return false;
  return true;
}

Communicator& Mesh::along(MeshAxes set) const {
  const auto group = groups_.find(set);
  require(group != groups_.end(),
          "no group lies along mesh axes [{}]: only sets of axes longer than 1, and not the empty "
          "set, have one",
          names(set));
  return *group->second;
}

Communicator& Mesh::beside(MeshAxes set) const {
  const auto group = beside_.find(set);
  return group != beside_.end() ? *group->second : along(set);
}

std::unique_ptr<Communicator> Mesh::part_of(int m, const std::function<int(int place)>& colour_at,
                                            std::string name) const {
  std::vector<int> number(static_cast<std::size_t>(extent(m)));  // of each place's colour, small and dense
  std::map<int, int> known;
  for (int place = 0; place < extent(m); ++place)
    number[static_cast<std::size_t>(place)] =
        known.try_emplace(colour_at(place), static_cast<int>(known.size())).first->second;
  return world_->split(
      [&](int rank) {
        const int place = place_of(rank, axes_)[static_cast<std::size_t>(m)];
        return colour(rank, axes_, bit(m)) * extent(m) + number[static_cast<std::size_t>(place)];
      },
      std::move(name));
}

void Mesh::report_to(Ledger* ledger) const {
  world_->report_to(ledger);
  for (const auto& [axes, group] : groups_) group->report_to(ledger);
  for (const auto& [axes, group] : beside_) group->report_to(ledger);
}

}  // namespace quadrille
