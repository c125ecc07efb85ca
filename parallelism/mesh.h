// SPDX-License-Identifier: Apache-2.0
// The ranks as a box with named axes. Outermost axis first; the last one joins nearest neighbours. Every set of axes
// has its own communicator.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parallelism/communicator.h"

namespace quadrille {

constexpr int kMaxMeshAxes = 8;
struct MeshAxis {
  std::string name;
  int extent = 1;
};
using MeshAxes = std::uint32_t;  // one bit per mesh axis
constexpr MeshAxes bit(int mesh_axis) { return MeshAxes{1} << mesh_axis; }

class Courier;

class Mesh {
 public:
  // Throws Error: extents do not multiply to the world's size, a name twice, too many axes. A collective call. With a
  // courier (all ranks, or none), which must outlive the mesh, `beside` has groups of its own; an imaginary rank of the
  // counting world has nothing to gain from one. A world whose messages travel on streams needs none: `overlap` says
  // whether there shall be groups for bulk.
  Mesh(std::unique_ptr<Communicator> world, std::vector<MeshAxis> outer_to_inner, Courier* = nullptr,
       bool overlap = false);

  int axes() const { return static_cast<int>(axes_.size()); }
  int extent(int mesh_axis) const { return axes_[static_cast<std::size_t>(mesh_axis)].extent; }
  int extent_of(MeshAxes) const;                                                    // product
  int at(int mesh_axis) const { return at_[static_cast<std::size_t>(mesh_axis)]; }  // this rank's place
  const std::string& name(int mesh_axis) const { return axes_[static_cast<std::size_t>(mesh_axis)].name; }
  std::string names(MeshAxes) const;      // "data+x"
  int find(std::string_view name) const;  // -1: no such axis
  MeshAxes all() const { return bit(axes()) - 1; }
  MeshAxes real(MeshAxes) const;  // those longer than one
  bool first_on(MeshAxes) const;  // this rank is at 0 on each of them

  Communicator& world() const { return *world_; }
  void report_to(Ledger*) const;        // traffic of every group
  Communicator& along(MeshAxes) const;  // throws Error unless real(axes) == axes and not empty
  // The same ranks under the same name, for messages that are started early or in bulk: carried by the courier if there
  // is one (see carried_by for what holds then), on the stream for bulk if the world has one, otherwise `along` itself.
  // The bits are the same.
  Communicator& beside(MeshAxes) const;
  Courier* courier() const { return courier_; }  // null: there is none
  // A further group along one axis: its ranks whose places have this rank's colour. A collective call of the world.
  std::unique_ptr<Communicator> part_of(int mesh_axis, const std::function<int(int place)>& colour_at,
                                        std::string name) const;

 private:
  std::unique_ptr<Communicator> world_;
  std::vector<MeshAxis> axes_;
  std::vector<int> at_;
  Courier* courier_;
  std::map<MeshAxes, std::unique_ptr<Communicator>> groups_, beside_;
};

}  // namespace quadrille
