// SPDX-License-Identifier: Apache-2.0
// The law: crossings, meet, settle. Nothing here knows a layer or a strategy.
#include <algorithm>
#include <utility>

#include "core/error.h"
#include "models/nn/tape.h"

namespace quadrille {

namespace {
template <class F>
void for_each_axis(const Mesh& mesh, MeshAxes axes, F f) {
  for (int m = 0; m < mesh.axes(); ++m)
    if (axes & bit(m)) f(m);
}
}  // namespace

void Tape::expect(State s, Kind kind, const char* who, int m) const {
  if (s.kind != kind)
    refuse(fmt::format("{} wants {} on mesh axis {}, found {}", who, text_of({kind, s.axis}), context_.mesh().name(m),
                       text_of(s)));
}

// Only the innermost split of an axis can be made or undone: parts of parts are consecutive inside of their part.
void Tape::expect_innermost(Axis a, int m, const States& s) const {
  if (context_.plan.innermost(a, m, s)) return;
  const std::string& here = context_.mesh().name(m);
  const std::vector<int> nesting = context_.plan.nesting(a);
  const auto place = std::find(nesting.begin(), nesting.end(), m);
  if (place == nesting.end())
    refuse(fmt::format("\"{}\" would have to be cut over mesh axis \"{}\", which the table does not name for it",
                       name_of(a), here));
  const auto inner = std::find_if(place + 1, nesting.end(), [&](int k) { return on(s, k) == State{Kind::split, a}; });
  refuse(fmt::format(
      "\"{}\" would have to be cut or made whole on mesh axis \"{}\" while it is cut over \"{}\" inside of it",
      name_of(a), here, context_.mesh().name(*inner)));
}

// A second user of a value shares the first one's crossing: gradients add up locally, then one message.
std::optional<Var> Tape::shared(std::string_view kind, Var x, MeshAxes over, Axis axis) const {
  for (const Crossing& c : crossings_)
    if (c.kind == kind && c.from == x.id && c.over == over && c.axis == axis) return Var{c.to};
  return {};
}

Var Tape::cross(std::string_view kind, Var from, MeshAxes over, Axis axis, Dims dims, States states, Tensor v,
                Back back) {
  const Var to = put(std::move(dims), states, std::move(v));
  value(to).constant = value(from).constant;
  crossings_.push_back({kind, from.id, to.id, over, axis, std::move(back), false, {}});
  const std::size_t k = crossings_.size() - 1;
  record(to, [this, k] {
    start(k, false);
    Crossing& c = crossings_[k];
    if (c.coming) contribute({c.from}, c.coming->wait(context_.stream));
    c.coming.reset();
    c.back = nullptr;
  });
  return to;
}

// Sends a crossing's backward message. The op that caused the crossing is its first user, hence the last in backward:
// by then the gradient is complete, and the op may start the message before its weight gradient.
void Tape::start(std::size_t k, bool early) {
  Crossing& c = crossings_[k];
  if (std::exchange(c.started, true)) return;
  Value& to = values_[static_cast<std::size_t>(c.to)];
  if (to.g) c.coming = c.back(std::exchange(to.g, {}), early);
}

// The last of the crossings [first, last) that led to x, whose gradient is complete. One before it must wait for what
// this one brings, and a crossing of the other operand for that one's gradient.
void Tape::start_towards(Var x, std::size_t first, std::size_t last) {
  for (std::size_t k = last; k-- > first;)
    if (crossings_[k].to == x.id) return start(k, true);
}

Communicator& Tape::group(MeshAxes over, bool early) const {
  return early ? context_.mesh().beside(over) : context_.mesh().along(over);
}

Var Tape::fan_out(Var x, MeshAxes over) {
  over = context_.mesh().real(over);
  if (!over) return x;
  if (auto known = shared("fan_out", x, over, Axis::none)) return *known;
  States s = states(x);
  for_each_axis(context_.mesh(), over, [&](int m) {
    expect(on(s, m), Kind::same, "fan_out", m);
    on(s, m) = {Kind::copy, Axis::none};
  });
  const Var to = cross("fan_out", x, over, Axis::none, dims(x), s, read(x), [this, over](Tensor g, bool early) {
    if (!g.sole_owner()) {
      Tensor own = fresh(g.shape(), g.dtype(), End::high);
      context_.stream.copy(own, g);
      g = own;
    }
    return begin_sum_over(context_, g, over, group(over, early));
  });
  value(x).kept = value(to).kept = true;  // they share their numbers
  return to;
}

Var Tape::fan_in(Var x, MeshAxes over) {
  over = context_.mesh().real(over);
  if (!over) return x;
  States s = states(x);
  for_each_axis(context_.mesh(), over, [&](int m) {
    expect(on(s, m), Kind::debt, "fan_in", m);
    on(s, m) = {};
  });
  Tensor v = take(x);
  sum_over(context_, v, over);
  return cross("fan_in", x, over, Axis::none, dims(x), s, v, [](Tensor g, bool) { return Later(std::move(g)); });
}

Var Tape::gather(Var x, int m) {
  if (auto known = shared("gather", x, bit(m), Axis::none)) return *known;
  const Dims d = dims(x);
  const States parts = states(x);
  expect(on(parts, m), Kind::split, "gather", m);
  expect_innermost(on(parts, m).axis, m, parts);
  States all = parts;
  on(all, m) = {Kind::copy, Axis::none};
  return cross("gather", x, bit(m), Axis::none, d, all, gather_parts(context_, read(x), d, parts, m),
               [this, d, parts, m](const Tensor& g, bool early) {
                 return begin_scatter_sum(context_, g, d, parts, m, group(bit(m), early));
               });
}

Var Tape::scatter(Var x, int m, Axis a) {
  const Dims d = dims(x);
  States parts = states(x);
  expect(on(parts, m), Kind::debt, "scatter", m);
  on(parts, m) = {Kind::split, a};
  expect_innermost(a, m, parts);
  return cross("scatter", x, bit(m), a, d, parts, scatter_sum(context_, take(x), d, parts, m),
               [this, d, parts, m](const Tensor& g, bool) { return Later(gather_parts(context_, g, d, parts, m)); });
}

Var Tape::all_to_all(Var x, int m, Axis b) {
  if (auto known = shared("all_to_all", x, bit(m), b)) return *known;
  const Dims d = dims(x);
  const States from = states(x);
  expect(on(from, m), Kind::split, "all_to_all", m);
  States to = from;
  on(to, m) = {Kind::split, b};
  expect_innermost(on(from, m).axis, m, from);
  expect_innermost(b, m, to);
  return cross(
      "all_to_all", x, bit(m), b, d, to, exchange_parts(context_, read(x), d, from, to, m),
      [this, d, from, to, m](const Tensor& g, bool) { return Later(exchange_parts(context_, g, d, to, from, m)); });
}

// Backward: of a copy, paste into zeros (its gradient is partial anyway); of a same, all-gather (whole and equal
// everywhere).
Var Tape::slice(Var x, int m, Axis a) {
  if (auto known = shared("slice", x, bit(m), a)) return *known;
  const Dims d = dims(x);
  const States all = states(x);
  const bool same = on(all, m).kind == Kind::same;
  if (!same) expect(on(all, m), Kind::copy, "slice", m);
  States parts = all;
  on(parts, m) = {Kind::split, a};
  expect_innermost(a, m, parts);
  return cross(
      "slice", x, bit(m), a, d, parts, own_part(context_, read(x), d, parts, m),
      [this, d, parts, m, same](const Tensor& g, bool) {
        return Later(same ? gather_parts(context_, g, d, parts, m) : pasted_into_zeros(context_, g, d, parts, m));
      });
}

std::pair<Var, Var> Tape::meet(Var a, Var b) {
  MeshAxes lend_a = 0, lend_b = 0;
  for (int m = 0; m < context_.mesh().axes(); ++m) {
    const State p = on(states(a), m), q = on(states(b), m);
    if (p.kind == Kind::debt || q.kind == Kind::debt)
      refuse(fmt::format("an operand still owes on mesh axis {}: settle it first", context_.mesh().name(m)));
    if (p.kind == Kind::split && q.kind == Kind::split && p.axis != q.axis) {
      if (first_moves(a, p.axis, b, q.axis, m))
        a = give_way(a, q.axis, m);
      else
        b = give_way(b, p.axis, m);
      continue;
    }
    if (p.kind == Kind::same && q.kind != Kind::same) lend_a |= bit(m);
    if (q.kind == Kind::same && p.kind != Kind::same) lend_b |= bit(m);
  }
  a = lend(a, lend_a, b);
  b = lend(b, lend_b, a);
  return {a, b};
}

bool Tape::may_join(Var y, Var bias) const {
  for (int m = 0; m < context_.mesh().axes(); ++m) {
    const State p = on(states(y), m), q = on(states(bias), m);
    if (q.kind != Kind::same && q != p) return false;
  }
  return true;
}

// A debt's gradient is complete on every rank, hence so is the bias's: on those mesh axes it stays `same`.
Var Tape::join(Var y, Var bias) {
  if (!may_join(y, bias)) refuse("a bias is split or lent where its value is not: settle the value first");
  const MeshAxes owed = context_.mesh().real(where(y, Kind::debt));
  MeshAxes lent = 0;
  for (int m = 0; m < context_.mesh().axes(); ++m) {
    const State p = on(states(y), m);
    if ((p.kind == Kind::split || p.kind == Kind::copy) && on(states(bias), m).kind == Kind::same) lent |= bit(m);
  }
  bias = lend(bias, lent, y);
  const int columns = static_cast<int>(dims(bias).size()), rank = static_cast<int>(dims(y).size());
  Tensor out = take(y);
  const Shape shape = out.shape(), matrix{shape.count(0, rank - columns), shape.count(rank - columns, rank)};
  if (context_.mesh().first_on(owed))
    context_.ops.add_bias(context_.stream, out.reshaped(matrix), out.reshaped(matrix), read(bias).flat());
  const Var sum = put(dims(y), states(y), out);
  record(sum, [this, y, bias, sum, matrix] {
    Tensor d = std::exchange(value(sum).g, {});
    Write write{};
    if (const Tensor db = to_add_to(bias, write))
      context_.ops.sum_rows(context_.stream, db.flat(), d.reshaped(matrix), write);
    contribute(y, std::move(d));
  });
  return sum;
}

Var Tape::settle(Var y) {
  for (int m = 0; m < context_.mesh().axes(); ++m) {
    if (on(states(y), m).kind != Kind::debt) continue;
    if (auto a = context_.plan.scatter_target(dims(y), states(y), m)) y = scatter(y, m, *a);
  }
  return fan_in(y, where(y, Kind::debt));
}

Var Tape::whole(Var x, Axis a) {
  const auto order = context_.plan.nesting(a);
  for (auto m = order.rbegin(); m != order.rend(); ++m)
    if (on(states(x), *m) == State{Kind::split, a}) x = gather(x, *m);
  return x;
}

// How two states combine in a local op, after meet.
State Tape::combine(State p, State q, int m) const {
  if (p.kind == Kind::debt || q.kind == Kind::debt)
    refuse(fmt::format("an operand still owes on mesh axis {}", context_.mesh().name(m)));
  if (p == q) return p;
  if (p.kind == Kind::copy && q.kind == Kind::split) return q;
  if (q.kind == Kind::copy && p.kind == Kind::split) return p;
  refuse(fmt::format("operands disagree on mesh axis {}: {} and {}", context_.mesh().name(m), text_of(p), text_of(q)));
}

States Tape::combine(Var a, Var b) const {
  States s;
  for (int m = 0; m < context_.mesh().axes(); ++m) on(s, m) = combine(on(states(a), m), on(states(b), m), m);
  return s;
}

// Parameters are patient: no message, the gradient stays a partial sum that the exchange pays once per step. An operand
// that is whole along the axis the other is split along takes its own slice instead of all.
Var Tape::lend(Var v, MeshAxes over, Var other) {
  const States theirs = states(other);
  MeshAxes sliced = 0;
  for (int m = 0; m < context_.mesh().axes(); ++m)
    if (on(states(v), m).kind != Kind::split && on(theirs, m).kind == Kind::split && has(dims(v), on(theirs, m).axis))
      sliced |= bit(m);
  if (patient(v))
    for (int id = v.id; id >= 0; id = value({id}).source)
      for_each_axis(context_.mesh(), over, [&](int m) { on(value({id}).states, m) = {Kind::copy, Axis::none}; });
  else
    v = fan_out(v, over & ~sliced);
  for_each_axis(context_.mesh(), sliced, [&](int m) { v = slice(v, m, on(theirs, m).axis); });
  return v;
}

// Who gives way? Never a parameter; of two values the one that has the other's axis; if both have it, the one not at
// rest.
bool Tape::first_moves(Var a, Axis axis_a, Var b, Axis axis_b, int m) const {
  if (patient(a) || patient(b)) return !patient(a);
  const bool turns_a = has(dims(a), axis_b), turns_b = has(dims(b), axis_a);
  if (turns_a != turns_b) return turns_a;
  return context_.plan.rests_on(axis_b, m);
}

Var Tape::give_way(Var v, Axis other, int m) {
  const State mine = on(states(v), m);
  if (patient(v)) refuse("two parameters meet");
  if (has(dims(v), other)) return all_to_all(v, m, other);
  if (!context_.plan.may_gather(mine.axis))
    refuse(
        fmt::format("two different axes meet on mesh axis {}: {} and {}; put one on another mesh axis, or list \"{}\" "
                    "in \"may_gather\"",
                    context_.mesh().name(m), name_of(mine.axis), name_of(other), name_of(mine.axis)));
  return gather(v, m);
}

}  // namespace quadrille
