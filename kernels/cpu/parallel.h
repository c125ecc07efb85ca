// SPDX-License-Identifier: Apache-2.0
// How an op is spread over the OpenMP threads of its rank. Work below a threshold stays on the calling thread: waking
// the others costs some microseconds. A region always takes the whole team, because libgomp ends and restarts threads
// when the size of the team changes. The body must be noexcept: no exception can leave a parallel region.
#pragma once

#include <omp.h>

#include <cstdint>
#include <type_traits>

#include "core/slice.h"

namespace quadrille {

inline constexpr std::int64_t kSerialWork = std::int64_t{1} << 14;  // elements that one thread handles in about 5 µs

// body(Slice) for consecutive parts of [0, count); `work` is the number of elements behind all of them. Parts begin at
// multiples of `unit`. For bodies whose result does not depend on where the parts begin.
template <class Body>
void parallel_parts(std::int64_t count, std::int64_t work, std::int64_t unit, Body&& body) {
  static_assert(std::is_nothrow_invocable_v<Body, Slice>);
  if (count <= 0) return;
  if (work <= kSerialWork || omp_get_max_threads() == 1) return body(Slice{0, count});
#pragma omp parallel
  {
    const Slice units = part({0, (count + unit - 1) / unit}, omp_get_num_threads(), omp_get_thread_num());
    const std::int64_t first = units.first * unit, end = std::min(units.end() * unit, count);
    if (first < end) body(Slice{first, end - first});
  }
}

// body(item, thread) for every item, taken by whichever thread is free: for items of unequal weight whose results do
// not meet.
template <class Body>
void parallel_items(std::int64_t items, std::int64_t work, Body&& body) {
  static_assert(std::is_nothrow_invocable_v<Body, std::int64_t, int>);
  if (work <= kSerialWork || items == 1 || omp_get_max_threads() == 1) {
    for (std::int64_t item = 0; item < items; ++item) body(item, 0);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t item = 0; item < items; ++item) body(item, omp_get_thread_num());
}

}  // namespace quadrille
