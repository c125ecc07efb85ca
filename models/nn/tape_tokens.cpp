// SPDX-License-Identifier: Apache-2.0
// The ops of the tape that know tokens: embedding, positions, loss; attention is in tape_attention.cpp. All addresses
// (positions, dropout) are global, so every layout sees the same numbers.
#include "core/error.h"
#include "models/nn/tape.h"

namespace quadrille {

std::int64_t Tape::first_of(const Dims& d, const States& s, Axis a) const {
  return a != Axis::none && has(d, a) ? context_.plan.slice(d[static_cast<std::size_t>(dim_of(d, a))], s).first : 0;
}

std::int64_t Tape::extent_of(const Dims& d, Axis a) const { return d[static_cast<std::size_t>(dim_of(d, a))].extent; }

Key Tape::dropout_key(std::string_view name) {
  context_.step_matters = true;
  return key_of(key_of(key_of(micro_.seed, "dropout"), static_cast<std::uint64_t>(micro_.step)), key_of(0, name));
}

// A table split along its rows makes a sum over one-hot rows, hence a debt; split along its features, a part of them.
// The ids lie as values at rest do, but whole on mesh axes where the table is split.
Var Tape::embedding(Var table, std::string_view field, Dim features) {
  const Tensor held = micro_.field(field);
  const Dims rows = {{Axis::batch, micro_.rows}, {Axis::sequence, held.shape()[1]}};
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
  out_dims.push_back(features);  // the table's own dim may have lost its axis to the words
  const Tensor ids = own_tokens(held, rows, s);
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
  const std::vector<Slice> runs = context_.plan.runs(rows[1], s);
  if (runs.front().count == rows[1].extent) return held;
  const std::int64_t own_rows = held.shape()[0], count = context_.plan.slice(rows[1], s).count;
  Tensor part = fresh({own_rows, count}, DType::i32);
  std::int64_t at = 0;
  for (Slice run : runs) {
    context_.ops.move_block(context_.stream, part.flat(), held.flat(),
                            {own_rows, run.count, 1, count, at, rows[1].extent, run.first, Write::replace});
    at += run.count;
  }
  return part;
}

// Where the tokens of a value lie that this rank holds.
Tape::Place Tape::place_of(const std::vector<Slice>& runs) const {
  if (runs.size() == 1) return {runs[0].first, {}};
  if (runs.size() > 2)
    refuse(
        fmt::format("{} runs of tokens would come together, a balanced order gathered over some of its ranks: two at "
                    "most can be worked on, \"balanced\": false in \"context\" makes one of them",
                    runs.size()));
  return {runs[0].first, {runs[0].count, runs[1].first - runs[0].end()}};
}

Tape::Place Tape::tokens_of(const Dims& d, const States& s) const {
  return place_of(context_.plan.runs(d[static_cast<std::size_t>(dim_of(d, Axis::sequence))], s));
}

Tensor Tape::positions_of(Var x) {
  const Shape shape = read(x).shape();
  const Tensor positions = fresh({shape[0], shape[1]}, DType::i32);
  const Place place = tokens_of(dims(x), states(x));
  context_.ops.positions(context_.stream, positions, place.first, place.jump);
  return positions.flat();
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

Var Tape::add_sinusoids(Var x, double factor) { return with_sinusoids(x, factor, 1); }

Var Tape::scale(Var x, double factor) { return with_sinusoids(x, factor, 0); }

Var Tape::with_sinusoids(Var x, double factor, double amplitude) {
  if (where(x, Kind::debt)) refuse("sinusoids upon a debt: settle it first");
  const Dims d = dims(x);
  const States s = states(x);
  const Place tokens = tokens_of(d, s);
  const Sinusoids spec{factor, amplitude, tokens.first, first_of(d, s, d.back().axis), d.back().extent, tokens.jump};
  const Tensor out = take(x);
  context_.ops.sinusoids(context_.stream, out, out, spec);
  const Var y = put(d, s, out);
  record(y, [this, x, y, back = Sinusoids{.factor = factor, .amplitude = 0, .features = spec.features}] {
    Tensor g = std::exchange(value(y).g, {});
    const Tensor dx = g.sole_owner() ? g : fresh(g.shape(), g.dtype(), End::high);
    context_.ops.sinusoids(context_.stream, dx, g, back);
    g = {};
    contribute(x, dx);
  });
  return y;
}

Var Tape::pick(Var x, std::string_view field) { return pick_at(x, micro_.field(field)); }

Var Tape::pick_first(Var x) {
  const Tensor places = fresh({read(x).shape()[0], 1}, DType::i32);
  context_.stream.zero(places);
  return pick_at(x, places);
}

// A sum over one-hot rows: who does not hold a token adds nothing.
Var Tape::pick_at(Var x, const Tensor& places) {
  if (where(x, Kind::debt)) refuse("rows of a debt: settle it first");
  const Tensor in = read(x);
  const std::int64_t own_rows = in.shape()[0], tokens = in.shape()[1], features = in.shape()[2];
  if (places.shape()[0] != own_rows)
    refuse(fmt::format("{} rows are here, but the places of {}: a row of \"passing\" scatters rows away from them",
                       own_rows, places.shape()[0]));
  const Place held = tokens_of(dims(x), states(x));
  const Tensor rows = fresh(places.shape(), DType::i32);
  context_.ops.rows_of_places(context_.stream, rows, places, tokens, held.first, held.jump);
  Dims d = dims(x);
  d[1] = {Axis::none, places.shape()[1]};
  States s = states(x);
  for (int m = 0; m < context_.mesh().axes(); ++m)
    if (on(s, m) == State{Kind::split, Axis::sequence}) on(s, m) = {Kind::debt, Axis::none};
  Tensor out = fresh(local_shape(d, s), context_.dtype);
  const Shape table{own_rows * tokens, features}, flat{rows.count(), features};
  context_.ops.embedding(context_.stream, out.reshaped(flat), in.reshaped(table), rows.flat(), 0);
  const Var y = put(std::move(d), s, out);
  record(y, [this, x, y, rows, table, flat] {
    const Tensor g = std::exchange(value(y).g, {});
    context_.ops.embedding_backward(context_.stream, to_accumulate_in(x).reshaped(table), g.reshaped(flat), rows.flat(),
                                    0);
  });
  return y;
}

Tensor Tape::row_lengths(std::string_view field) {
  const Tensor ids = micro_.field(field);
  Tensor lengths = fresh({ids.shape()[0]}, DType::i32);
  context_.ops.row_lengths(context_.stream, lengths, ids);
  return lengths;
}

// Where rows are split each rank owns its rows' loss; where only the vocabulary is, all hold the same and the first
// counts.
void Tape::cross_entropy(Var logits, std::string_view field, double smoothing) {
  const Dims d = dims(logits);
  const States s = states(logits);
  MeshAxes over = 0;
  bool adds = true;
  for (int m = 0; m < context_.mesh().axes(); ++m) {
    const State here = on(s, m);
    if (here.kind == Kind::debt) refuse("loss of a debt: settle it first");
    if (here.kind == Kind::copy && context_.mesh().extent(m) > 1)
      refuse("loss of a copy: nobody would owe its gradient");
    if (here == State{Kind::split, Axis::batch} && !context_.plan.rests_on(Axis::batch, m))
      refuse(
          fmt::format("a row of \"passing\" scatters rows over mesh axis \"{}\", away from their labels: pass "
                      "\"sequence\" there",
                      context_.mesh().name(m)));
    if (here.kind == Kind::split && here.axis == Axis::vocab) over |= bit(m);
    if (context_.plan.pipe() & bit(m)) continue;  // other stages have no loss
    if (here.kind != Kind::split || here.axis == Axis::vocab) adds = adds && context_.mesh().at(m) == 0;
  }
  const Tensor held = micro_.field(field);
  const LossTotals& totals = micro_.loss_of(field);
  const Tensor labels = (d.size() > 2 ? own_tokens(held, {d[0], d[1]}, s) : held).flat();
  const int last = read(logits).shape().rank() - 1;
  if (read(logits).shape().count(0, last) != labels.count())
    refuse(fmt::format("logits of {} and labels of {} do not meet", read(logits).shape().text(), held.shape().text()));
  const Tensor scores = read(logits).reshaped({labels.count(), read(logits).shape()[last]});
  const CrossEntropy spec{context_.plan.slice(d.back(), s).first, d.back().extent, smoothing};
  Tensor max = fresh({labels.count()}, DType::f64), sums = fresh({labels.count(), 3}, DType::f64);
  context_.ops.cross_entropy_max(context_.stream, max, scores);
  sum_over(context_, max, over, Reduce::max);
  context_.ops.cross_entropy_sums(context_.stream, sums, scores, max, labels, spec);
  sum_over(context_, sums, over);
  if (adds) context_.ops.cross_entropy_loss(context_.stream, totals.sums, sums, max, labels, spec);
  if (micro_.correct && !totals.counts) {
    const Tensor matches = fresh({labels.count(), 2}, DType::f64);
    context_.ops.label_matches(context_.stream, matches, scores, max, labels, spec);
    sum_over(context_, matches, over);
    if (adds) context_.ops.count_correct(context_.stream, micro_.correct, matches, labels);
  }
  record({-1}, [this, logits, labels, scores, max, sums, counts = totals.counts, spec] {
    const Tensor& d_logits = scores;  // nobody else reads the logits any more
    context_.ops.cross_entropy_backward(context_.stream, d_logits, scores, max, sums, labels, counts, spec);
    value(logits).g = d_logits.reshaped(value(logits).v.shape());
  });
}

}  // namespace quadrille
