// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters of a sequence between the parts that ranks hold, which may be several runs of positions each,
// and its natural order.
#include <utility>

#include "models/nn/cut.h"

namespace quadrille {

namespace {

// Who holds which positions, and how a value lies around its sequence dim.
Cut cut_of(const Context& c, const Dims& dims, const States& parts, MeshAxes over) {
  const int d = dim_of(dims, Axis::sequence);
  const Dim dim = dims[static_cast<std::size_t>(d)];
  const Shape mine = c.plan.shape(dims, parts);
  std::vector<std::vector<Slice>> runs;
  for (int r = 0; r < c.mesh().extent_of(over); ++r)
    runs.push_back(c.plan.runs(dim, parts, places_of(c.mesh(), over, r)));
  return {mine.count(0, d), mine.count(d + 1, mine.rank()), dim.extent, std::move(runs), c.mesh().along(over).rank()};
}

}  // namespace

std::vector<int> places_of(const Mesh& mesh, MeshAxes over, int member) {
  std::vector<int> places(static_cast<std::size_t>(mesh.axes()));
  for (int m = mesh.axes(); m-- > 0;) {
    int& place = places[static_cast<std::size_t>(m)];
    if (over & bit(m)) {
      place = member % mesh.extent(m);
      member /= mesh.extent(m);
    } else {
      place = mesh.at(m);
    }
  }
  return places;
}

Tensor gather_sequence(Context& c, const Tensor& mine, const Dims& dims, const States& parts, MeshAxes over) {
  States whole_states = parts;
  for (int m = 0; m < c.mesh().axes(); ++m)
    if (over & bit(m)) whole_states[static_cast<std::size_t>(m)] = {};
  return gather_cut(c, cut_of(c, dims, parts, over), c.mesh().along(over), mine, c.plan.shape(dims, whole_states));
}

Tensor scatter_sequence_sum(Context& c, const Tensor& whole, const Dims& dims, const States& parts, MeshAxes over) {
  return begin_scatter_cut(c, cut_of(c, dims, parts, over), c.mesh().along(over), whole, c.plan.shape(dims, parts))
      .wait(c.stream);
}

}  // namespace quadrille
