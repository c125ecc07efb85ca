// SPDX-License-Identifier: Apache-2.0
// The ops of the tape that know tokens: embedding, positions, attention, loss. All addresses (positions, dropout) are
// global, so every layout sees the same numbers.
#include <cmath>

#include "core/error.h"
#include "models/nn/tape.h"

namespace quadrille {

namespace {
const State& on(const States& s, int m) { return s[static_cast<std::size_t>(m)]; }
State& on(States& s, int m) { return s[static_cast<std::size_t>(m)]; }
}  // namespace

std::int64_t Tape::first_of(const Dims& d, const States& s, Axis a) const {
  return a != Axis::none && has(d, a) ? context_.plan.slice(d[static_cast<std::size_t>(dim_of(d, a))], s).first : 0;
}

std::int64_t Tape::extent_of(const Dims& d, Axis a) const { return d[static_cast<std::size_t>(dim_of(d, a))].extent; }

Key Tape::dropout_key(std::string_view name) const {
  return key_of(key_of(key_of(micro_.seed, "dropout"), static_cast<std::uint64_t>(micro_.step)), key_of(0, name));
}

// A table split along its rows makes a sum over one-hot rows, hence a debt; split along its features, a part of them.
// The ids lie as values at rest do, but whole on mesh axes where the table is split.
Var Tape::embedding(Var table, std::int64_t tokens) {
  const Dims rows = {{Axis::batch, micro_.rows}, {Axis::sequence, tokens}};
  const Axis words = dims(table)[0].axis;
  States s = context_.plan.at_rest(rows);
  for (int m = 0; m < context_.mesh().axes(); ++m) {
    const State t = on(states(table), m);
    if (t.kind == Kind::split)
      on(s, m) = words != Axis::none && t.axis == words ? State{Kind::debt, Axis::none} : t;
    else if (on(s, m).kind == Kind::split)
      on(value(table).states, m) = {Kind::copy, Axis::none};
  }
  for (int m = 0; m < context_.mesh().axes(); ++m)  // ids of other ranks' rows are not at hand
    if (context_.plan.rests_on(Axis::batch, m) && on(states(table), m).kind == Kind::split)
      refuse("the table is split where the batch rests");
  Dims out_dims = rows;
  out_dims.push_back(dims(table)[1]);
  const Tensor ids = own_tokens(micro_.ids, rows, s);
  const Tensor numbers = read(table);
  const std::int64_t first = context_.plan.slice(dims(table)[0], states(table)).first;
  Tensor out = fresh(local_shape(out_dims, s), context_.dtype);
  const Shape flat{ids.count(), numbers.shape()[1]};
  context_.ops.embedding(context_.stream, out.reshaped(flat), numbers, ids.flat(), first);
  const Var y = put(out_dims, s, out);
  record(y, [this, table, y, ids, first, flat] {
    const Tensor d = std::exchange(value(y).g, {});
    if (Tensor dt = to_accumulate_in(table))
      context_.ops.embedding_backward(context_.stream, dt, d.reshaped(flat), ids.flat(), first);
  });
  return y;
}

// This rank's part, under these states, of ids or labels that it holds for its rows and all tokens.
Tensor Tape::own_tokens(const Tensor& held, const Dims& rows, const States& s) {
  const Slice tokens = context_.plan.slice(rows[1], s);
  if (tokens.count == rows[1].extent) return held;
  const std::int64_t own_rows = held.shape()[0];
  Tensor part = fresh({own_rows, tokens.count}, DType::i32);
  context_.ops.move_block(context_.stream, part.flat(), held.flat(),
                          {own_rows, tokens.count, 1, tokens.count, 0, rows[1].extent, tokens.first, Write::replace});
  return part;
}

Tensor Tape::positions_of(Var x) {
  const Shape shape = read(x).shape();
  Tensor positions = fresh({shape[0] * shape[1]}, DType::i32);
  if (!context_.stream.device().holds_numbers()) return positions;
  const auto first = static_cast<std::int32_t>(first_of(dims(x), states(x), Axis::sequence));
  const auto numbers = positions.host<std::int32_t>();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = first + static_cast<std::int32_t>(static_cast<std::int64_t>(i) % shape[1]);
  return positions;
}

Var Tape::add_positions(Var x, Var table) {
  std::tie(x, table) = meet(x, table);
  for (int m = 0; m < context_.mesh().axes(); ++m) combine(on(states(x), m), on(states(table), m), m);
  const Tensor positions = positions_of(x), out = take(x), rows = read(table);
  Tensor picked = fresh({positions.count(), rows.shape()[1]}, context_.dtype, End::high);
  context_.ops.embedding(context_.stream, picked, rows, positions, 0);
  context_.ops.add(context_.stream, out, out, picked.reshaped(out.shape()));
  const Var y = put(dims(x), states(x), out);
  record(y, [this, x, table, y, positions] {
    Tensor d = std::exchange(value(y).g, {});
    if (Tensor dt = to_accumulate_in(table))
      context_.ops.embedding_backward(context_.stream, dt, d.reshaped({positions.count(), dt.shape()[1]}), positions,
                                      0);
    contribute(x, std::move(d));
  });
  return y;
}

Rotary Tape::rotary_of(Var packed, const Heads& h, double base) const {
  const Shape shape = value(packed).v.shape();
  return {shape[0],
          shape[1],
          shape[2],
          shape[3],
          h.queries + 1,
          h.head,
          first_of(dims(packed), states(packed), Axis::sequence),
          base,
          false};
}

// Turns queries and keys, which lie side by side at the front of each group; values stay.
Var Tape::rotary(Var packed, const Heads& h, double base) {
  if (where(packed, Kind::debt)) refuse("rotary positions of a debt: settle it first");
  Rotary spec = rotary_of(packed, h, base);
  const Tensor out = take(packed);
  context_.ops.rotary(context_.stream, out, out, spec);
  const Var y = put(dims(packed), states(packed), out);
  spec.inverse = true;
  record(y, [this, packed, y, spec] {
    Tensor g = std::exchange(value(y).g, {});
    const Tensor dx = g.sole_owner() ? g : fresh(g.shape(), g.dtype(), End::high);
    context_.ops.rotary(context_.stream, dx, g, spec);
    g = {};
    contribute(packed, dx);
  });
  return y;
}

Attention Tape::attention_of(Var packed, const Heads& h) const {
  const Dims& d = dims(packed);
  const States& s = states(packed);
  const Shape shape = value(packed).v.shape();
  Attention a;
  a.rows = shape[0], a.q_tokens = a.kv_tokens = shape[1], a.groups = shape[2];
  a.queries = h.queries, a.head = h.head;
  a.q_width = a.kv_width = shape[3], a.kv_offset = h.queries * h.head;
  a.q_first = a.kv_first = first_of(d, s, Axis::sequence);
  a.causal = h.causal;
  a.scale = 1.0 / std::sqrt(static_cast<double>(h.head));
  if (h.dropout > 0 && micro_.training) {
    a.dropout = h.dropout;
    a.key = dropout_key(h.name);
    a.first_row = micro_.first_row + first_of(d, s, Axis::batch);
    a.first_head = first_of(d, s, Axis::heads) * h.queries;
    a.heads_global = d[2].extent * h.queries;
    a.q_global = a.kv_global = d[1].extent;
  }
  return a;
}

Var Tape::attention(Var packed, const Heads& h) {
  for (int m = 0; m < context_.mesh().axes(); ++m) {
    if (on(states(packed), m).kind == Kind::debt) refuse("attention of a debt: settle it first");
    if (on(states(packed), m) == State{Kind::split, Axis::sequence})
      refuse(fmt::format("attention with keys split on mesh axis {}: this version keeps the sequence whole there",
                         context_.mesh().name(m)));
  }
  const Attention spec = attention_of(packed, h);
  const Tensor in = read(packed);
  Dims out_dims = dims(packed);
  out_dims[3].extent = h.queries * h.head;
  Tensor out = fresh(local_shape(out_dims, states(packed)), context_.dtype);
  Tensor log_sum = fresh({spec.rows, spec.groups, spec.queries, spec.q_tokens}, context_.dtype);
  bill("attention", context_.ops.attention(context_.stream, out, log_sum, in, in, spec), states(packed),
       states(packed));
  value(packed).kept = true;
  const Var y = put(out_dims, states(packed), out);
  value(y).kept = true;  // backward reads the output
  record(y, [this, packed, y, in, out, log_sum, spec] {
    const Tensor d = std::exchange(value(y).g, {});
    Tensor dx = fresh(in.shape(), in.dtype(), End::high);
    bill("attention backward", context_.ops.attention_backward(context_.stream, dx, dx, d, out, log_sum, in, in, spec),
         states(packed), states(packed));
    contribute(packed, std::move(dx));
  });
  return y;
}

// Where rows are split each rank owns its rows' loss; where only the vocabulary is, all hold the same and the first
// counts.
void Tape::cross_entropy(Var logits, double smoothing) {
  const Dims d = dims(logits);
  const States s = states(logits);
  MeshAxes over = 0;
  bool counts = true;
  for (int m = 0; m < context_.mesh().axes(); ++m) {
    const State here = on(s, m);
    if (here.kind == Kind::debt) refuse("loss of a debt: settle it first");
    if (here.kind == Kind::copy && context_.mesh().extent(m) > 1)
      refuse("loss of a copy: nobody would owe its gradient");
    if (here.kind == Kind::split && here.axis == Axis::vocab) over |= bit(m);
    if (context_.plan.pipe() & bit(m)) continue;  // other stages have no loss
    if (here.kind != Kind::split || here.axis == Axis::vocab) counts = counts && context_.mesh().at(m) == 0;
  }
  const Tensor labels = own_tokens(micro_.labels, {d[0], d[1]}, s).flat();
  const Tensor scores = read(logits).reshaped({labels.count(), read(logits).shape()[2]});
  const CrossEntropy spec{context_.plan.slice(d[2], s).first, d[2].extent, smoothing};
  Tensor max = fresh({labels.count()}, DType::f64), sums = fresh({labels.count(), 3}, DType::f64);
  context_.ops.cross_entropy_max(context_.stream, max, scores);
  sum_over(context_, max, over, Reduce::max);
  context_.ops.cross_entropy_sums(context_.stream, sums, scores, max, labels, spec);
  sum_over(context_, sums, over);
  if (counts) context_.ops.cross_entropy_loss(context_.stream, micro_.loss, sums, max, labels, spec);
  record({-1}, [this, logits, labels, scores, max, sums, spec] {
    const Tensor& d_logits = scores;  // nobody else reads the logits any more
    context_.ops.cross_entropy_backward(context_.stream, d_logits, scores, max, sums, labels, spec);
    value(logits).g = d_logits.reshaped(value(logits).v.shape());
  });
}

}  // namespace quadrille
