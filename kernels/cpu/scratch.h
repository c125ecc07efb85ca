// SPDX-License-Identifier: Apache-2.0
// Temporary memory of a rank thread, kept from call to call: after the first step no op allocates. It is small and does
// not grow with rows or tokens, only with threads and head width; scratch_bytes() states it for the memory report.
#pragma once

#include <cstdint>

namespace quadrille {

// `threads` consecutive blocks of `count` floats, 64-byte aligned when `count` is a multiple of 16; contents undefined,
// valid until the next call of the same thread. Call it outside of parallel regions: it may throw.
float* scratch_of_rank(std::int64_t threads, std::int64_t count);
// What convolutions with so many cells in a window take at most, and batch norms of so many channels, in floats.
std::int64_t scratch_of_windows(std::int64_t cells, std::int64_t threads);
std::int64_t scratch_of_channels(std::int64_t channels);
std::int64_t scratch_bytes();  // held by the calling rank thread

}  // namespace quadrille
