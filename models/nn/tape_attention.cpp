// SPDX-License-Identifier: Apache-2.0
// Attention of the tape, and rotary positions. Where the sequence is split, queries meet the keys of other ranks in one
// of three ways (docs/law.md): keys and values are gathered; packed values are turned from a part of the sequence to a
// part of the heads and back; or blocks of keys and values travel round the ranks (Liu, Zaharia and Abbeel 2023). With
// m tokens, width h and g ranks their ring volumes per block and rank are 4(g-1)/g mh, 8(g-1)/g^2 mh and 6(g-1)/g mh.
#include <cmath>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "models/nn/tape.h"

namespace quadrille {

namespace {

// The keys of an attention call that are not packed with its queries.
Attention with_keys(Attention a, std::int64_t tokens, std::int64_t first, Jump jump) {
  a.kv_tokens = tokens, a.kv_first = first, a.kv_jump = jump;
  a.kv_width = 2 * a.head, a.kv_offset = 0;
  return a;
}

// A tensor on its way to this rank.
struct Arriving {
  Tensor numbers;
  Ticket ticket;
  Tensor wait(Stream& stream) && {
    std::move(ticket).wait(stream);
    return std::move(numbers);
  }
};

// The ranks over which a sequence is split, as a ring: at step s a rank has the block that began s places before it.
class Ring {
 public:
  Ring(Context& c, const Dims& dims, const States& states, MeshAxes over)
      : c_(c), group_(c.mesh().along(over)), shape_(c.plan.shape(dims, states)) {
    for (int r = 0; r < group_.size(); ++r) runs_.push_back(c.plan.runs(dims[1], states, places_of(c.mesh(), over, r)));
  }
  int size() const { return group_.size(); }
  const std::vector<Slice>& runs(int step) const { return runs_[static_cast<std::size_t>(place(-step))]; }
  std::int64_t tokens(int step) const {
    std::int64_t count = 0;
    for (Slice run : runs(step)) count += run.count;
    return count;
  }
  void send(const Tensor& t) { group_.send(t.flat(), place(1), c_.stream).wait(c_.stream); }
  // A block of keys and values, or its gradients, from the neighbour. Messages of a pair arrive in the order in which
  // they are asked for.
  Arriving receive(int step, std::int64_t head, DType dtype) {
    const Tensor numbers = c_.arena.empty({shape_[0], tokens(step), shape_[2], 2 * head}, dtype, End::high);
    return {numbers, group_.receive(numbers.flat(), place(-1), c_.stream)};
  }
  // Sends the block of this step on and asks for the next one; the last step has none.
  Arriving pass_on(const Tensor& block, int step, std::int64_t head) {
    if (step + 1 == size()) return {};
    send(block);
    return receive(step + 1, head, block.dtype());
  }

 private:
  int place(int further) const { return (group_.rank() + further + size()) % size(); }
  Context& c_;
  Communicator& group_;
  Shape shape_;
  std::vector<std::vector<Slice>> runs_;  // by member
};

// Moves between a stored parameter and this rank's groups of it. `move`: whole groups as `out`, the stored as `in`.
template <class F>
void for_each_group(const HeadSpread& h, Slice own, std::int64_t outer, F&& move) {
  const std::int64_t stored = (h.stored_queries() + 2) * h.head, width = (h.queries + 2) * h.head;
  const std::int64_t per_head = h.groups / h.kv_heads;
  for (std::int64_t i = 0; i < own.count; ++i) {
    const std::int64_t group = own.first + i, at = group / per_head * stored;
    BlockMove block{outer, h.queries * h.head, 1, own.count * width, i * width, h.kv_heads * stored, 0, Write::replace};
    block.in_first = at + group % per_head * h.queries * h.head;
    move(block);
    block.rows = 2 * h.head, block.out_first += h.queries * h.head;
    block.in_first = at + h.stored_queries() * h.head;
    move(block);
  }
}

}  // namespace

Var Tape::spread_heads(Var w, const HeadSpread& h) {
  Dims made(dims(w).begin(), dims(w).end() - 2);
  made.push_back({Axis::heads, h.groups});
  const States heads = context_.plan.at_rest({made.back()});
  States s = states(w);
  for (int m = 0; m < context_.mesh().axes(); ++m) {
    if (on(heads, m).kind != Kind::split) continue;
    if (on(s, m).kind == Kind::split)
      refuse(
          fmt::format("the weight of replicated keys and values must be whole on mesh axis \"{}\", where \"{}\" rests",
                      context_.mesh().name(m), name_of(on(s, m).axis)));
    expect(on(s, m), Kind::same, "spread_heads", m);
    on(s, m) = on(heads, m);
    on(value(w).states, m) = {Kind::copy, Axis::none};
  }
  const Slice own = context_.plan.slice(made.back(), s);
  made.push_back({Axis::none, (h.queries + 2) * h.head});
  const Tensor stored = read(w);
  const std::int64_t outer = stored.shape().count(0, stored.shape().rank() - 2);
  Tensor out = fresh(local_shape(made, s), stored.dtype());
  for_each_group(h, own, outer, [&](const BlockMove& block) {
    context_.ops.move_block(context_.stream, out.flat(), stored.flat(), block);
  });
  const Var y = put(made, s, out);
  value(y).source = w.id;
  value(y).kept = true;
  value(y).useful =
      static_cast<double>(h.kv_heads * (h.stored_queries() + 2)) / static_cast<double>(h.groups * (h.queries + 2));
  record(y, [this, w, y, h, own, outer] {
    const Tensor d = std::exchange(value(y).g, {});
    Write write{};
    const Tensor dw = to_add_to(w, write);
    if (!dw || !d) return;
    for_each_group(h, own, outer, [&](BlockMove block) {
      std::swap(block.out_rows, block.in_rows);
      std::swap(block.out_first, block.in_first);
      block.write = Write::accumulate;
      context_.ops.move_block(context_.stream, dw.flat(), d.flat(), block);
    });
  });
  return y;
}

Rotary Tape::rotary_of(Var packed, const Heads& h, double base) const {
  const Shape shape = value(packed).v.shape();
  const Place tokens = tokens_of(dims(packed), states(packed));
  return {shape[0], shape[1], shape[2], shape[3], h.queries + 1, h.head, tokens.first, base, false, tokens.jump};
}

// Turns queries and keys, which lie side by side at the front of each group; values stay.
Var Tape::rotary(Var packed, const Heads& h, double base) {
  if (where(packed, Kind::debt)) refuse("rotary positions of a debt: settle it first");
  Rotary spec = rotary_of(packed, h, base);
  const Tensor out = take(packed);
  if (!value(packed).kept) value(packed).v = {};  // `out` is all there is of it: who turns it may then drop it
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

Attention Tape::attention_of(Var packed, const Heads& h) {
  const Dims& d = dims(packed);
  const States& s = states(packed);
  const Shape shape = value(packed).v.shape();
  const Place tokens = tokens_of(d, s);
  Attention a;
  a.rows = shape[0], a.q_tokens = a.kv_tokens = shape[1], a.groups = shape[2];
  a.queries = h.queries, a.head = h.head;
  a.q_width = a.kv_width = shape[3], a.kv_offset = h.queries * h.head;
  a.q_first = a.kv_first = tokens.first, a.q_jump = a.kv_jump = tokens.jump;
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
  if (where(packed, Kind::debt)) refuse("attention of a debt: settle it first");
  const MeshAxes cut = where_split(states(packed), Axis::sequence);
  if (!cut) return attend(packed, packed, h);
  switch (context_.plan.context().attention) {
    case KeyExchange::gather:
      return attend(packed, gathered_keys(packed, cut, h), h);
    case KeyExchange::turn:
      return attend_turned(packed, h);
    case KeyExchange::ring:
      break;
  }
  return attend_around(packed, cut, h);
}

Var Tape::cross_attention(Var queries, Var keys, const Heads& h) {
  if (where(queries, Kind::debt) || where(keys, Kind::debt)) refuse("attention of a debt: settle it first");
  std::tie(queries, keys) = meet(queries, keys);
  const MeshAxes cut = where_split(states(keys), Axis::sequence);
  if (cut) keys = all_tokens(keys, cut);
  combine(queries, keys);
  return attend(queries, keys, h);
}

// `keys`: the packed value itself, or keys and values of all positions in natural order.
Var Tape::attend(Var packed, Var keys, const Heads& h) {
  const bool apart = keys.id != packed.id;
  Attention spec = attention_of(packed, h);
  if (apart) {
    spec = with_keys(spec, dims(keys)[1].extent, 0, {});
    spec.kv_global = spec.kv_tokens;
  }
  const Tensor q = read(packed), kv = read(keys);
  Dims out_dims = dims(packed);
  out_dims[3].extent = h.queries * h.head;
  Tensor out = fresh(local_shape(out_dims, states(packed)), context_.dtype);
  Tensor log_sum = fresh({spec.rows, spec.groups, spec.queries, spec.q_tokens}, wide(context_.dtype));
  bill("attention", context_.ops.attention(context_.stream, out, log_sum, q, kv, h.lengths, spec), states(packed),
       states(packed));
  value(packed).kept = value(keys).kept = true;
  const Var y = put(out_dims, states(packed), out);
  value(y).kept = true;  // backward reads the output
  record(y, [this, packed, keys, y, q, kv, out, log_sum, spec, apart, lengths = h.lengths] {
    const Tensor d = std::exchange(value(y).g, {});
    Tensor dq = fresh(q.shape(), q.dtype(), End::high), dkv = apart ? fresh(kv.shape(), kv.dtype(), End::high) : dq;
    bill("attention backward",
         context_.ops.attention_backward(context_.stream, dq, dkv, d, out, log_sum, q, kv, lengths, spec),
         states(packed), states(packed));
    if (apart) contribute(keys, std::move(dkv));
    dkv = {};
    contribute(packed, std::move(dq));
  });
  return y;
}

// Keys and values, cut out of packed [.., (queries + 2)*head] numbers.
Tensor Tape::own_keys(const Tensor& packed, const Attention& h) {
  const Shape s = packed.shape();
  Tensor keys = fresh({s[0], s[1], s[2], 2 * h.head}, packed.dtype(), End::high);
  context_.ops.move_block(context_.stream, keys.flat(), packed.flat(),
                          {s.count(0, 3), 2 * h.head, 1, 2 * h.head, 0, s[3], h.queries * h.head, Write::replace});
  return keys;
}

void Tape::paste_keys(const Tensor& packed, const Tensor& keys, const Attention& h, Write write) {
  const Shape s = packed.shape();
  context_.ops.move_block(context_.stream, packed.flat(), keys.flat(),
                          {s.count(0, 3), 2 * h.head, 1, s[3], h.queries * h.head, 2 * h.head, 0, write});
}

// Only keys and values move; queries stay.
Var Tape::gathered_keys(Var packed, MeshAxes over, const Heads& h) {
  Dims d = dims(packed);
  d[3].extent = 2 * h.head;
  const Attention spec = attention_of(packed, h);
  const Var own = put(d, states(packed), own_keys(read(packed), spec));
  record(own, [this, packed, own, spec] {
    const Tensor g = std::exchange(value(own).g, {});
    Write write{};
    const Tensor dx = to_add_to(packed, write);
    if (write == Write::replace) context_.stream.zero(dx);
    paste_keys(dx, g, spec, Write::accumulate);
  });
  return all_tokens(own, over);
}

// In natural order, not in that of parts. Backward: the sums of their gradients come home.
Var Tape::all_tokens(Var own, MeshAxes over) {
  const Dims d = dims(own);
  const States parts = states(own);
  Dims all = d;
  all[1].axis = Axis::none;
  States states = parts;
  for (int m = 0; m < context_.mesh().axes(); ++m)
    if (over & bit(m)) on(states, m) = {Kind::copy, Axis::none};
  Tensor everyones = gather_sequence(context_, read(own), d, parts, over);
  value(own).v = {};  // nobody needs it again
  return cross("gather_sequence", own, over, Axis::sequence, all, states, std::move(everyones),
               [this, d, parts, over](const Tensor& g, bool) {
                 return Later(scatter_sequence_sum(context_, g, d, parts, over));
               });
}

// All tokens of a part of the heads, and back. On mesh axes where the sequence only passes it is gathered.
Var Tape::attend_turned(Var packed, const Heads& h) {
  const std::vector<int> order = context_.plan.nesting(Axis::sequence);
  MeshAxes turned = 0;
  for (auto m = order.rbegin(); m != order.rend(); ++m) {
    if (on(states(packed), *m) != State{Kind::split, Axis::sequence}) continue;
    const bool turns = (context_.plan.context_axes() & bit(*m)) != 0;
    const Var before = packed;
    packed = turns ? all_to_all(packed, *m, Axis::heads) : gather(packed, *m);
    if (turns) turned |= bit(*m);
    value(before).consumed = true;
    if (!value(before).kept) value(before).v = {};  // its memory need not wait for backward
  }
  Var out = attend(packed, packed, h);
  for (int m : order)
    if (turned & bit(m)) out = all_to_all(out, m, Axis::sequence);
  return out;
}

// Each step sends the block at hand on, then works on it: parts of the result are merged by their log-sums.
Var Tape::attend_around(Var packed, MeshAxes over, const Heads& h) {
  const Tensor in = read(packed);
  const Dims d = dims(packed);
  const States s = states(packed);
  const Attention own = attention_of(packed, h);
  Dims out_dims = d;
  out_dims[3].extent = h.queries * h.head;
  const Tensor out = fresh(local_shape(out_dims, s), context_.dtype);
  const Tensor log_sum = fresh({own.rows, own.groups, own.queries, own.q_tokens}, wide(context_.dtype));
  Ring ring(context_, d, s, over);
  {
    const Tensor part_out = fresh(out.shape(), out.dtype(), End::high),
                 part_log_sum = fresh(log_sum.shape(), log_sum.dtype(), End::high);
    Tensor block = own_keys(in, own);
    for (int step = 0; step < ring.size(); ++step) {
      Arriving next = ring.pass_on(block, step, h.head);
      const Place tokens = place_of(ring.runs(step));
      const Attention spec = with_keys(own, ring.tokens(step), tokens.first, tokens.jump);
      bill("attention",
           context_.ops.attention(context_.stream, step ? part_out : out, step ? part_log_sum : log_sum, in, block,
                                  h.lengths, spec),
           s, s);
      if (step) context_.ops.attention_merge(context_.stream, out, log_sum, part_out, part_log_sum);
      block = std::move(next).wait(context_.stream);
    }
  }
  value(packed).kept = true;
  const Var y = put(out_dims, s, out);
  value(y).kept = true;  // backward reads the output
  record(y, [this, packed, over, own, y, in, out, log_sum, lengths = h.lengths] {
    const Tensor dout = std::exchange(value(y).g, {});
    contribute(packed, around_backward(packed, over, own, {in, out, log_sum, dout, lengths}));
  });
  return y;
}

// The same round with the gradients of each block behind it: a block's sum begins at the rank after its owner, and the
// last rank of its round is the one before, who sends it home.
Tensor Tape::around_backward(Var packed, MeshAxes over, const Attention& own, const AttentionResult& x) {
  const States s = states(packed);
  Ring ring(context_, dims(packed), s, over);
  Stream& stream = context_.stream;
  Tensor dx, home, block = own_keys(x.packed, own);
  for (int step = 0; step < ring.size(); ++step) {
    Arriving sums;
    if (step >= 2) sums = ring.receive(step, own.head, block.dtype());
    Arriving next = ring.pass_on(block, step, own.head);
    const Place tokens = place_of(ring.runs(step));
    const Attention spec = with_keys(own, ring.tokens(step), tokens.first, tokens.jump);
    const Tensor dq = fresh(x.packed.shape(), block.dtype(), End::high),
                 dkv = fresh(block.shape(), block.dtype(), End::high);
    bill("attention backward",
         context_.ops.attention_backward(stream, dq, dkv, x.dout, x.out, x.log_sum, x.packed, block, x.lengths, spec),
         s, s);
    if (step == 0) {
      dx = dq, home = dkv;
    } else {
      context_.ops.add(stream, dx, dx, dq);
      if (step >= 2) context_.ops.add(stream, dkv, dkv, std::move(sums).wait(stream));
      ring.send(dkv);
    }
    block = std::move(next).wait(stream);
  }
  context_.ops.add(stream, home, home, ring.receive(0, own.head, home.dtype()).wait(stream));
  paste_keys(dx, home, own, Write::replace);
  return dx;
}

}  // namespace quadrille
