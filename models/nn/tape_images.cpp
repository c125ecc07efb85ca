// SPDX-License-Identifier: Apache-2.0
// The ops of the tape that know images: convolution (a linear op whose rows are windows), batch norm, pooling. A split
// height is borrowed from where windows reach beyond it (halo.h), so that every layer stays what it is.
#include <algorithm>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "kernels/bills.h"
#include "models/nn/tape.h"

namespace quadrille {

namespace {
constexpr int kHeight = 1, kWidth = 2, kChannels = 3;  // dims of an image

Tensor by_channel(const Tensor& image) {
  return image.reshaped({image.shape().count(0, kChannels), image.shape()[kChannels]});
}
}  // namespace

// This rank's part of the data, in the number type of activations.
Var Tape::image(std::string_view field) {
  const Tensor held = micro_.field(field);
  const Shape& shape = held.shape();
  if (shape.rank() != 4) refuse(fmt::format("field \"{}\" is {}, wanted images", field, shape.text()));
  const Dims d = {{Axis::batch, micro_.rows},
                  {Axis::height, shape[kHeight]},
                  {Axis::none, shape[kWidth]},
                  {Axis::none, shape[kChannels]}};
  const States s = context_.plan.at_rest(d);
  Tensor mine = held;
  if (const Slice rows = context_.plan.slice(d[kHeight], s); rows.count != shape[kHeight]) {
    mine = fresh(local_shape(d, s), held.dtype());
    context_.ops.move_block(
        context_.stream, mine.flat(), held.flat(),
        {shape[0], rows.count, shape[2] * shape[3], rows.count, 0, shape[kHeight], rows.first, Write::replace});
  }
  if (mine.dtype() != context_.dtype) {
    const Tensor converted = fresh(mine.shape(), context_.dtype);
    context_.ops.convert(context_.stream, converted, mine);
    mine = converted;
  }
  const Var x = put(d, s, mine);
  value(x).kept = value(x).constant = true;
  return x;
}

// Before an op that makes so many rows: where some rank would have none, the height is made whole. Its numbers are then
// lent to every rank until mean_pixels takes its part again.
Var Tape::keep_height(Var x, std::int64_t rows) {
  return rows < context_.mesh().extent_of(where_split(states(x), Axis::height)) ? whole(x, Axis::height) : x;
}

Tape::Reach Tape::reach_of(const Dims& d, const States& s, const Window& w) const {
  Reach reach{{}, {w.kernel, w.kernel, w.stride, w.pad, w.pad, w.pad, w.pad}};
  const MeshAxes over = where_split(s, Axis::height);
  if (!over) return reach;
  const Dim in = d[kHeight], out{Axis::height, w.over(in.extent)};
  std::vector<Slice> held, wanted;
  for (int r = 0; r < context_.mesh().extent_of(over); ++r) {
    const std::vector<int> places = places_of(context_.mesh(), over, r);
    held.push_back(context_.plan.runs(in, s, places).front());
    wanted.push_back(reached(context_.plan.runs(out, s, places).front(), w.kernel, w.stride, w.pad, in.extent));
  }
  const Slice mine = context_.plan.slice(out, s);
  const std::int64_t first = mine.first * w.stride - w.pad, end = (mine.end() - 1) * w.stride - w.pad + w.kernel;
  reach.how.pad_top = mine.count ? std::max<std::int64_t>(-first, 0) : 0;
  reach.how.pad_bottom = mine.count ? std::max<std::int64_t>(end - in.extent, 0) : 0;
  reach.halo.emplace(context_.mesh().along(over), std::move(held), std::move(wanted));
  if (!reach.halo->needed()) reach.halo.reset();
  return reach;
}

Tensor Tape::borrowed(const Reach& reach, Var x) {
  return reach.halo ? reach.halo->borrow(context_, read(x)) : read(x);
}

// States as in `linear`, the channels that go in being summed over.
Var Tape::conv(Var x, Var w, Dim made, const Window& window) {
  x = keep_height(x, window.over(dims(x)[kHeight].extent));
  const std::size_t first_crossing = crossings_.size();
  std::tie(x, w) = meet(x, w);
  const std::size_t last_crossing = crossings_.size();
  const Axis summed = dims(w)[2].axis;
  const Dims d = dims(x);
  const Dims out_dims = {
      d[0], {Axis::height, window.over(d[kHeight].extent)}, {Axis::none, window.over(d[kWidth].extent)}, made};
  States out_states;
  for (int m = 0; m < context_.mesh().axes(); ++m) {
    const State p = on(states(x), m), q = on(states(w), m);
    const auto of_sum = [&](State s) { return s.kind == Kind::split && s.axis == summed && summed != Axis::none; };
    // A weight's second dim may carry the same axis' name only where it has lost its mesh axis.
    if (of_sum(p) != of_sum(q))
      refuse(fmt::format("channels are split in one operand alone on mesh axis {}: {} and {}", context_.mesh().name(m),
                         text_of(p), text_of(q)));
    on(out_states, m) = of_sum(p) ? State{Kind::debt, Axis::none} : combine(p, q, m);
  }
  const Reach reach = reach_of(d, states(x), window);
  const Tensor seen = borrowed(reach, x), weight = read(w);
  Tensor out = fresh(local_shape(out_dims, out_states), context_.dtype);
  bill("conv", context_.ops.conv(context_.stream, out, seen, weight, reach.how), states(x), states(w));
  value(w).kept = true;
  if (!reach.halo) value(x).kept = true;
  const Var y = put(out_dims, out_states, out);
  record(y, [this, x, w, y, seen, reach, first_crossing, last_crossing] {
    const Tensor dy = std::exchange(value(y).g, {}), weight = now(w);
    if (value(x).constant) {
      bill("conv dx", {.flops = 0, .skipped = conv_flops(dy, weight), .recomputed = 0, .bytes = 0}, states(x),
           states(w));
    } else if (reach.halo) {
      const Tensor reached = fresh(seen.shape(), seen.dtype(), End::high);
      bill("conv dx", context_.ops.conv_backward_input(context_.stream, reached, dy, weight, reach.how, Write::replace),
           states(x), states(w));
      contribute(x, reach.halo->give_back(context_, reached));
    } else {
      Write write{};
      const Tensor dx = to_add_to(x, write);
      bill("conv dx", context_.ops.conv_backward_input(context_.stream, dx, dy, weight, reach.how, write), states(x),
           states(w));
    }
    if (context_.plan.overlap().input_gradient) start_towards(x, first_crossing, last_crossing);
    Write write{};
    if (const Tensor dw = to_add_to(w, write))
      bill("conv dw", context_.ops.conv_backward_weight(context_.stream, dw, dy, seen, reach.how, write), states(x),
           states(w));
  });
  return y;
}

// Statistics are shared over the innermost mesh axes of the batch. Over the outer ones they stay apart, as many as
// there are groups; what is left of the number of groups lies within each rank.
Tape::Span Tape::span_of(Var x, std::int64_t groups) const {
  Span span{0, 0, groups};
  for (const int m : context_.plan.nesting(Axis::batch)) {
    if (on(states(x), m) != State{Kind::split, Axis::batch}) continue;
    const int extent = context_.mesh().extent(m);
    if (!span.shared && span.groups % extent == 0) {
      span.apart |= bit(m);
      span.groups /= extent;
    } else {
      span.shared |= bit(m);
    }
  }
  if (span.shared && span.groups > 1)
    refuse(
        fmt::format("a batch norm of {} groups cannot be laid out over {}: the groups must be a product of the outer "
                    "extents of the batch, or a multiple of all of them; cut a mesh axis in two, or change "
                    "model.norm_groups",
                    groups, context_.mesh().names(span.shared | span.apart)));
  if (micro_.training && micro_.rows % groups != 0)
    refuse(fmt::format("a micro-batch of {} rows cannot be cut into the {} equal groups of model.norm_groups",
                       micro_.rows, groups));
  span.shared |= where_split(states(x), Axis::height);
  return span;
}

// In training those of the rows at hand, noted in the averages; in evaluation those that the averages stand for.
Tensor Tape::channel_sums(Var x, const Statistics& averages, const Normalising& how, const Span& span) {
  const Tensor rows = by_channel(read(x));
  const std::int64_t channels = rows.shape()[1], groups = micro_.training ? span.groups : 1;
  // Where channels pass to a mesh axis a rank works on a part of those whose averages it holds, always the same one.
  const Slice own = context_.plan.slice(dims(x)[kChannels], states(x)),
              held = context_.plan.slice(averages.dims[0], averages.states);
  if (own.first < held.first || own.end() > held.end()) refuse("the channels lie elsewhere than their moving averages");
  const Tensor here = averages.value.rows(own.first - held.first, own.count);
  const Tensor sums = fresh({groups, channels, 3}, DType::f64);
  if (!micro_.training) {
    Tensor kept = here;
    if (const MeshAxes apart = context_.mesh().real(span.apart)) {
      kept = fresh(kept.shape(), kept.dtype(), End::high);
      context_.stream.copy(kept, here);
      sum_over(context_, kept, apart);
    }
    context_.ops.sums_of_averages(context_.stream, sums, kept);
    return sums;
  }
  context_.ops.channel_sums(context_.stream, sums, rows);
  sum_over(context_, sums, span.shared);
  if (purpose_ != Purpose::again) context_.ops.update_averages(context_.stream, here, sums, how.momentum);
  return sums;
}

// Three numbers for each channel cross the ranks that share them forward, two backward. The parameters' gradients are
// this rank's own sums, hence partial where its rows are.
Var Tape::batch_norm(Var x, Var gain, Var bias, const Statistics& averages, const Normalising& how) {
  std::tie(x, gain) = meet(x, gain);
  std::tie(x, bias) = meet(x, bias);
  const States s = combine(x, gain);
  const Span span = span_of(x, how.groups);
  const Tensor sums = channel_sums(x, averages, how, span);
  const Tensor in = by_channel(read(x)), out = fresh(read(x).shape(), context_.dtype);
  const BatchNorm spec{how.epsilon, how.relu};
  context_.ops.batch_norm(context_.stream, by_channel(out), in, sums, read(gain).flat(), read(bias).flat(), spec);
  value(x).kept = value(gain).kept = true;
  const Var y = put(dims(x), s, out);
  value(y).kept = how.relu;  // backward reads where it is above 0
  record(y, [this, x, gain, bias, y, in, sums, spec, span, made = how.relu ? by_channel(out) : Tensor()] {
    Tensor d = std::exchange(value(y).g, {});
    const Tensor dy = by_channel(d);
    const Tensor back = fresh({sums.shape()[0], sums.shape()[1], 2}, DType::f64, End::high);
    context_.ops.batch_norm_backward_sums(context_.stream, back, dy, in, made, sums, spec);
    Tensor dgain = to_accumulate_in(gain), dbias = to_accumulate_in(bias);
    if (dgain) dgain = dgain.flat();
    if (dbias) dbias = dbias.flat();
    if (dgain || dbias) context_.ops.batch_norm_backward_parameters(context_.stream, dgain, dbias, back);
    sum_over(context_, back, span.shared);
    Write write{};
    const Tensor dx = to_add_to(x, write);
    context_.ops.batch_norm_backward(context_.stream, by_channel(dx), dy, in, made, sums, back, now(gain).flat(), spec,
                                     write);
  });
  return y;
}

Var Tape::add_relu(Var x, Var y) {
  std::tie(x, y) = meet(x, y);
  const States s = combine(x, y);
  const Tensor a = read(x), out = take(y);
  context_.ops.add_relu(context_.stream, out, a, out);
  const Var sum = put(dims(x), s, out);
  value(sum).kept = true;
  record(sum, [this, x, y, sum, out] {
    Tensor d = std::exchange(value(sum).g, {});
    const Tensor passed = d.sole_owner() ? d : fresh(d.shape(), d.dtype(), End::high);
    context_.ops.relu_backward(context_.stream, passed, d, out);
    d = {};
    pass_on(y, passed);
    pass_on(x, passed);
  });
  return sum;
}

Var Tape::max_pool(Var x, const Window& window) {
  if (where(x, Kind::debt)) refuse("the largest of a debt: settle it first");
  x = keep_height(x, window.over(dims(x)[kHeight].extent));
  Dims out_dims = dims(x);
  out_dims[kHeight].extent = window.over(out_dims[kHeight].extent);
  out_dims[kWidth].extent = window.over(out_dims[kWidth].extent);
  const Reach reach = reach_of(dims(x), states(x), window);
  const Tensor seen = borrowed(reach, x);
  const Tensor out = fresh(local_shape(out_dims, states(x)), context_.dtype);
  context_.ops.max_pool(context_.stream, out, seen, reach.how);
  if (!reach.halo) value(x).kept = true;
  const Var y = put(out_dims, states(x), out);
  record(y, [this, x, y, seen, reach] {
    const Tensor dy = std::exchange(value(y).g, {}), reached = fresh(seen.shape(), seen.dtype(), End::high);
    context_.ops.max_pool_backward(context_.stream, reached, dy, seen, reach.how);
    contribute(x, reach.halo ? reach.halo->give_back(context_, reached) : reached);
  });
  return y;
}

// A sum over rows: where they are split it owes.
Var Tape::mean_pixels(Var x) {
  if (where(x, Kind::debt)) refuse("the mean of a debt: settle it first");
  for (const int m : context_.plan.nesting(Axis::height))
    if (on(states(x), m).kind == Kind::copy && context_.mesh().extent(m) > 1) x = slice(x, m, Axis::height);
  const Dims d = dims(x);
  States s = states(x);
  for (int m = 0; m < context_.mesh().axes(); ++m)
    if (on(s, m) == State{Kind::split, Axis::height}) on(s, m) = {Kind::debt, Axis::none};
  const Dims out_dims = {d[0], {Axis::none, 1}, d[kChannels]};
  const Shape image = read(x).shape(), flat{image[0], image[kChannels]};
  const double scale = 1 / static_cast<double>(d[kHeight].extent * d[kWidth].extent);
  const Tensor out = fresh(local_shape(out_dims, s), context_.dtype);
  context_.ops.sum_pixels(context_.stream, out.reshaped(flat), read(x), scale);
  const Var y = put(out_dims, s, out);
  record(y, [this, x, y, image, flat, scale] {
    const Tensor dy = std::exchange(value(y).g, {}), dx = fresh(image, dy.dtype(), End::high);
    context_.ops.spread_pixels(context_.stream, dx, dy.reshaped(flat), scale);
    contribute(x, dx);
  });
  return settle(y);
}

}  // namespace quadrille
