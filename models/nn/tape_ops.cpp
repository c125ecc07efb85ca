// SPDX-License-Identifier: Apache-2.0
// The element-wise and product ops of the tape: forward now, backward recorded. Ops that belong to attention, embedding
// and loss are in tape_tokens.cpp.
#include "core/error.h"
#include "models/nn/tape.h"

namespace quadrille {

namespace {

// Leading dims become rows, the last `columns` dims one column.
Tensor matrix(const Tensor& t, int columns) {
  const int rank = t.shape().rank();
  return t.reshaped({t.shape().count(0, rank - columns), t.shape().count(rank - columns, rank)});
}
}  // namespace

// Result on a mesh axis: both split along a summed dim: debt. Otherwise as in any bilinear op.
Var Tape::linear(Var x, Var w, int summed_dims, const Dims& made, Summed summed) {
  const std::size_t first_crossing = crossings_.size();
  std::tie(x, w) = meet(x, w);
  const std::size_t last_crossing = crossings_.size();
  const Dims& wd = dims(w);
  const auto summed_first = summed == Summed::first ? wd.begin() : wd.end() - summed_dims;
  const Dims contracted(summed_first, summed_first + summed_dims);
  Dims out_dims(dims(x).begin(), dims(x).end() - summed_dims);
  out_dims.insert(out_dims.end(), made.begin(), made.end());
  States out_states;
  for (int m = 0; m < context_.mesh().axes(); ++m) {
    const State p = on(states(x), m), q = on(states(w), m);
    const bool sums = p.kind == Kind::split && p == q && has(contracted, p.axis);
    if (!sums &&
        ((p.kind == Kind::split && has(contracted, p.axis)) || (q.kind == Kind::split && has(contracted, q.axis))))
      refuse(fmt::format("a summed dim is split in one operand alone on mesh axis {}: {} and {}",
                         context_.mesh().name(m), text_of(p), text_of(q)));
    on(out_states, m) = sums ? State{Kind::debt, Axis::none} : combine(p, q, m);
  }
  const bool transposed = summed == Summed::last;
  const Tensor x_matrix = matrix(read(x), summed_dims),
               w_matrix = matrix(read(w), transposed ? summed_dims : static_cast<int>(made.size()));
  Tensor out = fresh(local_shape(out_dims, out_states), context_.dtype);
  const Tensor out_matrix = out.reshaped({x_matrix.shape()[0], transposed ? w_matrix.shape()[0] : w_matrix.shape()[1]});
  const Matmul forward{Transpose::no, transposed ? Transpose::yes : Transpose::no, Write::replace, context_.tf32};
  bill("linear", context_.ops.matmul(context_.stream, out_matrix, x_matrix, w_matrix, {}, forward), states(x),
       states(w), value(w).useful);
  value(x).kept = value(w).kept = true;
  const Var y = put(std::move(out_dims), out_states, out);
  record(y, [this, x, w, y, x_matrix, w_shape = w_matrix.shape(), transposed, first_crossing, last_crossing] {
    const Tensor w_matrix = now(w).reshaped(w_shape);
    const Tensor dy = value(y).g.reshaped({x_matrix.shape()[0], transposed ? w_shape[0] : w_shape[1]});
    Write write{};
    if (Tensor dx = to_add_to(x, write))
      bill("linear dx",
           context_.ops.matmul(context_.stream, dx.reshaped(x_matrix.shape()), dy, w_matrix, {},
                               {Transpose::no, transposed ? Transpose::no : Transpose::yes, write, context_.tf32}),
           states(x), states(w), value(w).useful);
    if (context_.plan.overlap().input_gradient) start_towards(x, first_crossing, last_crossing);
    if (Tensor dw = to_add_to(w, write)) {
      const Tensor& a = transposed ? dy : x_matrix;
      const Tensor& b = transposed ? x_matrix : dy;
      bill("linear dw",
           context_.ops.matmul(context_.stream, dw.reshaped(w_shape), a, b, {},
                               {Transpose::yes, Transpose::no, write, context_.tf32}),
           states(x), states(w), value(w).useful * adds_for(w));
    }
  });
  return y;
}

Var Tape::add(Var x, Var y) {
  std::tie(x, y) = meet(x, y);
  const States s = combine(x, y);
  const Tensor a = read(x), out = take(y);
  context_.ops.add(context_.stream, out, a, out);
  const Var sum = put(dims(x), s, out);
  record(sum, [this, x, y, sum] {
    const Tensor d = std::exchange(value(sum).g, {});
    pass_on(y, d);
    pass_on(x, d);
  });
  return sum;
}

Var Tape::add_bias(Var x, Var bias) {
  std::tie(x, bias) = meet(x, bias);
  const States s = combine(x, bias);
  const int columns = static_cast<int>(dims(bias).size());
  const Tensor out = take(x);
  context_.ops.add_bias(context_.stream, matrix(out, columns), matrix(out, columns), read(bias).flat());
  const Var sum = put(dims(x), s, out);
  record(sum, [this, x, bias, sum, columns] {
    Tensor d = std::exchange(value(sum).g, {});
    Write write{};
    if (Tensor db = to_add_to(bias, write))
      context_.ops.sum_rows(context_.stream, db.flat(), matrix(d, columns), write);
    contribute(x, std::move(d));
  });
  return sum;
}

Var Tape::gelu(Var x) {
  if (where(x, Kind::debt)) refuse("gelu of a debt: settle it first");
  const Tensor in = read(x);
  Tensor out = fresh(in.shape(), in.dtype());
  context_.ops.gelu(context_.stream, out, in);
  value(x).kept = true;
  const Var y = put(dims(x), states(x), out);
  record(y, [this, x, y, in] {
    Tensor d = std::exchange(value(y).g, {});
    const Tensor dx = d.sole_owner() ? d : fresh(d.shape(), d.dtype(), End::high);
    context_.ops.gelu_backward(context_.stream, dx, d, in);
    d = {};
    contribute(x, dx);
  });
  return y;
}

Var Tape::relu(Var x) {
  if (where(x, Kind::debt)) refuse("relu of a debt: settle it first");
  const Tensor out = take(x);
  context_.ops.relu(context_.stream, out, out);
  const Var y = put(dims(x), states(x), out);
  value(y).kept = true;  // backward reads the output
  record(y, [this, x, y, out] {
    Tensor d = std::exchange(value(y).g, {});
    const Tensor dx = d.sole_owner() ? d : fresh(d.shape(), d.dtype(), End::high);
    context_.ops.relu_backward(context_.stream, dx, d, out);
    d = {};
    contribute(x, dx);
  });
  return y;
}

Var Tape::tanh(Var x) {
  if (where(x, Kind::debt)) refuse("tanh of a debt: settle it first");
  const Tensor in = read(x);
  Tensor out = fresh(in.shape(), in.dtype());
  context_.ops.tanh(context_.stream, out, in);
  const Var y = put(dims(x), states(x), out);
  value(y).kept = true;  // backward reads the output
  record(y, [this, x, y, out] {
    Tensor d = std::exchange(value(y).g, {});
    const Tensor dx = d.sole_owner() ? d : fresh(d.shape(), d.dtype(), End::high);
    context_.ops.tanh_backward(context_.stream, dx, d, out);
    d = {};
    contribute(x, dx);
  });
  return y;
}

Var Tape::gated_silu(Var gate, Var up) {
  std::tie(gate, up) = meet(gate, up);
  const States s = combine(gate, up);
  const Tensor g = read(gate), u = read(up);
  Tensor out = fresh(u.shape(), u.dtype());
  context_.ops.gated_silu(context_.stream, out, g, u);
  value(gate).kept = value(up).kept = true;
  const Var y = put(dims(up), s, out);
  record(y, [this, gate, up, y, g, u] {
    const Tensor d = std::exchange(value(y).g, {});
    Tensor dgate = fresh(d.shape(), d.dtype(), End::high), dup = fresh(d.shape(), d.dtype(), End::high);
    context_.ops.gated_silu_backward(context_.stream, dgate, dup, d, g, u);
    contribute(up, std::move(dup));
    contribute(gate, std::move(dgate));
  });
  return y;
}

Var Tape::dropout(Var x, double probability, std::string_view name) {
  if (probability == 0 || !micro_.training) return x;
  if (where(x, Kind::debt)) refuse("dropout of a debt: settle it first");
  const Tensor out = take(x);
  const Dims d = dims(x);
  const States s = states(x);
  const Place tokens = tokens_of(d, s);
  const Dropout spec{probability,
                     dropout_key(name),
                     micro_.first_row + first_of(d, s, Axis::batch),
                     tokens.first,
                     first_of(d, s, d.back().axis),
                     extent_of(d, Axis::sequence),
                     d.back().extent,
                     tokens.jump};
  context_.ops.dropout(context_.stream, out, out, spec);
  const Var y = put(d, s, out);
  record(y, [this, x, y, spec] {
    Tensor g = std::exchange(value(y).g, {});
    const Tensor dx = g.sole_owner() ? g : fresh(g.shape(), g.dtype(), End::high);
    context_.ops.dropout(context_.stream, dx, g, spec);
    g = {};
    contribute(x, dx);
  });
  return y;
}

// Two numbers per row cross the mesh axes that split the features, forward and backward.
Var Tape::norm(Var x, Var gain, std::optional<Var> bias, NormKind kind, double epsilon) {
  std::tie(x, gain) = meet(x, gain);
  if (bias) std::tie(x, bias) = meet(x, *bias);
  const States s = combine(x, gain);
  const Axis features = dims(x).back().axis;
  MeshAxes over = 0;
  for (int m = 0; m < context_.mesh().axes(); ++m)
    if (features != Axis::none && on(states(x), m) == State{Kind::split, features}) over |= bit(m);
  const Norm spec{kind, epsilon, dims(x).back().extent};
  const Tensor in = matrix(read(x), 1);
  Tensor sums = fresh({in.shape()[0], 2}, DType::f64), out = fresh(read(x).shape(), context_.dtype);
  context_.ops.norm_sums(context_.stream, sums, in);
  sum_over(context_, sums, over);
  const Tensor gain_values = read(gain).flat(), bias_values = bias ? read(*bias).flat() : Tensor();
  context_.ops.norm(context_.stream, matrix(out, 1), in, sums, gain_values, bias_values, spec);
  value(x).kept = value(gain).kept = true;
  const Var y = put(dims(x), s, out);
  record(y, [this, x, gain, bias, y, in, sums, spec, over] {
    const Tensor gain_values = now(gain).flat();
    const Tensor dy = matrix(std::exchange(value(y).g, {}), 1);
    Tensor back_sums = fresh({in.shape()[0], 2}, DType::f64, End::high);
    context_.ops.norm_backward_sums(context_.stream, back_sums, dy, in, sums, gain_values, spec);
    sum_over(context_, back_sums, over);
    Tensor dgain = to_accumulate_in(gain), dbias = bias ? to_accumulate_in(*bias) : Tensor();
    if (dgain) dgain = dgain.flat();
    if (dbias) dbias = dbias.flat();
    if (dgain || dbias) context_.ops.norm_backward_parameters(context_.stream, dgain, dbias, dy, in, sums, spec);
    Write write{};
    Tensor dx = to_add_to(x, write);
    context_.ops.norm_backward(context_.stream, matrix(dx, 1), dy, in, sums, back_sums, gain_values, spec, write);
  });
  return y;
}

}  // namespace quadrille
