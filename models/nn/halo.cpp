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

// Rows that one rank holds and another wants.
Slice Halo::common(int holder, int wanter) const {
  const Slice &h = held_[static_cast<std::size_t>(holder)], &w = wanted_[static_cast<std::size_t>(wanter)];
  const std::int64_t first = std::max(h.first, w.first);
  return {first, std::max<std::int64_t>(std::min(h.end(), w.end()) - first, 0)};
}

Tensor Halo::borrow(Context& c, const Tensor& held) const {
  const Slice mine = held_[static_cast<std::size_t>(own_)], wanted = wanted_[static_cast<std::size_t>(own_)];
  const int ranks = static_cast<int>(held_.size());
  for (int r = 0; r < ranks; ++r) {
    const Slice lent = common(own_, r);
    if (r == own_ || lent.count == 0) continue;
    const Tensor packed = c.arena.empty(with_height(held.shape(), lent.count), held.dtype(), End::high);
    move_rows(c, packed, 0, held, lent.first - mine.first, lent.count, Write::replace);
    group_->send(packed.flat(), r, c.stream).wait(c.stream);
  }
  Tensor seen = c.arena.empty(with_height(held.shape(), wanted.count), held.dtype(), End::high);
  for (int r = 0; r < ranks; ++r) {
    const Slice lent = common(r, own_);
    if (lent.count == 0) continue;
    if (r == own_) {
      move_rows(c, seen, lent.first - wanted.first, held, lent.first - mine.first, lent.count, Write::replace);
      continue;
    }
    const Tensor packed = c.arena.empty(with_height(held.shape(), lent.count), held.dtype(), End::high);
    group_->receive(packed.flat(), r, c.stream).wait(c.stream);
    move_rows(c, seen, lent.first - wanted.first, packed, 0, lent.count, Write::replace);
  }
  return seen;
}

Tensor Halo::give_back(Context& c, const Tensor& seen) const {
  const Slice mine = held_[static_cast<std::size_t>(own_)], wanted = wanted_[static_cast<std::size_t>(own_)];
  const int ranks = static_cast<int>(held_.size());
  for (int r = 0; r < ranks; ++r) {
    const Slice lent = common(r, own_);
    if (r == own_ || lent.count == 0) continue;
    const Tensor packed = c.arena.empty(with_height(seen.shape(), lent.count), seen.dtype(), End::high);
    move_rows(c, packed, 0, seen, lent.first - wanted.first, lent.count, Write::replace);
    group_->send(packed.flat(), r, c.stream).wait(c.stream);
  }
  Tensor home = c.arena.empty(with_height(seen.shape(), mine.count), seen.dtype(), End::high);
  c.stream.zero(home);
  for (int r = 0; r < ranks; ++r) {
    const Slice lent = common(own_, r);
    if (lent.count == 0) continue;
    if (r == own_) {
      move_rows(c, home, lent.first - mine.first, seen, lent.first - wanted.first, lent.count, Write::accumulate);
      continue;
    }
    const Tensor packed = c.arena.empty(with_height(seen.shape(), lent.count), seen.dtype(), End::high);
    group_->receive(packed.flat(), r, c.stream).wait(c.stream);
    move_rows(c, home, lent.first - mine.first, packed, 0, lent.count, Write::accumulate);
  }
  return home;
}

}  // namespace quadrille
