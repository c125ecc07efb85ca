// SPDX-License-Identifier: Apache-2.0
// Values, gradients and the walk back. The law's crossings are in crossings.cpp, the ops in tape_ops.cpp.
#include "models/nn/tape.h"

#include "core/error.h"

namespace quadrille {

Tensor MicroBatch::field(std::string_view name) const {
  std::string known;
  for (const auto& [field, numbers] : fields) {
    if (field == name) return numbers;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", field);
  }
  fail("the model asks for the field \"{}\" of a batch; it has {}", name, known.empty() ? "none" : known);
}

const LossTotals& MicroBatch::loss_of(std::string_view labels) const {
  std::string known;
  for (const LossTotals& loss : losses) {
    if (loss.labels == labels) return loss;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", loss.labels);
  }
  fail("the model has a loss of the labels \"{}\", which its description does not name; it names {}", labels,
       known.empty() ? "none" : known);
}

Tape::Tape(Context& context, const MicroBatch& micro, Purpose purpose)
    : context_(context), micro_(micro), purpose_(purpose) {}

void Tape::refuse(const std::string& text) const { fail("{}: {}", scope_, text); }

Var Tape::put(Dims dims, States states, Tensor v) {
  Value made;
  made.dims = std::move(dims), made.states = states, made.v = std::move(v);
  values_.push_back(std::move(made));
  return {static_cast<int>(values_.size()) - 1};
}

Var Tape::input(Tensor v, Dims dims, States states) {
  const Var x = put(std::move(dims), states, std::move(v));
  value(x).kept = true;  // the block before owns these numbers
  return x;
}

Var Tape::use(Parameter& p) {
  if (!p.value) refuse("the numbers of " + p.name + " are not at hand: the block does not say that it uses it");
  const Var v = put(p.dims, p.states, {});  // no hold on numbers that may be dropped and gathered again
  value(v).parameter = &p;
  value(v).kept = true;
  return v;
}

Tensor Tape::read(Var v) {
  if (value(v).consumed) refuse("a value was used after an op had consumed it: use the op's result");
  return now(v);
}

Tensor Tape::now(Var v) const { return value(v).parameter ? value(v).parameter->value : value(v).v; }

Tensor Tape::take(Var v) {
  Tensor numbers = read(v);
  value(v).consumed = true;
  if (!value(v).kept) {
    value(v).v = {};  // its memory lives as long as what is made of it, not until backward
    return numbers;
  }
  Tensor copy = fresh(numbers.shape(), numbers.dtype());
  context_.stream.copy(copy, numbers);
  return copy;
}

Tensor Tape::fresh(const Shape& shape, DType dtype, End end) { return context_.arena.empty(shape, dtype, end); }

void Tape::record(Var made, std::function<void()> back) {
  if (purpose_ != Purpose::look) steps_.push_back({std::move(back), made.id, scope_});
}

void Tape::backward() {
  walking_ = true;
  while (!steps_.empty()) {
    Step step = std::move(steps_.back());
    steps_.pop_back();
    scope_ = step.scope;
    step.back();
    if (step.made >= 0)
      values_[static_cast<std::size_t>(step.made)].v = values_[static_cast<std::size_t>(step.made)].g = Tensor();
  }
}

void Tape::contribute(Var v, Tensor numbers) {
  Value& x = value(v);
  if (x.parameter) {
    if (Tensor sum = parameter_gradient(v)) context_.ops.add(context_.stream, sum, sum, numbers.reshaped(sum.shape()));
    return;
  }
  if (!x.g) {
    x.g = std::move(numbers);
    return;
  }
  if (!x.g.sole_owner()) std::swap(x.g, numbers);  // somebody else still reads the sum so far: add into the new numbers
  context_.ops.add(context_.stream, x.g, x.g, numbers);
}

void Tape::pass_on(Var v, const Tensor& numbers) {
  Value& x = value(v);
  if (!x.g) {
    x.g = numbers.reshaped(local_shape(x.dims, x.states));
    return;
  }
  if (!x.g.sole_owner()) {
    Tensor sum = fresh(x.g.shape(), x.g.dtype(), End::high);
    context_.ops.add(context_.stream, sum, x.g, numbers);
    x.g = std::move(sum);
    return;
  }
  context_.ops.add(context_.stream, x.g, x.g, numbers);
}

Tensor Tape::to_add_to(Var v, Write& write) {
  Value& x = value(v);
  if (x.parameter) {
    write = Write::accumulate;
    return parameter_gradient(v);
  }
  write = x.g ? Write::accumulate : Write::replace;
  // What stands for a weight gathers a sum over all rows, like the weight's own gradient.
  if (!x.g)
    x.g = fresh(local_shape(x.dims, x.states), patient(v) ? wide(context_.dtype) : context_.dtype, End::high);
  else if (!x.g.sole_owner()) {
    Tensor own = fresh(x.g.shape(), x.g.dtype(), End::high);
    context_.stream.copy(own, x.g);
    x.g = std::move(own);
  }
  return x.g;
}

Tensor Tape::to_accumulate_in(Var v) {
  Write write{};
  Tensor sum = to_add_to(v, write);
  if (sum && write == Write::replace) context_.stream.zero(sum);
  return sum;
}

// A use that owes on fewer mesh axes than the parameter's bucket pays must be counted once there: by the first rank.
Tensor Tape::parameter_gradient(Var v) {
  Parameter& p = *value(v).parameter;
  const MeshAxes owed = context_.mesh().real(where(v, Kind::copy));
  if (owed & ~p.owed)
    refuse("a use of " + p.name + " owes on " + context_.mesh().names(owed & ~p.owed) +
           ", more than the rehearsal said; please report this");
  return context_.mesh().first_on(p.owed & ~owed) ? p.gradient : Tensor();
}

double Tape::adds_for(Var v) const {
  const Parameter* p = value(v).parameter;
  return p ? context_.mesh().extent_of(p->owed & ~where(v, Kind::copy)) : 1;
}

std::vector<Parameter*> Tape::note_debts() {
  std::vector<Parameter*> used;
  for (Value& v : values_) {
    if (!v.parameter) continue;
    used.push_back(v.parameter);
    MeshAxes owed = 0;
    for (int m = 0; m < context_.mesh().axes(); ++m)
      if (v.states[static_cast<std::size_t>(m)].kind == Kind::copy) owed |= bit(m);
    v.parameter->owed |= context_.mesh().real(owed);
  }
  return used;
}

MeshAxes Tape::where_split(const States& s, Axis along) const {
  MeshAxes axes = 0;
  for (int m = 0; m < context_.mesh().axes(); ++m)
    if (on(s, m) == State{Kind::split, along}) axes |= bit(m);
  return axes;
}

MeshAxes Tape::where(Var v, Kind kind) const {
  MeshAxes axes = 0;
  for (int m = 0; m < context_.mesh().axes(); ++m)
    if (states(v)[static_cast<std::size_t>(m)].kind == kind) axes |= bit(m);
  return axes;
}

// Work whose operands are split on a mesh axis is shared there; on every other axis of more than one rank it is
// repeated, but on the pipeline's, where every stage has work of its own.
void Tape::bill(const char* op, const Cost& cost, const States& a, const States& b, double useful) {
  double replicas = 1;
  for (int m = 0; m < context_.mesh().axes(); ++m) {
    const auto k = static_cast<std::size_t>(m);
    if (a[k].kind != Kind::split && b[k].kind != Kind::split && !(context_.plan.pipe() & bit(m)))
      replicas *= context_.mesh().extent(m);
  }
  const double once = cost.flops - cost.recomputed, shared = once / replicas * useful;
  if (purpose_ == Purpose::again && !walking_)
    context_.ledger.work({0, shared + cost.recomputed, once - shared, 0, 0});
  else
    context_.ledger.work({shared, cost.recomputed, once - shared, 0, cost.skipped / replicas});
  if (context_.ledger.keeps_entries()) context_.ledger.op(std::string(op) + " " + scope_, cost);
}

}  // namespace quadrille
