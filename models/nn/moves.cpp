// SPDX-License-Identifier: Apache-2.0
#include "models/nn/moves.h"

#include <algorithm>

#include "core/error.h"

namespace quadrille {

namespace {

// How a dim of a value lies around mesh axis m: rows of the whole and where each rank's part begins in it.
struct Cut {
  std::int64_t outer, inner, whole;  // elements before and after the dim, rows of the dim over all ranks of m
  std::vector<Slice> parts;          // relative to the whole
  std::int64_t largest = 0;
  bool even = true;
  int own = 0;
};

Cut cut_of(Context& c, const Dims& dims, const States& parts, int m, Axis axis) {
  const int d = dim_of(dims, axis);
  States whole_states = parts;
  whole_states[static_cast<std::size_t>(m)] = {};
  const Shape whole = c.plan.shape(dims, whole_states);
  const Slice base = c.plan.slice(dims[static_cast<std::size_t>(d)], whole_states);
  Cut cut{whole.count(0, d), whole.count(d + 1, whole.rank()), whole[d], {}, 0, true, c.mesh().at(m)};
  for (int r = 0; r < c.mesh().extent(m); ++r) {
    Slice s = c.plan.slice(dims[static_cast<std::size_t>(d)], parts, m, r);
    s.first -= base.first;
    cut.parts.push_back(s);
    cut.largest = std::max(cut.largest, s.count);
  }
  cut.even = std::all_of(cut.parts.begin(), cut.parts.end(), [&](Slice s) { return s.count == cut.largest; });
  return cut;
}

Axis axis_on(const States& states, int m) { return states[static_cast<std::size_t>(m)].axis; }

Tensor fresh(Context& c, const Shape& shape, DType dtype) { return c.arena.empty(shape, dtype, End::high); }

// Rank r's slot of a packed message: [outer, largest, inner] elements, of which rows [0, parts[r].count) count.
BlockMove between_whole_and_slot(const Cut& cut, int r) {
  const Slice s = cut.parts[static_cast<std::size_t>(r)];
  return {cut.outer, s.count, cut.inner, cut.largest, 0, cut.whole, s.first, Write::replace};
}
BlockMove reversed(BlockMove b) {
  std::swap(b.out_rows, b.in_rows);
  std::swap(b.out_first, b.in_first);
  return b;
}

}  // namespace

Tensor gather_parts(Context& c, const Tensor& mine, const Dims& dims, const States& parts, int m) {
  const Cut cut = cut_of(c, dims, parts, m, axis_on(parts, m));
  const int n = c.mesh().extent(m);
  States whole_states = parts;
  whole_states[static_cast<std::size_t>(m)] = {};
  Tensor whole = fresh(c, c.plan.shape(dims, whole_states), mine.dtype());
  if (cut.even && cut.outer == 1) {  // the parts lie in the whole as they arrive
    c.mesh().along(bit(m)).all_gather(whole.flat(), mine.flat(), c.stream).wait(c.stream);
    return whole;
  }
  const std::int64_t slot = cut.outer * cut.largest * cut.inner;
  Tensor packed = fresh(c, {n, slot}, mine.dtype());
  Tensor own = mine.flat();
  if (mine.count() != slot) {
    own = fresh(c, {slot}, mine.dtype());
    c.stream.zero(own);
    const std::int64_t rows = cut.parts[static_cast<std::size_t>(cut.own)].count;
    c.ops.move_block(c.stream, own, mine.flat(), {cut.outer, rows, cut.inner, cut.largest, 0, rows, 0, Write::replace});
  }
  c.mesh().along(bit(m)).all_gather(packed.flat(), own, c.stream).wait(c.stream);
  for (int r = 0; r < n; ++r)
    c.ops.move_block(c.stream, whole.flat(), packed.rows(r, 1).flat(), reversed(between_whole_and_slot(cut, r)));
  return whole;
}

Later begin_scatter_sum(Context& c, const Tensor& whole, const Dims& dims, const States& parts, int m,
                        Communicator& group) {
  const Cut cut = cut_of(c, dims, parts, m, axis_on(parts, m));
  const int n = c.mesh().extent(m);
  Tensor mine = fresh(c, c.plan.shape(dims, parts), whole.dtype());
  if (cut.even && cut.outer == 1)
    return Later(group.reduce_scatter(mine.flat(), whole.flat(), Reduce::sum, c.stream), mine);
  const std::int64_t slot = cut.outer * cut.largest * cut.inner;
  Tensor packed = fresh(c, {n, slot}, whole.dtype());
  if (!cut.even) c.stream.zero(packed);
  for (int r = 0; r < n; ++r)
    c.ops.move_block(c.stream, packed.rows(r, 1).flat(), whole.flat(), between_whole_and_slot(cut, r));
  Tensor own = mine.count() == slot ? mine.flat() : fresh(c, {slot}, whole.dtype());
  Ticket ticket = group.reduce_scatter(own, packed.flat(), Reduce::sum, c.stream);
  if (mine.count() == slot) return Later(std::move(ticket), mine);
  const std::int64_t rows = cut.parts[static_cast<std::size_t>(cut.own)].count;
  return Later(std::move(ticket), mine, [&c, mine, own, cut, rows] {
    c.ops.move_block(c.stream, mine.flat(), own, {cut.outer, rows, cut.inner, rows, 0, cut.largest, 0, Write::replace});
  });
}

Tensor scatter_sum(Context& c, const Tensor& whole, const Dims& dims, const States& parts, int m) {
  return begin_scatter_sum(c, whole, dims, parts, m, c.mesh().along(bit(m))).wait(c.stream);
}

Tensor exchange_parts(Context& c, const Tensor& mine, const Dims& dims, const States& from, const States& to, int m) {
  // Everybody holds one part along a (from) and wants one part along b (to). A slot: [outer.., largest a, .., largest
  // b, ..].
  const Axis a = axis_on(from, m), b = axis_on(to, m);
  const int n = c.mesh().extent(m);
  const Cut along_a = cut_of(c, dims, from, m, a), along_b = cut_of(c, dims, to, m, b);
  const Shape held = mine.shape();
  const int dim_a = dim_of(dims, a), dim_b = dim_of(dims, b);
  std::int64_t slot = 1;
  for (int d = 0; d < held.rank(); ++d) slot *= d == dim_a ? along_a.largest : d == dim_b ? along_b.largest : held[d];
  Tensor out_slots = fresh(c, {n, slot}, mine.dtype()), in_slots = fresh(c, {n, slot}, mine.dtype());
  c.stream.zero(out_slots);
  // Cut along b of what is held; the part for rank r is contiguous [outer_b, count, inner_b] and fills the head of its
  // slot.
  const std::int64_t outer_b = held.count(0, dim_b), inner_b = held.count(dim_b + 1, held.rank());
  for (int r = 0; r < n; ++r) {
    const Slice s = along_b.parts[static_cast<std::size_t>(r)];
    c.ops.move_block(c.stream, out_slots.rows(r, 1).flat().rows(0, outer_b * s.count * inner_b), mine.flat(),
                     {outer_b, s.count, inner_b, s.count, 0, held[dim_b], s.first, Write::replace});
  }
  c.mesh().along(bit(m)).all_to_all(in_slots.flat(), out_slots.flat(), c.stream).wait(c.stream);
  const Shape wanted = c.plan.shape(dims, to);
  Tensor result = fresh(c, wanted, mine.dtype());
  const std::int64_t outer_a = wanted.count(0, dim_a), inner_a = wanted.count(dim_a + 1, wanted.rank());
  for (int r = 0; r < n; ++r) {
    const Slice s = along_a.parts[static_cast<std::size_t>(r)];
    c.ops.move_block(c.stream, result.flat(), in_slots.rows(r, 1).flat().rows(0, outer_a * s.count * inner_a),
                     {outer_a, s.count, inner_a, wanted[dim_a], s.first, s.count, 0, Write::replace});
  }
  return result;
}

Tensor own_part(Context& c, const Tensor& whole, const Dims& dims, const States& parts, int m) {
  const Cut cut = cut_of(c, dims, parts, m, axis_on(parts, m));
  const Slice s = cut.parts[static_cast<std::size_t>(cut.own)];
  Tensor mine = fresh(c, c.plan.shape(dims, parts), whole.dtype());
  c.ops.move_block(c.stream, mine.flat(), whole.flat(),
                   {cut.outer, s.count, cut.inner, s.count, 0, cut.whole, s.first, Write::replace});
  return mine;
}

Tensor pasted_into_zeros(Context& c, const Tensor& mine, const Dims& dims, const States& parts, int m) {
  const Cut cut = cut_of(c, dims, parts, m, axis_on(parts, m));
  const Slice s = cut.parts[static_cast<std::size_t>(cut.own)];
  States whole_states = parts;
  whole_states[static_cast<std::size_t>(m)] = {};
  Tensor whole = fresh(c, c.plan.shape(dims, whole_states), mine.dtype());
  c.stream.zero(whole);
  c.ops.move_block(c.stream, whole.flat(), mine.flat(),
                   {cut.outer, s.count, cut.inner, cut.whole, s.first, s.count, 0, Write::replace});
  return whole;
}

Later begin_sum_over(Context& c, const Tensor& inout, MeshAxes over, Communicator& group) {
  return Later(c.mesh().real(over) ? group.all_reduce(inout.flat(), Reduce::sum, c.stream) : Ticket(), inout);
}

void sum_over(Context& c, const Tensor& inout, MeshAxes over, Reduce how) {
  over = c.mesh().real(over);
  if (over) c.mesh().along(over).all_reduce(inout.flat(), how, c.stream).wait(c.stream);
}

}  // namespace quadrille
