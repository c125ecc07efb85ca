// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters of a sequence between the parts that ranks hold, which may be several runs of positions each,
// and its natural order.
#include <algorithm>

#include "models/nn/moves.h"

namespace quadrille {

namespace {

// Who holds which positions, and how a value lies around its sequence dim.
struct Deal {
  std::int64_t outer, inner, whole, largest = 0;
  std::vector<std::vector<Slice>> runs;  // by member of the group
  std::vector<std::int64_t> counts;
  bool in_order = true;  // equal parts, each one run, one after the other
  int own;
  std::int64_t slot() const { return outer * largest * inner; }
};

Deal deal_of(const Context& c, const Dims& dims, const States& parts, MeshAxes over) {
  const int d = dim_of(dims, Axis::sequence);
  const Dim dim = dims[static_cast<std::size_t>(d)];
  const Shape mine = c.plan.shape(dims, parts);
  Deal deal{mine.count(0, d), mine.count(d + 1, mine.rank()), dim.extent, 0, {}, {}, true, c.mesh().along(over).rank()};
  std::int64_t end = 0;
  for (int r = 0; r < c.mesh().extent_of(over); ++r) {
    deal.runs.push_back(c.plan.runs(dim, parts, places_of(c.mesh(), over, r)));
    std::int64_t count = 0;
    for (Slice run : deal.runs.back()) {
      deal.in_order = deal.in_order && run.first == end;
      end = run.end(), count += run.count;
    }
    deal.counts.push_back(count);
    deal.largest = std::max(deal.largest, count);
  }
  for (std::int64_t count : deal.counts) deal.in_order = deal.in_order && count == deal.largest;
  return deal;
}

// Calls move(block of the whole as `out`, of the member's slot as `in`) for every run.
template <class F>
void for_each_run(const Deal& deal, std::size_t member, F&& move) {
  std::int64_t at = 0;
  for (Slice run : deal.runs[member]) {
    move(BlockMove{deal.outer, run.count, deal.inner, deal.whole, run.first, deal.largest, at, Write::replace});
    at += run.count;
  }
}

Tensor fresh(Context& c, const Shape& shape, DType dtype) { return c.arena.empty(shape, dtype, End::high); }

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
  const Deal deal = deal_of(c, dims, parts, over);
  States whole_states = parts;
  for (int m = 0; m < c.mesh().axes(); ++m)
    if (over & bit(m)) whole_states[static_cast<std::size_t>(m)] = {};
  Tensor whole = fresh(c, c.plan.shape(dims, whole_states), mine.dtype());
  Communicator& group = c.mesh().along(over);
  if (deal.in_order && deal.outer == 1) {
    group.all_gather(whole.flat(), mine.flat(), c.stream).wait(c.stream);
    return whole;
  }
  const std::int64_t n = group.size(), own_count = deal.counts[static_cast<std::size_t>(deal.own)];
  const Tensor packed = fresh(c, {n, deal.slot()}, mine.dtype());
  Tensor own = mine.flat();
  if (own_count != deal.largest) {
    own = fresh(c, {deal.slot()}, mine.dtype());
    c.stream.zero(own);
    c.ops.move_block(c.stream, own, mine.flat(),
                     {deal.outer, own_count, deal.inner, deal.largest, 0, own_count, 0, Write::replace});
  }
  group.all_gather(packed.flat(), own, c.stream).wait(c.stream);
  for (std::int64_t r = 0; r < n; ++r)
    for_each_run(deal, static_cast<std::size_t>(r), [&](const BlockMove& move) {
      c.ops.move_block(c.stream, whole.flat(), packed.rows(r, 1).flat(), move);
    });
  return whole;
}

Tensor scatter_sequence_sum(Context& c, const Tensor& whole, const Dims& dims, const States& parts, MeshAxes over) {
  const Deal deal = deal_of(c, dims, parts, over);
  Tensor mine = fresh(c, c.plan.shape(dims, parts), whole.dtype());
  Communicator& group = c.mesh().along(over);
  if (deal.in_order && deal.outer == 1) {
    group.reduce_scatter(mine.flat(), whole.flat(), Reduce::sum, c.stream).wait(c.stream);
    return mine;
  }
  const std::int64_t n = group.size(), own_count = deal.counts[static_cast<std::size_t>(deal.own)];
  const bool padded = own_count != deal.largest;
  const Tensor packed = fresh(c, {n, deal.slot()}, whole.dtype());
  if (std::any_of(deal.counts.begin(), deal.counts.end(), [&](std::int64_t count) { return count != deal.largest; }))
    c.stream.zero(packed);
  for (std::int64_t r = 0; r < n; ++r)
    for_each_run(deal, static_cast<std::size_t>(r), [&](BlockMove move) {
      std::swap(move.out_rows, move.in_rows);
      std::swap(move.out_first, move.in_first);
      c.ops.move_block(c.stream, packed.rows(r, 1).flat(), whole.flat(), move);
    });
  const Tensor own = padded ? fresh(c, {deal.slot()}, whole.dtype()) : mine.flat();
  group.reduce_scatter(own, packed.flat(), Reduce::sum, c.stream).wait(c.stream);
  if (padded)
    c.ops.move_block(c.stream, mine.flat(), own,
                     {deal.outer, own_count, deal.inner, own_count, 0, deal.largest, 0, Write::replace});
  return mine;
}

}  // namespace quadrille
