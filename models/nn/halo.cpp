// SPDX-License-Identifier: Apache-2.0
// See halo.h.
#include "models/nn/halo.h"

#include <algorithm>

namespace quadrille {

namespace {

Shape with_height(const Shape& image, std::int64_t height) { return {image[0], height, image[2], image[3]}; }

// A run of the height between two images: from row `from_first` of one to row `to_first` of the other.
void move_rows(Context& c, const Tensor& to, std::int64_t to_first, const Tensor& from, std::int64_t from_first,
               std::int64_t rows, Write write) {
  const Shape &t = to.shape(), &f = from.shape();
  c.ops.move_block(c.stream, to.flat(), from.flat(),
                   {t[0], rows, t[2] * t[3], t[1], to_first, f[1], from_first, write});
}

// The rows that lie in both.
Slice common(Slice a, Slice b) {
  const std::int64_t first = std::max(a.first, b.first);
  return {first, std::max<std::int64_t>(std::min(a.end(), b.end()) - first, 0)};
}

}  // namespace

Slice reached(Slice out, std::int64_t kernel, std::int64_t stride, std::int64_t pad, std::int64_t height) {
  if (out.count == 0) return {};
  const std::int64_t first = std::max<std::int64_t>(out.first * stride - pad, 0);
  return {first, std::min((out.end() - 1) * stride - pad + kernel, height) - first};
}

Halo::Halo(Communicator& group, std::vector<Slice> held, std::vector<Slice> wanted)
    : group_(&group), held_(std::move(held)), wanted_(std::move(wanted)), own_(group.rank()) {
  for (std::size_t r = 0; r < held_.size(); ++r)
    needed_ = needed_ || (held_[r] != wanted_[r] && (held_[r].count > 0 || wanted_[r].count > 0));
}

Tensor Halo::borrow(Context& c, const Tensor& held) const { return exchange(c, held, held_, wanted_, Write::replace); }

Tensor Halo::give_back(Context& c, const Tensor& seen) const {
  return exchange(c, seen, wanted_, held_, Write::accumulate);
}

// Every rank has rows `from` of the height and gets rows `to`: from itself, and from whoever else has some of them.
Tensor Halo::exchange(Context& c, const Tensor& image, const std::vector<Slice>& from, const std::vector<Slice>& to,
                      Write write) const {
  const auto own = static_cast<std::size_t>(own_);
  const Slice mine = from[own], got = to[own];
  const auto packed = [&](Slice rows) {
    return c.arena.empty(with_height(image.shape(), rows.count), image.dtype(), End::high);
  };
  for (std::size_t r = 0; r < to.size(); ++r) {
    const Slice lent = common(mine, to[r]);
    if (r == own || lent.count == 0) continue;
    const Tensor sent = packed(lent);
    move_rows(c, sent, 0, image, lent.first - mine.first, lent.count, Write::replace);
    group_->send(sent.flat(), static_cast<int>(r), c.stream).wait(c.stream);
  }
  Tensor made = packed(got);
  if (write == Write::accumulate) c.stream.zero(made);
  for (std::size_t r = 0; r < from.size(); ++r) {
    const Slice lent = common(from[r], got);
    if (lent.count == 0) continue;
    if (r == own) {
      move_rows(c, made, lent.first - got.first, image, lent.first - mine.first, lent.count, write);
      continue;
    }
    const Tensor received = packed(lent);
    group_->receive(received.flat(), static_cast<int>(r), c.stream).wait(c.stream);
    move_rows(c, made, lent.first - got.first, received, 0, lent.count, write);
  }
  return made;
}

}  // namespace quadrille
