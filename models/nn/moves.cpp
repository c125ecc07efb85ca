// SPDX-License-Identifier: Apache-2.0
#include "models/nn/moves.h"

#include <algorithm>

#include "core/error.h"
#include "models/nn/cut.h"

namespace quadrille {

namespace {

Cut cut_of(Context& c, const Dims& dims, const States& parts, int m, Axis axis) {
  const int d = dim_of(dims, axis);
  const Dim dim = dims[static_cast<std::size_t>(d)];
  States whole_states = parts;
  whole_states[static_cast<std::size_t>(m)] = {};
  const Shape whole = c.plan.shape(dims, whole_states);
  const Slice base = c.plan.slice(dim, whole_states);
  std::vector<std::vector<Slice>> runs;
  for (int r = 0; r < c.mesh().extent(m); ++r) {
    Slice s = c.plan.slice(dim, parts, m, r);
    s.first -= base.first;
    runs.push_back({s});
  }
  return {whole.count(0, d), whole.count(d + 1, whole.rank()), whole[d], std::move(runs), c.mesh().at(m)};
}

Axis axis_on(const States& states, int m) { return states[static_cast<std::size_t>(m)].axis; }

Tensor fresh(Context& c, const Shape& shape, DType dtype) { return c.arena.empty(shape, dtype, End::high); }

// Every run of a rank's slot and of the whole, as a move into the slot.
template <class F>
void for_each_run(const Cut& cut, std::size_t rank, F&& move) {
  std::int64_t at = 0;
  for (Slice run : cut.runs[rank]) {
    move(BlockMove{cut.outer, run.count, cut.inner, cut.largest, at, cut.whole, run.first, Write::replace});
    at += run.count;
  }
}
BlockMove reversed(BlockMove b) {
  std::swap(b.out_rows, b.in_rows);
  std::swap(b.out_first, b.in_first);
  return b;
}
// Between a part as it is held and a slot.
BlockMove padding(const Cut& cut) {
  const std::int64_t rows = cut.own_count();
  return {cut.outer, rows, cut.inner, cut.largest, 0, rows, 0, Write::replace};
}

}  // namespace

Cut::Cut(std::int64_t before, std::int64_t after, std::int64_t rows, std::vector<std::vector<Slice>> dealt, int rank)
    : outer(before), inner(after), whole(rows), runs(std::move(dealt)), own(rank) {
  std::int64_t end = 0;
  for (const auto& of_rank : runs) {
    std::int64_t count = 0;
    for (Slice run : of_rank) {
      in_order = in_order && run.first == end;
      end = run.end(), count += run.count;
    }
    counts.push_back(count);
    largest = std::max(largest, count);
  }
  even = std::all_of(counts.begin(), counts.end(), [&](std::int64_t count) { return count == largest; });
  in_order = in_order && even;
}

Tensor gather_cut(Context& c, const Cut& cut, Communicator& group, const Tensor& mine, const Shape& shape) {
  Tensor whole = fresh(c, shape, mine.dtype());
  if (cut.lies_as_sent()) {
    group.all_gather(whole.flat(), mine.flat(), c.stream).wait(c.stream);
    return whole;
  }
  const auto n = static_cast<std::int64_t>(cut.runs.size());
  const Tensor packed = fresh(c, {n, cut.slot()}, mine.dtype());
  Tensor own = mine.flat();
  if (mine.count() != cut.slot()) {
    own = fresh(c, {cut.slot()}, mine.dtype());
    c.stream.zero(own);
    c.ops.move_block(c.stream, own, mine.flat(), padding(cut));
  }
  group.all_gather(packed.flat(), own, c.stream).wait(c.stream);
  for (std::int64_t r = 0; r < n; ++r)
    for_each_run(cut, static_cast<std::size_t>(r), [&](const BlockMove& move) {
      c.ops.move_block(c.stream, whole.flat(), packed.rows(r, 1).flat(), reversed(move));
    });
  return whole;
}

Later begin_scatter_cut(Context& c, const Cut& cut, Communicator& group, const Tensor& whole, const Shape& shape) {
  Tensor mine = fresh(c, shape, whole.dtype());
  if (cut.lies_as_sent()) return Later(group.reduce_scatter(mine.flat(), whole.flat(), Reduce::sum, c.stream), mine);
  const auto n = static_cast<std::int64_t>(cut.runs.size());
  const Tensor packed = fresh(c, {n, cut.slot()}, whole.dtype());
  if (!cut.even) c.stream.zero(packed);
  for (std::int64_t r = 0; r < n; ++r)
    for_each_run(cut, static_cast<std::size_t>(r), [&](const BlockMove& move) {
      c.ops.move_block(c.stream, packed.rows(r, 1).flat(), whole.flat(), move);
    });
  const Tensor own = mine.count() == cut.slot() ? mine.flat() : fresh(c, {cut.slot()}, whole.dtype());
  Ticket ticket = group.reduce_scatter(own, packed.flat(), Reduce::sum, c.stream);
  if (mine.count() == cut.slot()) return Later(std::move(ticket), mine);
  return Later(std::move(ticket), mine,
               [&c, mine, own, move = reversed(padding(cut))] { c.ops.move_block(c.stream, mine.flat(), own, move); });
}

Tensor gather_parts(Context& c, const Tensor& mine, const Dims& dims, const States& parts, int m) {
  States whole_states = parts;
  whole_states[static_cast<std::size_t>(m)] = {};
  return gather_cut(c, cut_of(c, dims, parts, m, axis_on(parts, m)), c.mesh().along(bit(m)), mine,
                    c.plan.shape(dims, whole_states));
}

Later begin_scatter_sum(Context& c, const Tensor& whole, const Dims& dims, const States& parts, int m,
                        Communicator& group) {
  return begin_scatter_cut(c, cut_of(c, dims, parts, m, axis_on(parts, m)), group, whole, c.plan.shape(dims, parts));
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
    const Slice s = along_b.runs[static_cast<std::size_t>(r)].front();
    c.ops.move_block(c.stream, out_slots.rows(r, 1).flat().rows(0, outer_b * s.count * inner_b), mine.flat(),
                     {outer_b, s.count, inner_b, s.count, 0, held[dim_b], s.first, Write::replace});
  }
  c.mesh().along(bit(m)).all_to_all(in_slots.flat(), out_slots.flat(), c.stream).wait(c.stream);
  const Shape wanted = c.plan.shape(dims, to);
  Tensor result = fresh(c, wanted, mine.dtype());
  const std::int64_t outer_a = wanted.count(0, dim_a), inner_a = wanted.count(dim_a + 1, wanted.rank());
  for (int r = 0; r < n; ++r) {
    const Slice s = along_a.runs[static_cast<std::size_t>(r)].front();
    c.ops.move_block(c.stream, result.flat(), in_slots.rows(r, 1).flat().rows(0, outer_a * s.count * inner_a),
                     {outer_a, s.count, inner_a, wanted[dim_a], s.first, s.count, 0, Write::replace});
  }
  return result;
}

Tensor own_part(Context& c, const Tensor& whole, const Dims& dims, const States& parts, int m) {
  const Cut cut = cut_of(c, dims, parts, m, axis_on(parts, m));
  const Slice s = cut.runs[static_cast<std::size_t>(cut.own)].front();
  Tensor mine = fresh(c, c.plan.shape(dims, parts), whole.dtype());
  c.ops.move_block(c.stream, mine.flat(), whole.flat(),
                   {cut.outer, s.count, cut.inner, s.count, 0, cut.whole, s.first, Write::replace});
  return mine;
}

Tensor pasted_into_zeros(Context& c, const Tensor& mine, const Dims& dims, const States& parts, int m) {
  const Cut cut = cut_of(c, dims, parts, m, axis_on(parts, m));
  const Slice s = cut.runs[static_cast<std::size_t>(cut.own)].front();
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
