// SPDX-License-Identifier: Apache-2.0
// The block mover: how gathers and scatters along any dim pack and unpack. For each o a run of rows·inner numbers lies
// together on both sides. Bound by memory: a number is read once and written once, read once more where it is added to.
#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/ops.h"

namespace quadrille {

namespace {

constexpr int kThreads = 256;

// In units of what is moved at once: where the first run begins and how far the next one lies.
struct Side {
  std::int64_t first = 0, stride = 0;
};
struct Runs {
  std::int64_t outer = 0, run = 0;
  Side out, in;
};

// Divisions of 64 bits take as long as the memory: short ones where they do.
__device__ __forceinline__ std::int64_t divided(std::int64_t a, std::int64_t b) {
  if (a <= 0xffffffff && b <= 0xffffffff)
    return static_cast<std::int64_t>(static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b));
  return a / b;
}

// Calls move(at, source) for each unit.
template <class F>
__device__ __forceinline__ void over_units(const Runs& runs, F&& move) {
  for (std::int64_t i = thread_of_grid(); i < runs.outer * runs.run; i += threads_of_grid()) {
    const std::int64_t o = divided(i, runs.run), along = i - o * runs.run;
    move(runs.out.first + o * runs.out.stride + along, runs.in.first + o * runs.in.stride + along);
  }
}

template <class Unit>
__global__ void __launch_bounds__(kThreads) move_runs_kernel(Runs runs, Unit* out, const Unit* in) {
  over_units(runs, [&](std::int64_t at, std::int64_t source) { out[at] = in[source]; });
}

// A sum of two is rounded once, as the host's is.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) move_and_add_runs_kernel(Runs runs, T* out, const T* in) {
  over_units(runs, [&](std::int64_t at, std::int64_t source) {
    auto sum = load_pack<N>(out + at * N);
    const auto added = load_pack<N>(in + source * N);
#pragma unroll
    for (int k = 0; k < N; ++k) sum.at[k] += added.at[k];
    store_pack(out + at * N, sum);
  });
}

// The runs in units of `size` of their numbers (or bytes); all extents are multiples of it.
Runs in_units(const BlockMove& how, std::int64_t number, std::int64_t size) {
  const std::int64_t unit = how.inner * number / size;  // of a row; a fraction only when inner is 0
  return {how.outer,
          how.rows * how.inner * number / size,
          {how.out_first * unit, how.out_rows * unit},
          {how.in_first * unit, how.in_rows * unit}};
}

// Whether both sides can be moved in units of `bytes`.
bool divides(std::int64_t bytes, const BlockMove& how, std::int64_t number, const Tensor& out, const Tensor& in) {
  const auto aligned = [&](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data()) % bytes == 0; };
  return how.inner * number % bytes == 0 && aligned(out) && aligned(in);
}

template <class Unit>
void copy(Stream& stream, const Runs& runs, const Tensor& out, const Tensor& in) {
  launch(cuda_stream(stream), {blocks_for(runs.outer * runs.run, kThreads), kThreads}, move_runs_kernel<Unit>, runs,
         static_cast<Unit*>(out.data()), static_cast<const Unit*>(in.data()));
}

void copy_largest(Stream& stream, const Tensor& out, const Tensor& in, const BlockMove& how) {
  const std::int64_t number = size_of(out.dtype());
  const auto fits = [&](std::int64_t bytes) { return divides(bytes, how, number, out, in); };
  if (fits(16))
    copy<uint4>(stream, in_units(how, number, 16), out, in);
  else if (fits(8))
    copy<uint2>(stream, in_units(how, number, 8), out, in);
  else if (fits(4))
    copy<std::uint32_t>(stream, in_units(how, number, 4), out, in);
  else
    copy<std::uint16_t>(stream, in_units(how, number, 2), out, in);
}

template <class T, int N>
void add_packs(Stream& stream, const Tensor& out, const Tensor& in, const BlockMove& how) {
  const Runs runs = in_units(how, 1, N);
  launch(cuda_stream(stream), {blocks_for(runs.outer * runs.run, kThreads), kThreads}, move_and_add_runs_kernel<T, N>,
         runs, out.as<T>(), in.as<T>());
}
template <class T>
void add_block(Stream& stream, const Tensor& out, const Tensor& in, const BlockMove& how) {
  if (divides(kPackBytes, how, sizeof(T), out, in))
    add_packs<T, kPackOf<T>>(stream, out, in, how);
  else
    add_packs<T, 1>(stream, out, in, how);
}

}  // namespace

Cost CudaOps::move_block(Stream& stream, const Tensor& out, const Tensor& in, const BlockMove& how) const {
  check_move_block(stream, out, in, how);
  if (how.write == Write::replace)
    copy_largest(stream, out, in, how);
  else if (out.dtype() == DType::i32)
    add_block<std::int32_t>(stream, out, in, how);
  else
    with_number_type(out, [&]<class T>(T) { add_block<T>(stream, out, in, how); });
  return bill_move_block(out, how);
}

}  // namespace quadrille
