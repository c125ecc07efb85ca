// SPDX-License-Identifier: Apache-2.0
#include "parallelism/exchange.h"

#include <utility>

namespace quadrille {

void Exchange::start(const Bucket& bucket) {
  for (std::size_t i = 0; i < bucket.segments.size();) {
    const MeshAxes owed = mesh_.real(bucket.segments[i].owed);
    const std::int64_t first = bucket.segments[i].first;
    std::int64_t end = first;
    for (; i < bucket.segments.size() && mesh_.real(bucket.segments[i].owed) == owed; ++i) end = bucket.segments[i].first + bucket.segments[i].count;
    if (owed && end > first) under_way_.push_back(mesh_.along(owed).all_reduce(bucket.gradients.rows(first, end - first), Reduce::sum, stream_));
  }
}

void Exchange::finish() {
  for (Ticket& t : std::exchange(under_way_, {})) std::move(t).wait(stream_);
}

}  // namespace quadrille
