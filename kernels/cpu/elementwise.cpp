// SPDX-License-Identifier: Apache-2.0
// Element-wise ops, column sums and moves of blocks.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/numbers.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/parallel.h"

namespace quadrille {

namespace {

constexpr std::int64_t kLine = 16;  // floats of a cache line: threads do not share one

template <class Body>
void over(std::int64_t count, Body&& body) {
  parallel_parts(count, count, kLine, std::forward<Body>(body));
}

}  // namespace

// Of one type already: this back end has no other.
Cost CpuOps::convert(Stream& stream, const Tensor& out, const Tensor& in) const {
  check_convert(stream, out, in);
  over(out.count(),
       [to = floats(out), from = floats(in)](Slice s) noexcept { std::copy_n(from + s.first, s.count, to + s.first); });
  return bill_convert(out, in);
}

Cost CpuOps::add(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) const {
  check_add(stream, out, a, b);
  over(out.count(), [loop = element_loops().add, to = floats(out), x = floats(a), y = floats(b)](Slice s) noexcept {
    loop(to + s.first, x + s.first, y + s.first, s.count);
  });
  return bill_add(out, a, b);
}

Cost CpuOps::add_bias(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& bias) const {
  const Extents e = check_add_bias(stream, out, x, bias);
  parallel_parts(
      e.rows, out.count(), 1,
      [e, loop = element_loops().add, to = floats(out), from = floats(x), added = floats(bias)](Slice s) noexcept {
        for (std::int64_t i = s.first; i < s.end(); ++i)
          loop(to + i * e.columns, from + i * e.columns, added, e.columns);
      });
  return bill_add_bias(out, x, bias);
}

Cost CpuOps::sum_rows(Stream& stream, const Tensor& out, const Tensor& x, Write write) const {
  const Extents e = check_sum_rows(stream, out, x);
  const float* from = floats(x);
  if (write == Write::replace) stream.zero(out);
  add_column_sums(
      e, std::array<float*, 1>{floats(out)},
      [from, e, loop = element_loops().add](std::array<float*, 1> sums, std::int64_t row, Slice columns) noexcept {
        loop(sums[0], sums[0], from + row * e.columns + columns.first, columns.count);
      });
  return bill_sum_rows(out, x, write);
}

Cost CpuOps::gelu(Stream& stream, const Tensor& out, const Tensor& x) const {
  check_gelu(stream, out, x);
  over(out.count(), [loop = element_loops().gelu, to = floats(out), from = floats(x)](Slice s) noexcept {
    loop(to + s.first, from + s.first, s.count);
  });
  return bill_gelu(out, x);
}

Cost CpuOps::relu(Stream& stream, const Tensor& out, const Tensor& x) const {
  check_relu(stream, out, x);
  over(out.count(), [to = floats(out), from = floats(x)](Slice s) noexcept {
    for (std::int64_t i = s.first; i < s.end(); ++i) to[i] = from[i] < 0 ? 0.0f : from[i];
  });
  return bill_relu(out, x);
}

Cost CpuOps::gelu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x) const {
  check_gelu_backward(stream, dx, dy, x);
  over(dx.count(), [loop = element_loops().gelu_backward, to = floats(dx), d = floats(dy),
                    from = floats(x)](Slice s) noexcept { loop(to + s.first, d + s.first, from + s.first, s.count); });
  return bill_gelu_backward(dx, dy, x);
}

// Of a pooled row or two: the library's function is fast enough.
Cost CpuOps::tanh(Stream& stream, const Tensor& out, const Tensor& x) const {
  check_tanh(stream, out, x);
  over(out.count(), [to = floats(out), from = floats(x)](Slice s) noexcept {
    for (std::int64_t i = s.first; i < s.end(); ++i) to[i] = std::tanh(from[i]);
  });
  return bill_tanh(out, x);
}

Cost CpuOps::tanh_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y) const {
  check_tanh_backward(stream, dx, dy, y);
  over(dx.count(), [to = floats(dx), d = floats(dy), from = floats(y)](Slice s) noexcept {
    for (std::int64_t i = s.first; i < s.end(); ++i) to[i] = d[i] * (1 - from[i]) * (1 + from[i]);
  });
  return bill_tanh_backward(dx, dy, y);
}

Cost CpuOps::gated_silu(Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up) const {
  check_gated_silu(stream, out, gate, up);
  over(out.count(), [loop = element_loops().gated_silu, to = floats(out), g = floats(gate),
                     u = floats(up)](Slice s) noexcept { loop(to + s.first, g + s.first, u + s.first, s.count); });
  return bill_gated_silu(out, gate, up);
}

Cost CpuOps::gated_silu_backward(Stream& stream, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                                 const Tensor& gate, const Tensor& up) const {
  check_gated_silu_backward(stream, dgate, dup, dy, gate, up);
  over(dgate.count(), [loop = element_loops().gated_silu_backward, dg = floats(dgate), du = floats(dup), d = floats(dy),
                       g = floats(gate), u = floats(up)](Slice s) noexcept {
    loop(dg + s.first, du + s.first, d + s.first, g + s.first, u + s.first, s.count);
  });
  return bill_gated_silu_backward(dgate, dup, dy, gate, up);
}

Cost CpuOps::dropout(Stream& stream, const Tensor& out, const Tensor& x, const Dropout& how) const {
  check_dropout(stream, out, x, how);
  const std::int64_t tokens = x.shape()[1], features = x.shape()[2];
  const auto kept = static_cast<float>(1 / (1 - how.probability));
  parallel_parts(x.shape()[0] * tokens, x.count(), 1, [=, &how, to = floats(out), from = floats(x)](Slice s) noexcept {
    for (std::int64_t i = s.first; i < s.end(); ++i) {
      const std::int64_t whole =
          ((how.first_row + i / tokens) * how.tokens + position_of(how.first_token, how.jump, i % tokens)) *
              how.features +
          how.first_feature;
      for (std::int64_t f = 0; f < features; ++f) {
        const bool keep = uniform_at(how.key, static_cast<std::uint64_t>(whole + f)) >= how.probability;
        to[i * features + f] = keep ? from[i * features + f] * kept : 0.0f;
      }
    }
  });
  return bill_dropout(out, x);
}

namespace {

template <class T>
void add_moved(T* to, const T* from, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// body(first byte of out, first byte of in, bytes) for the runs of a move, in parallel.
template <class Body>
void for_each_run(const BlockMove& how, std::int64_t size, Body&& body) {
  const std::int64_t run = how.rows * how.inner;
  const std::int64_t pieces = how.outer == 1 ? 64 : 1;  // one long run is cut
  parallel_parts(how.outer * pieces, how.outer * run, 1, [&](Slice s) noexcept {
    for (std::int64_t i = s.first; i < s.end(); ++i) {
      const std::int64_t o = i / pieces;
      const Slice piece = part({0, run}, pieces, i % pieces);
      const std::int64_t to = (o * how.out_rows + how.out_first) * how.inner + piece.first;
      const std::int64_t from = (o * how.in_rows + how.in_first) * how.inner + piece.first;
      if (piece.count > 0) body(to * size, from * size, piece.count * size);
    }
  });
}

template <class T>
void accumulate_runs(std::byte* to, const std::byte* from, const BlockMove& how) {
  for_each_run(how, sizeof(T), [=](std::int64_t at, std::int64_t source, std::int64_t bytes) noexcept {
    add_moved(reinterpret_cast<T*>(to + at), reinterpret_cast<const T*>(from + source),
              bytes / static_cast<std::int64_t>(sizeof(T)));
  });
}

}  // namespace

Cost CpuOps::move_block(Stream& stream, const Tensor& out, const Tensor& in, const BlockMove& how) const {
  check_move_block(stream, out, in, how);
  auto* to = static_cast<std::byte*>(out.data());
  const auto* from = static_cast<const std::byte*>(in.data());
  require((to != nullptr && from != nullptr) || out.count() == 0 || in.count() == 0, "move_block: no numbers on \"{}\"",
          out.device().name());
  if (how.write == Write::replace)
    for_each_run(how, size_of(out.dtype()), [=](std::int64_t at, std::int64_t source, std::int64_t bytes) noexcept {
      std::memcpy(to + at, from + source, static_cast<std::size_t>(bytes));
    });
  else if (out.dtype() == DType::f32)
    accumulate_runs<float>(to, from, how);
  else if (out.dtype() == DType::f64)
    accumulate_runs<double>(to, from, how);
  else
    accumulate_runs<std::int32_t>(to, from, how);
  return bill_move_block(out, how);
}

}  // namespace quadrille
