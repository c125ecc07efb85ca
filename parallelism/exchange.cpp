// SPDX-License-Identifier: Apache-2.0
#include "parallelism/exchange.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace quadrille {

namespace {

void wait_all(std::vector<Ticket>& tickets, Stream& stream) {
  for (Ticket& t : std::exchange(tickets, {})) std::move(t).wait(stream);
}

// One message over all of them, or one per mesh axis, innermost first.
std::vector<MeshAxes> messages_over(const Plan& plan, MeshAxes axes) {
  std::vector<MeshAxes> out;
  if (!axes) return out;
  if (!plan.sums_axis_by_axis()) return {axes};
  for (int m = plan.mesh().axes(); m-- > 0;)
    if (axes & bit(m)) out.push_back(bit(m));
  return out;
}

}  // namespace

Cuts cuts_of(const Plan& plan, MeshAxes owed, MeshAxes split) {
  const Mesh& mesh = plan.mesh();
  Cuts cuts;
  MeshAxes done = split;
  owed = mesh.real(owed);
  const auto cut = [&](MeshAxes over) {
    over = mesh.real(over) & ~done;
    for (MeshAxes axes : messages_over(plan, over & owed)) cuts.steps.push_back({axes, true});
    if (over & ~owed) cuts.steps.push_back({over & ~owed, false});
    done |= over;
    return cuts.steps.size();
  };
  cuts.weights = cut(plan.store().weights);
  cuts.gradients = cut(plan.store().gradients);
  cuts.optimizer = cut(plan.store().optimizer);
  for (const Cuts::Step& s : cuts.steps) cuts.parts *= mesh.extent_of(s.over);
  cuts.rest = messages_over(plan, owed & ~done);
  for (std::size_t i = 0; i + 1 < cuts.rest.size(); ++i) cuts.parts *= mesh.extent_of(cuts.rest[i]);
  return cuts;
}

Slice part_of(const Mesh& mesh, const Segment& s, std::size_t steps) {
  Slice part{s.first, s.count};
  for (std::size_t k = 0; k < steps; ++k) {
    const MeshAxes over = s.cuts.steps[k].over;
    part.count /= mesh.extent_of(over);
    part.first += mesh.along(over).rank() * part.count;
  }
  return part;
}

// All-gathers in place, innermost cut first: the parts after `from` cuts become those after `to` of them. `base` is
// the bucket's element that lies at the tensor's beginning.
void Exchange::gather(const Tensor& whole, const Segment& s, std::int64_t base, std::size_t from, std::size_t to,
                      std::vector<Ticket>& tickets) {
  for (std::size_t k = from; k > to; --k) {
    const Slice mine = part_of(mesh_, s, k), wider = part_of(mesh_, s, k - 1);
    tickets.push_back(gatherers(s.cuts.steps[k - 1].over)
                          .all_gather(whole.rows(wider.first - base, wider.count),
                                      whole.rows(mine.first - base, mine.count), stream_));
  }
}

// The reverse: reduce-scatters in place; where nothing is owed the own part is there already.
void Exchange::reduce(const Tensor& whole, const Segment& s, std::int64_t base, std::size_t from, std::size_t to,
                      std::vector<Ticket>& tickets) {
  for (std::size_t k = from; k < to; ++k) {
    if (!s.cuts.steps[k].sums) continue;
    const Slice wider = part_of(mesh_, s, k), mine = part_of(mesh_, s, k + 1);
    tickets.push_back(payers(s.cuts.steps[k].over)
                          .reduce_scatter(whole.rows(mine.first - base, mine.count),
                                          whole.rows(wider.first - base, wider.count), Reduce::sum, stream_));
  }
}

Exchange::Use& Exchange::use_of(const Bucket& b) {
  for (Use& u : uses_)
    if (u.bucket == &b) return u;
  uses_.push_back({&b, 0, {}});
  return uses_.back();
}

void Exchange::begin_gathering(Bucket& b, Use& use) {
  if (use.count++ > 0) return;
  if (!b.cut_weights()) {
    b.values = b.kept_values;
    return;
  }
  b.values = arena_.empty({b.count}, b.dtype, End::high);
  for (const Segment& s : b.segments) {
    const Slice mine = part_of(mesh_, s, s.cuts.weights);
    stream_.copy(b.values.rows(mine.first, mine.count), b.kept_values.rows(s.kept_value, mine.count));
    gather(b.values, s, 0, s.cuts.weights, 0, use.coming);
  }
}

void Exchange::prefetch(Bucket& b) { begin_gathering(b, use_of(b)); }

void Exchange::fetch(Bucket& b) {
  Use& use = use_of(b);
  begin_gathering(b, use);
  wait_all(use.coming, stream_);
}

void Exchange::release(Bucket& b) {
  Use& use = use_of(b);
  require(use.count > 0, "bucket {} was released more often than fetched", b.name);
  if (--use.count > 0) return;
  wait_all(use.coming, stream_);
  b.values = {};
}

// Of a kept tensor of parts after `held` cuts, which lie from `at` on, those after `cut` of them, gathered into a new
// whole.
Tensor Exchange::gathered(Bucket& b, const Tensor& kept, std::size_t Cuts::*held, std::int64_t Segment::*at,
                          std::size_t Cuts::*cut) {
  Tensor whole = stream_.device().empty({b.count}, kept.dtype());
  std::vector<Ticket> tickets;
  for (const Segment& s : b.segments) {
    const std::int64_t base = part_of(mesh_, s, s.cuts.*held).first - s.*at;
    const Slice mine = part_of(mesh_, s, s.cuts.*cut);
    stream_.copy(whole.rows(mine.first, mine.count), kept.rows(mine.first - base, mine.count));
    gather(whole, s, 0, s.cuts.*cut, 0, tickets);
  }
  wait_all(tickets, stream_);
  return whole;
}

Tensor Exchange::whole_values(Bucket& b) {
  if (b.kept_masters) return gathered(b, b.kept_masters, &Cuts::optimizer, &Segment::kept_master, &Cuts::optimizer);
  return b.cut_weights() ? gathered(b, b.kept_values, &Cuts::weights, &Segment::kept_value, &Cuts::weights)
                         : b.kept_values;
}

void Exchange::keep(Bucket& b, const Tensor& whole) {
  if (whole.same_place(b.kept_values)) return;
  for (const Segment& s : b.segments) {
    const Slice mine = part_of(mesh_, s, s.cuts.weights);
    const Tensor kept = b.kept_values.rows(s.kept_value, mine.count), changed = whole.rows(mine.first, mine.count);
    if (!b.kept_masters) {
      stream_.copy(kept, changed);
      continue;
    }
    ops_.convert(stream_, kept, changed);
    const Slice owned = part_of(mesh_, s, s.cuts.optimizer);
    stream_.copy(b.kept_masters.rows(s.kept_master, owned.count), whole.rows(owned.first, owned.count));
  }
}

void Exchange::open(Bucket& b) {
  if (!b.cut_gradients()) {
    b.gradients = b.kept_gradients;
    return;
  }
  require(!b.gradients, "gradients of bucket {} were opened twice", b.name);
  b.gradients = arena_.empty({b.count}, wide(b.dtype), End::high);
  stream_.zero(b.gradients);
}

void Exchange::close(Bucket& b, bool last) {
  Begun begun{&b, std::exchange(b.gradients, {}), {}, last};
  if (!b.cut_gradients()) {
    if (last) due(b);
    return;
  }
  for (const Segment& s : b.segments) reduce(begun.whole, s, 0, 0, s.cuts.gradients, begun.tickets);
  begun_.push_back(std::move(begun));
  const std::size_t may_travel = plan_.overlap().reduce_scatter ? 1 : 0;  // while the next bucket is written
  while (begun_.size() > may_travel) {
    Begun oldest = std::move(begun_.front());
    begun_.erase(begun_.begin());
    complete(oldest);
  }
}

// The sums of one micro-batch are here: they join those of the others.
void Exchange::complete(Begun& begun) {
  wait_all(begun.tickets, stream_);
  Bucket& b = *begun.bucket;
  for (const Segment& s : b.segments) {
    const Slice mine = part_of(mesh_, s, s.cuts.gradients);
    const Tensor kept = b.kept_gradients.rows(s.kept_gradient, mine.count);
    ops_.add(stream_, kept, kept, begun.whole.rows(mine.first, mine.count));
  }
  if (begun.last) due(b);
}

void Exchange::due(Bucket& b) {
  if (b.holders)
    held_by_several_.push_back(&b);
  else
    pay_kept(b, last_);
}

// What is owed once a step, on the kept part of the gradients.
void Exchange::pay_kept(Bucket& b, std::vector<Ticket>& tickets) {
  for (const Segment& s : b.segments) {
    const std::int64_t base = part_of(mesh_, s, s.cuts.gradients).first - s.kept_gradient;
    reduce(b.kept_gradients, s, base, s.cuts.gradients, s.cuts.optimizer, tickets);
    const Slice mine = part_of(mesh_, s, s.cuts.optimizer);
    if (mine.count == 0) continue;
    const Tensor part = b.kept_gradients.rows(mine.first - base, mine.count);
    pay_rest(part, s.cuts.rest, 0, tickets);
    if (!b.holders) continue;
    wait_all(tickets, stream_);  // this group is not carried, what goes before may be
    tickets.push_back(b.holders->all_reduce(part, Reduce::sum, stream_));
  }
}

// Two-level sums and deeper: reduce-scatter over the innermost, the rest on the part, then gather it back.
void Exchange::pay_rest(const Tensor& part, const std::vector<MeshAxes>& rest, std::size_t next,
                        std::vector<Ticket>& tickets) {
  if (next == rest.size()) return;
  Communicator& group = payers(rest[next]);
  if (next + 1 == rest.size()) {
    tickets.push_back(group.all_reduce(part, Reduce::sum, stream_));
    return;
  }
  const std::int64_t n = part.count() / group.size();
  const Tensor mine = part.rows(group.rank() * n, n);
  tickets.push_back(group.reduce_scatter(mine, part, Reduce::sum, stream_));
  pay_rest(mine, rest, next + 1, tickets);
  tickets.push_back(group.all_gather(part, mine, stream_));
}

void Exchange::finish() {
  for (Begun& begun : std::exchange(begun_, {})) complete(begun);
  for (Bucket* b : std::exchange(held_by_several_, {})) pay_kept(*b, last_);
  wait_all(last_, stream_);
}

void Exchange::publish(Bucket& b) {
  std::vector<Ticket> tickets;
  for (const Segment& s : b.segments) {
    const std::int64_t base = part_of(mesh_, s, s.cuts.weights).first - s.kept_value;
    const Slice mine = part_of(mesh_, s, s.cuts.optimizer);
    if (b.kept_masters)
      ops_.convert(stream_, b.kept_values.rows(mine.first - base, mine.count),
                   b.kept_masters.rows(s.kept_master, mine.count));
    gather(b.kept_values, s, base, s.cuts.optimizer, s.cuts.weights, tickets);
  }
  wait_all(tickets, stream_);
}

Tensor Exchange::whole_gradient(Bucket& b) {
  if (std::all_of(b.segments.begin(), b.segments.end(), [](const Segment& s) { return s.cuts.steps.empty(); }))
    return b.kept_gradients;
  return gathered(b, b.kept_gradients, &Cuts::gradients, &Segment::kept_gradient, &Cuts::optimizer);
}

}  // namespace quadrille
