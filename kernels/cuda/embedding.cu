// SPDX-License-Identifier: Apache-2.0
// Rows of a table by id, and back; positions as ids. Floors, of E features of s bytes: embedding reads and writes s·E a
// row; embedding_backward reads s·E a row, and reads and writes s·E (wide: 4·E) once for each different id;
// rows_of_places reads and writes 4 bytes a place; row_lengths reads 4 bytes an id.
#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/ops.h"

namespace quadrille {

namespace {

constexpr int kThreads = 256;
constexpr int kRowsAtOnce = 8;

// A warp has a row; an id that is not held gives zeros.
template <class T, int N>
__global__ void __launch_bounds__(kWarp* kRowsAtOnce)
    embedding_kernel(std::int64_t rows, std::int64_t columns, T* out, const T* table, const std::int32_t* ids,
                     std::int64_t first_row, std::int64_t held) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kRowsAtOnce + threadIdx.y; i < rows;
       i += std::int64_t{gridDim.x} * kRowsAtOnce) {
    const std::int64_t row = ids[i] - first_row;
    const bool here = row >= 0 && row < held;
    for (std::int64_t column = std::int64_t{threadIdx.x} * N; column < columns; column += kWarp * N) {
      using Raw = Pack<T, N>;
      auto* to = reinterpret_cast<Raw*>(out + i * columns + column);
      *to = here ? *reinterpret_cast<const Raw*>(table + row * columns + column) : Raw{};
    }
  }
}

// The backward pass adds rows of one id in their order and needs no memory of its own: of the rows with one id the
// first is the one whose block adds them all. A block looks through the ids from the start; a match before its own row
// says that another block has this id. Frequent ids, the ones with much to add, are so found to be another's at once;
// what is read beside the floor are 4 bytes of ids a row and different id, from the cache.
constexpr int kIdsEach = 8, kIdsAtOnce = kThreads * kIdsEach, kWords = kIdsAtOnce / kWarp;

struct Matches {
  std::int32_t rows[kIdsAtOnce];  // in the run of ids looked through, in order
  unsigned words[kWords];         // a bit for each id
  int before[kWords];             // how many matches lie before a word
};

// The rows of [first, first + kIdsAtOnce) with this id, in order; how many there are. Called by all threads.
__device__ __forceinline__ int find(Matches& m, const std::int32_t* ids, std::int64_t first, std::int64_t rows,
                                    std::int32_t id) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  unsigned mine = 0;
#pragma unroll
  for (int u = 0; u < kIdsEach; ++u) {
    const std::int64_t i = first + u * kThreads + thread;
    const bool match = i < rows && ids[i] == id;
    mine |= match ? 1U << u : 0U;
    const unsigned word = __ballot_sync(kAllLanes, match);
    if (lane == 0) m.words[u * (kThreads / kWarp) + warp] = word;
  }
  __syncthreads();
  int total = 0;
  for (int w = 0; w < kWords; ++w) {
    if (w == thread) m.before[w] = total;
    total += __popc(m.words[w]);
  }
  if (total == 0) return 0;  // the same for all threads
  __syncthreads();
#pragma unroll
  for (int u = 0; u < kIdsEach; ++u) {
    const int w = u * (kThreads / kWarp) + warp;
    if ((mine >> u) & 1U) m.rows[m.before[w] + __popc(m.words[w] & ((1U << lane) - 1))] = u * kThreads + thread;
  }
  __syncthreads();
  return total;
}

constexpr int kInFlight = 8;  // rows that are read before the first is added

template <class T, class W, int N>
__global__ void __launch_bounds__(kThreads)
    embedding_backward_kernel(std::int64_t rows, std::int64_t columns, W* dtable, const T* dout,
                              const std::int32_t* ids, std::int64_t first_row, std::int64_t held) {
  __shared__ Matches matches;
  const std::int64_t own = blockIdx.x, row = ids[own] - first_row;
  if (row < 0 || row >= held) return;
  const std::int64_t column = (std::int64_t{blockIdx.y} * kThreads + threadIdx.x) * N;
  Pack<Real<T>, N> sum{};
  for (std::int64_t first = 0; first < rows; first += kIdsAtOnce) {
    __syncthreads();  // the matches of the round before have been read
    const int count = find(matches, ids, first, rows, ids[own]);
    if (count > 0 && first + matches.rows[0] < own) return;
    if (column >= columns) continue;
    for (int m = 0; m < count; m += kInFlight) {
      Pack<T, N> read[kInFlight];
#pragma unroll
      for (int f = 0; f < kInFlight; ++f)
        read[f] = m + f < count
                      ? *reinterpret_cast<const Pack<T, N>*>(dout + (first + matches.rows[m + f]) * columns + column)
                      : Pack<T, N>{};
#pragma unroll
      for (int f = 0; f < kInFlight; ++f)
#pragma unroll
        for (int k = 0; k < N; ++k) sum.at[k] += widen(read[f].at[k]);
    }
  }
  if (column >= columns) return;
  auto total = load_pack<N>(dtable + row * columns + column);
#pragma unroll
  for (int k = 0; k < N; ++k) total.at[k] += sum.at[k];
  store_pack(dtable + row * columns + column, total);
}

__global__ void __launch_bounds__(kThreads)
    positions_kernel(std::int64_t rows, std::int64_t tokens, std::int32_t* ids, std::int64_t first, Jump jump) {
  for (std::int64_t t = thread_of_grid(); t < tokens; t += threads_of_grid()) {
    const auto position = static_cast<std::int32_t>(position_of(first, jump, t));
    for (std::int64_t row = 0; row < rows; ++row) ids[row * tokens + t] = position;
  }
}

// A thread has one number of the sinusoids, in f64, and adds it to all rows. Reads and writes each element once.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sinusoids_kernel(std::int64_t rows, std::int64_t tokens, std::int64_t features, T* out, const T* x, Sinusoids how) {
  for (std::int64_t i = thread_of_grid(); i < tokens * features; i += threads_of_grid()) {
    const std::int64_t feature = how.first_feature + i % features;
    const double angle = static_cast<double>(position_of(how.first_token, how.jump, i / features)) *
                         pow(10000.0, -static_cast<double>(feature - feature % 2) / static_cast<double>(how.features));
    const auto added =
        static_cast<Real<T>>(how.amplitude == 0 ? 0 : how.amplitude * (feature % 2 == 0 ? sin(angle) : cos(angle)));
    const auto factor = static_cast<Real<T>>(how.factor);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t at = row * tokens * features + i;
      out[at] = narrow<T>(factor * widen(x[at]) + added);
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    rows_of_places_kernel(std::int64_t count, std::int64_t columns, std::int32_t* rows, const std::int32_t* places,
                          std::int64_t tokens, std::int64_t first, Jump jump) {
  for (std::int64_t i = thread_of_grid(); i < count; i += threads_of_grid()) {
    const std::int64_t token = token_at(first, jump, tokens, places[i]);
    rows[i] = token < 0 ? -1 : static_cast<std::int32_t>(i / columns * tokens + token);
  }
}

// A warp has a row. Reads each id once.
__global__ void __launch_bounds__(kWarp* kRowsAtOnce)
    row_lengths_kernel(std::int64_t rows, std::int64_t tokens, std::int32_t* lengths, const std::int32_t* ids) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kRowsAtOnce + threadIdx.y; i < rows;
       i += std::int64_t{gridDim.x} * kRowsAtOnce) {
    int count = 0;
    for (std::int64_t t = threadIdx.x; t < tokens; t += kWarp) count += ids[i * tokens + t] >= 0;
    count = warp_sum(count);
    if (threadIdx.x == 0) lengths[i] = count;
  }
}

}  // namespace

Cost CudaOps::embedding(Stream& stream, const Tensor& out, const Tensor& table, const Tensor& ids,
                        std::int64_t first_row) const {
  const Extents e = check_embedding(stream, out, table, ids, first_row);
  with_number_type(out, [&]<class T>(T) {
    constexpr int N = kPackOf<T>;
    const bool packs = e.columns % N == 0 && pack_aligned<N>(out.as<T>(), table.as<T>());
    launch(cuda_stream(stream), {blocks_for(e.rows, kRowsAtOnce), {kWarp, kRowsAtOnce}},
           packs ? embedding_kernel<T, N> : embedding_kernel<T, 1>, e.rows, e.columns, out.as<T>(), table.as<T>(),
           ids.as<std::int32_t>(), first_row, table.shape()[0]);
  });
  return bill_embedding(out, table, ids);
}

Cost CudaOps::embedding_backward(Stream& stream, const Tensor& dtable, const Tensor& dout, const Tensor& ids,
                                 std::int64_t first_row) const {
  const Extents e = check_embedding_backward(stream, dtable, dout, ids, first_row);
  with_number_types(dout, dtable, [&]<class T, class W>(T, W) {
    constexpr int N = kPackOf<T, W>;
    const bool packs = e.columns % N == 0 && pack_aligned<N>(dtable.as<W>()) && pack_aligned<N>(dout.as<T>());
    const std::int64_t pack = packs ? N : 1;
    launch(cuda_stream(stream),
           {{blocks_for(e.rows, 1, kMostBlocks), blocks_for(e.columns, kThreads * pack, kMostAcross)}, kThreads},
           packs ? embedding_backward_kernel<T, W, N> : embedding_backward_kernel<T, W, 1>, e.rows, e.columns,
           dtable.as<W>(), dout.as<T>(), ids.as<std::int32_t>(), first_row, dtable.shape()[0]);
  });
  return bill_embedding_backward(dtable, dout, ids);
}

Cost CudaOps::positions(Stream& stream, const Tensor& ids, std::int64_t first, const Jump& jump) const {
  const Extents e = check_positions(stream, ids, first, jump);
  launch(cuda_stream(stream), {blocks_for(e.columns, kThreads), kThreads}, positions_kernel, e.rows, e.columns,
         ids.as<std::int32_t>(), first, jump);
  return bill_positions(ids);
}

Cost CudaOps::sinusoids(Stream& stream, const Tensor& out, const Tensor& x, const Sinusoids& how) const {
  check_sinusoids(stream, out, x, how);
  const std::int64_t tokens = x.shape()[1], features = x.shape()[2];
  with_number_type(out, [&]<class T>(T) {
    launch(cuda_stream(stream), {blocks_for(tokens * features, kThreads), kThreads}, sinusoids_kernel<T>, x.shape()[0],
           tokens, features, out.as<T>(), static_cast<const T*>(x.as<T>()), how);
  });
  return bill_sinusoids(out, x);
}

Cost CudaOps::row_lengths(Stream& stream, const Tensor& lengths, const Tensor& ids) const {
  const Extents e = check_row_lengths(stream, lengths, ids);
  launch(cuda_stream(stream), {blocks_for(e.rows, kRowsAtOnce), {kWarp, kRowsAtOnce}}, row_lengths_kernel, e.rows,
         e.columns, lengths.as<std::int32_t>(), static_cast<const std::int32_t*>(ids.as<std::int32_t>()));
  return bill_row_lengths(lengths, ids);
}

Cost CudaOps::rows_of_places(Stream& stream, const Tensor& rows, const Tensor& places, std::int64_t tokens,
                             std::int64_t first, const Jump& jump) const {
  const Extents e = check_rows_of_places(stream, rows, places, tokens, first, jump);
  launch(cuda_stream(stream), {blocks_for(rows.count(), kThreads), kThreads}, rows_of_places_kernel, rows.count(),
         e.columns, rows.as<std::int32_t>(), places.as<std::int32_t>(), tokens, first, jump);
  return bill_rows_of_places(rows, places);
}

}  // namespace quadrille
