// SPDX-License-Identifier: Apache-2.0
// What is the same in every world: the header each message carries, the words for it, and what it costs by the ring
// convention of the ledger. Used by group.h and by the worlds; by
// courier.cpp and links.cpp for the names and the volumes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ledger.h"
#include "core/tensor.h"
#include "parallelism/communicator.h"

namespace quadrille {

enum class Operation : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  send,
  receive,
  barrier,
  exchange
};

// What a rank says it is doing. All members of a collective must say the same; sender and receiver the same but for the
// operation. `count` is of the smaller tensor for gathers and scatters. Plain bytes: it travels as it is.
struct Header {
  Operation operation = Operation::barrier;
  DType dtype = DType::f32;
  Reduce reduce = Reduce::sum;
  std::int32_t root = -1;  // of a broadcast
  std::int64_t count = 0;
  std::uint64_t sequence = 0;  // collectives: position in the group's history; send and receive: in the pair's
  bool operator==(const Header&) const = default;
};

std::string kind_of(const Header&);  // "all_reduce(max)": the ledger's name
std::string words(const Header&);    // "all_reduce of 1024 f32, number 17"
bool fits(const Header& receive, const Header& send);

std::string rank_list(std::span<const int> ranks);  // "rank 3", "ranks 0, 2, 5"

// The three messages about a group that does not come together. `headers` in rank order.
std::string disagreement(std::string_view group, std::span<const Header> headers);
std::string mismatch(std::string_view group, int receiver, const Header& wanted, int sender, const Header& found);
std::string late(std::string_view group, const Header&, double seconds, std::span<const int> missing);
std::string gone(std::string_view group, const Header&, std::span<const int> missing);

// What one rank sends for this message in a ring of `size`, in elements and bytes; seconds are left at zero.
Traffic ring_traffic(const Header&, int rank, int size);

// [0, count) cut in `parts` at multiples of a cache line, so that neighbours never write the same line.
struct Range {
  std::int64_t first = 0, count = 0;
};
Range cache_aligned_part(std::int64_t count, DType, int parts, int index);

// out[i] = ((parts[0][i] + parts[1][i]) + parts[2][i]) + ... in the tensor's own type, or the maximum. The order is
// fixed per element, so the result is the same however the elements are cut. `out` may be one of the parts.
void combine_in_rank_order(Reduce, DType, std::span<const void* const> parts, std::int64_t count, void* out);
// The same, written to every part.
void combine_everywhere(Reduce, DType, std::span<void* const> parts, std::int64_t count);

}  // namespace quadrille
