// SPDX-License-Identifier: Apache-2.0
#include "parallelism/message.h"

#include <fmt/core.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/bf16.h"
#include "core/error.h"
#include "core/slice.h"

namespace quadrille {

namespace {

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::all_gather:
      return "all_gather";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::all_to_all:
      return "all_to_all";
    case Operation::broadcast:
      return "broadcast";
    case Operation::send:
      return "send";
    case Operation::receive:
      return "receive";
    case Operation::barrier:
      return "barrier";
    case Operation::exchange:
      return "exchange";
  }
  return "an unknown operation";
}

bool reduces(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter;
}

bool carries_tensor(Operation operation) { return operation != Operation::barrier && operation != Operation::exchange; }

// "all_reduce(max) of 8 f32", without the number.
std::string call(const Header& header) {
  std::string text = kind_of(header);
  if (carries_tensor(header.operation)) text += fmt::format(" of {} {}", header.count, name_of(header.dtype));
  if (header.operation == Operation::broadcast) text += fmt::format(" from rank {}", header.root);
  return text;
}

}  // namespace

std::string kind_of(const Header& header) {
  std::string kind(name_of(header.operation));
  if (reduces(header.operation) && header.reduce == Reduce::max) kind += "(max)";
  return kind;
}

std::string words(const Header& header) { return fmt::format("{}, number {}", call(header), header.sequence); }

bool fits(const Header& receive, const Header& send) {
  return send.operation == Operation::send && receive.operation == Operation::receive && send.count == receive.count &&
         send.dtype == receive.dtype && send.sequence == receive.sequence;
}

std::string rank_list(std::span<const int> ranks) {
  constexpr std::size_t kShown = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i) text += fmt::format("{}{}", i ? ", " : "", ranks[i]);
  if (ranks.size() > kShown) text += fmt::format(" and {} more", ranks.size() - kShown);
  return text;
}

std::string disagreement(std::string_view group, std::span<const Header> headers) {
  std::vector<std::pair<Header, std::vector<int>>> camps;
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    auto camp = std::find_if(camps.begin(), camps.end(), [&](const auto& c) { return c.first == headers[rank]; });
    if (camp == camps.end()) camp = camps.insert(camps.end(), {headers[rank], {}});
    camp->second.push_back(static_cast<int>(rank));
  }
  if (camps.size() < 2) return {};
  std::string text = fmt::format("the ranks of group {} disagree about message number {}:", group, headers[0].sequence);
  for (std::size_t i = 0; i < camps.size(); ++i) {
    text += fmt::format("{} {} called {}", i ? ";" : "", rank_list(camps[i].second), call(camps[i].first));
    if (camps[i].first.sequence != headers[0].sequence) text += fmt::format(" as number {}", camps[i].first.sequence);
  }
  return text + ". All must make the same calls in the same order";
}

std::string mismatch(std::string_view group, int receiver, const Header& wanted, int sender, const Header& found) {
  return fmt::format(
      "the ranks of group {} disagree about message number {}: rank {} called {}; rank {} called {}{}. Both must name "
      "the "
      "same count and type, in the same order",
      group, wanted.sequence, receiver, call(wanted), sender, call(found),
      found.sequence != wanted.sequence ? fmt::format(" as number {}", found.sequence) : "");
}

std::string late(std::string_view group, const Header& header, double seconds, std::span<const int> missing) {
  return fmt::format(
      "{} in group {} waited {:g} s and gave up: {} had not arrived. If that work is only slow, raise --timeout",
      words(header), group, seconds, rank_list(missing));
}

std::string gone(std::string_view group, const Header& header, std::span<const int> missing) {
  return fmt::format("{} in group {} cannot be completed: {} {} left (ended without an error before this message)",
                     words(header), group, rank_list(missing), missing.size() == 1 ? "has" : "have");
}

Traffic ring_traffic(const Header& header, int rank, int size) {
  const double count = static_cast<double>(header.count), others = size - 1;
  double elements = 0;
  switch (header.operation) {
    case Operation::all_reduce:
      elements = 2 * others / size * count;
      break;
    case Operation::all_gather:
    case Operation::reduce_scatter:
      elements = others * count;
      break;  // (n-1)/n of n * count
    case Operation::all_to_all:
      elements = others / size * count;
      break;
    case Operation::broadcast:
      elements = rank == header.root ? count : 0;
      break;
    case Operation::send:
      elements = count;
      break;
    case Operation::receive:
    case Operation::barrier:
    case Operation::exchange:
      break;
  }
  return {1, elements, elements * static_cast<double>(size_of(header.dtype)), 0};
}

Range cache_aligned_part(std::int64_t count, DType dtype, int parts, int index) {
  const std::int64_t line = 64 / size_of(dtype);
  const Slice lines = part({0, (count + line - 1) / line}, parts, index);
  const std::int64_t first = std::min(lines.first * line, count);
  return {first, std::min(lines.end() * line, count) - first};
}

namespace {

constexpr std::int64_t kBlock = 2048;  // 16 KiB of f64: the accumulator stays in the nearest cache

// In what type numbers are combined: bf16 in f32, rounded once at the end.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, bf16>, float, T>;

template <class T>
void fold(Reduce reduce, Sum<T>* into, const T* from, std::int64_t count) {
  if (reduce == Reduce::sum) {
    for (std::int64_t i = 0; i < count; ++i) into[i] += static_cast<Sum<T>>(from[i]);
  } else {  // a NaN on either side stays: what is not a number must not be hidden by a maximum
    for (std::int64_t i = 0; i < count; ++i) {
      const auto other = static_cast<Sum<T>>(from[i]);
      into[i] = into[i] > other || into[i] != into[i] ? into[i] : other;
    }
  }
}

// Calls done(first, count, numbers) for each block of combined numbers.
template <class T, class Done>
void combine_blocks(Reduce reduce, std::span<const void* const> parts, std::int64_t count, Done done) {
  alignas(64) Sum<T> block[kBlock];
  const auto whole = [](const T& v) { return static_cast<Sum<T>>(v); };
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t length = std::min(kBlock, count - first);
    std::transform(static_cast<const T*>(parts[0]) + first, static_cast<const T*>(parts[0]) + first + length, block,
                   whole);
    for (const void* part : parts.subspan(1)) fold(reduce, block, static_cast<const T*>(part) + first, length);
    done(first, length, block);
  }
}

template <class T>
void store(const Sum<T>* block, std::int64_t length, void* out, std::int64_t first) {
  std::transform(block, block + length, static_cast<T*>(out) + first, [](Sum<T> v) { return static_cast<T>(v); });
}

template <class Body>
void for_real_type(DType dtype, Body body) {
  if (dtype == DType::f32) return body(float{});
  if (dtype == DType::f64) return body(double{});
  if (dtype == DType::bf16) return body(bf16{});
  fail("numbers of type {} cannot be combined: f32, f64 or bf16 is wanted", name_of(dtype));
}

}  // namespace

void combine_in_rank_order(Reduce reduce, DType dtype, std::span<const void* const> parts, std::int64_t count,
                           void* out) {
  for_real_type(dtype, [&]<class T>(T) {
    combine_blocks<T>(reduce, parts, count, [&](std::int64_t first, std::int64_t length, const Sum<T>* block) {
      store<T>(block, length, out, first);
    });
  });
}

void combine_everywhere(Reduce reduce, DType dtype, std::span<void* const> parts, std::int64_t count) {
  const std::vector<const void*> sources(parts.begin(), parts.end());
  for_real_type(dtype, [&]<class T>(T) {
    combine_blocks<T>(reduce, sources, count, [&](std::int64_t first, std::int64_t length, const Sum<T>* block) {
      for (void* part : parts) store<T>(block, length, part, first);
    });
  });
}

}  // namespace quadrille
