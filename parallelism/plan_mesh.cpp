// SPDX-License-Identifier: Apache-2.0
// The "mesh" of a strategy table: its axes, one of which may take what remains of the ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/error.h"
#include "core/faults.h"
#include "parallelism/plan.h"

namespace quadrille {

namespace {

constexpr std::int64_t kMostRanks = 1 << 24;  // that can be counted

// Names stand in tables, in options (--set mesh.x=4) and joined by "+".
bool is_name(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

std::string counted(std::int64_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

class Axes {
 public:
  Axes(std::vector<std::string>& faults) : faults_(faults) {}

  void read(const Json& axis) {
    const bool pair = axis.is_array() && axis.size() == 2;
    if (!axis.is_array() || axis.size() == 0 || !axis.at(std::size_t{0}).is_string() || !pair)
      faults_.push_back(fmt::format("{}: a mesh axis is [\"name\", extent], not {}", axis.origin(), axis.text()));
    if (!axis.is_array() || axis.size() == 0 || !axis.at(std::size_t{0}).is_string()) return;
    const std::string& name = axis.at(std::size_t{0}).string();
    if (!add(axis, name) || !pair) return;
    collect_faults(faults_, [&] { set_extent(axis, name); });
  }

  // Extents in the order of the table, and "*" once more.
  std::vector<MeshAxis> laid_on(const Json& mesh, int ranks) {
    const bool sound = faults_.empty();
    const char* const change = "change the extents (--set mesh.NAME=N)";
    if (open_ >= 0 && ranks % known_ == 0)
      axes_[static_cast<std::size_t>(open_)].extent = static_cast<int>(ranks / known_);
    else if (sound && open_ >= 0)
      faults_.push_back(fmt::format(
          "{}: the mesh {} cannot be laid on {}: {} is not a multiple of {}; use --ranks {}{} or {}", mesh.origin(),
          text(), counted(ranks, "rank"), ranks, known_,
          ranks > known_ ? fmt::format("{} or ", ranks / known_ * known_) : "", (ranks / known_ + 1) * known_, change));
    else if (sound && known_ != ranks)
      faults_.push_back(fmt::format("{}: the mesh {} has {} but there {} {}: use --ranks {} or {}", mesh.origin(),
                                    text(), counted(known_, "place"), ranks == 1 ? "is" : "are", counted(ranks, "rank"),
                                    known_, axes_.empty() ? "add an axis, e.g. [\"data\", \"*\"]" : change));
    return std::move(axes_);
  }

 private:
  bool add(const Json& axis, const std::string& name) {
    const bool known = std::any_of(axes_.begin(), axes_.end(), [&](const MeshAxis& a) { return a.name == name; });
    if (!is_name(name))
      faults_.push_back(
          fmt::format("{}: a mesh axis is named {}: use letters, digits, \"_\" and \"-\", at least one of them",
                      axis.origin(), axis.at(std::size_t{0}).text()));
    else if (known)
      faults_.push_back(
          fmt::format("{}: the mesh names axis \"{}\" twice: rename one of them, or take it out", axis.origin(), name));
    else if (axes_.size() == kMaxMeshAxes) {
      if (!std::exchange(full_, true))
        faults_.push_back(
            fmt::format("{}: axis \"{}\" is one too many: a mesh has at most {}; take it and those after "
                        "it out",
                        axis.origin(), name, kMaxMeshAxes));
    } else
      axes_.push_back({name, 1});
    return !axes_.empty() && axes_.back().name == name && !known;
  }

  void set_extent(const Json& axis, const std::string& name) {
    const Json& extent = axis.at(1);
    if (extent.is_string() && extent.string() == "*") {
      require(open_ < 0, "{}: two extents of the mesh are \"*\": at most one may take what remains", axis.origin());
      open_ = static_cast<int>(axes_.size()) - 1;
      return;
    }
    const std::int64_t n = extent.integer();
    require(n >= 1 && n <= kMostRanks, "{}: the extent of mesh axis \"{}\" is {}: it must be from 1 to {}",
            extent.origin().empty() ? axis.origin() : extent.origin(), name, n, kMostRanks);
    require(known_ * n <= kMostRanks, "{}: with axis \"{}\" the mesh has {} places: at most {} ranks can be counted",
            axis.origin(), name, known_ * n, kMostRanks);
    known_ *= n;
    axes_.back().extent = static_cast<int>(n);
  }

  std::string text() const {
    std::string out;
    for (std::size_t i = 0; i < axes_.size(); ++i)
      out += fmt::format("{}{} {}", i ? " x " : "", axes_[i].name,
                         static_cast<int>(i) == open_ ? "*" : std::to_string(axes_[i].extent));
    return out.empty() ? "without axes" : out;
  }

  std::vector<std::string>& faults_;
  std::vector<MeshAxis> axes_;
  std::int64_t known_ = 1;  // places without the open axis
  int open_ = -1;
  bool full_ = false;
};

}  // namespace

std::vector<MeshAxis> mesh_axes(const Json& table, int ranks, std::vector<std::string>& faults) {
  const Json* mesh = table.find("mesh");
  if (!mesh) {
    if (ranks != 1)
      faults.push_back(
          fmt::format("the strategy has no \"mesh\" but there are {} ranks: use --ranks 1 or another strategy, or add "
                      "e.g. \"mesh\": "
                      "[[\"data\", \"*\"]]",
                      ranks));
    return {};
  }
  std::vector<std::string> own;
  Axes axes_of_table(own);
  collect_faults(own, [&] {
    for (const Json& axis : mesh->items()) axes_of_table.read(axis);
  });
  auto axes = axes_of_table.laid_on(*mesh, ranks);
  faults.insert(faults.end(), own.begin(), own.end());
  return axes;
}

std::vector<MeshAxis> mesh_axes(const Json& table, int ranks) {
  std::vector<std::string> faults;
  auto axes = mesh_axes(table, ranks, faults);
  refuse_all(faults, "faults of the mesh");
  return axes;
}

}  // namespace quadrille
