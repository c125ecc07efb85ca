// SPDX-License-Identifier: Apache-2.0
// Cross-entropy over a vocabulary that may be split, in the four steps of ops.h.
// loss = (1-s)(L - logit of the label) + s(L - mean logit), L = max + log Σ exp(logit - max), s the smoothing.
// A block has a row. Bound by memory: of V words of s bytes max and sums read s·V a row each, backward reads and writes
// s·V; all else is a few numbers a row. Rows of an odd vocabulary begin anywhere, so each takes its packs from the
// first 16-byte boundary on. Labels are not read by the host, which would have to wait for them: one beyond the
// vocabulary makes the loss not a number, so the step is not finite and changes nothing.
#include "kernels/bills.h"
#include "kernels/checks.h"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/ops.h"

namespace quadrille {

namespace {

constexpr int kThreads = 256;

// Calls packs(at) for each pack of a row and single(at) for the numbers before and after them, over a block's threads.
template <class T, class P, class S>
__device__ __forceinline__ void over_row(const T* row, std::int64_t columns, bool aligned, P&& packs, S&& single) {
  constexpr int N = kPackOf<T>;
  const auto past = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % kPackBytes / sizeof(T));
  const std::int64_t head = aligned ? min(static_cast<std::int64_t>((N - past) % N), columns) : columns;
  const std::int64_t packed = (columns - head) / N * N;
  for (std::int64_t i = head + std::int64_t{threadIdx.x} * N; i < head + packed; i += kThreads * N) packs(i);
#pragma unroll 1
  for (std::int64_t i = threadIdx.x; i < columns - packed; i += kThreads) single(i < head ? i : i + packed);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_max_kernel(std::int64_t rows, std::int64_t columns, double* max, const T* logits) {
  constexpr int N = kPackOf<T>;
  constexpr Real<T> kNothing = -INFINITY;  // stays where no words are held
  for (std::int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    const T* row = logits + i * columns;
    Real<T> most = kNothing;
    over_row(
        row, columns, true,
        [&](std::int64_t at) {
          const auto v = load_pack<N>(row + at);
#pragma unroll
          for (int k = 0; k < N; ++k) most = larger(most, v.at[k]);
        },
        [&](std::int64_t at) { most = larger(most, widen(row[at])); });
    most = over_block<kThreads, Max>(most, kNothing);
    if (threadIdx.x == 0) max[i] = static_cast<double>(most);
  }
}

// The terms of a pack are added in the type's own arithmetic, packs in f64.
template <class T>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_sums_kernel(std::int64_t rows, std::int64_t columns, double* sums, const T* logits, const double* max,
                              const std::int32_t* labels, std::int64_t first_word) {
  constexpr int N = kPackOf<T>;
  for (std::int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    const T* row = logits + i * columns;
    const auto most = static_cast<Real<T>>(max[i]);
    double exponentials = 0, total = 0;
    over_row(
        row, columns, true,
        [&](std::int64_t at) {
          const auto v = load_pack<N>(row + at);
          Real<T> of_pack = 0, total_of_pack = 0;
#pragma unroll
          for (int k = 0; k < N; ++k) {
            of_pack += exponential(v.at[k] - most);
            total_of_pack += v.at[k];
          }
          exponentials += static_cast<double>(of_pack);
          total += static_cast<double>(total_of_pack);
        },
        [&](std::int64_t at) {
          exponentials += static_cast<double>(exponential(widen(row[at]) - most));
          total += static_cast<double>(widen(row[at]));
        });
    exponentials = block_sum<kThreads>(exponentials);
    total = block_sum<kThreads>(total);
    if (threadIdx.x != 0) continue;
    const std::int64_t label = labels[i] - first_word;
    const bool held = labels[i] >= 0 && label >= 0 && label < columns;
    sums[3 * i] = exponentials;
    sums[3 * i + 1] = held ? static_cast<double>(widen(row[label])) : 0;
    sums[3 * i + 2] = total;
  }
}

// A few numbers a row: one block, each thread its rows in order.
constexpr int kLossThreads = 1024;
__global__ void __launch_bounds__(kLossThreads)
    cross_entropy_loss_kernel(std::int64_t rows, double* loss, const double* sums, const double* max,
                              const std::int32_t* labels, CrossEntropy how) {
  double total = 0, count = 0;
  for (std::int64_t i = threadIdx.x; i < rows; i += kLossThreads) {
    if (labels[i] < 0) continue;
    const double* three = sums + 3 * i;
    const double log_sum = max[i] + log(three[0]);
    total += (1 - how.smoothing) * (log_sum - three[1]);
    if (how.smoothing > 0) total += how.smoothing * (log_sum - three[2] / static_cast<double>(how.words));
    if (labels[i] >= how.words) total = NAN;
    count += 1;
  }
  total = block_sum<kLossThreads>(total);
  count = block_sum<kLossThreads>(count);
  if (threadIdx.x == 0) loss[0] += total, loss[1] += count;
}

// Reads a row once, like the sums.
template <class T>
__global__ void __launch_bounds__(kThreads)
    label_matches_kernel(std::int64_t rows, std::int64_t columns, double* matches, const T* logits, const double* max,
                         const std::int32_t* labels, std::int64_t first_word) {
  constexpr int N = kPackOf<T>;
  for (std::int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    const T* row = logits + i * columns;
    const auto most = static_cast<Real<T>>(max[i]);
    double equal = 0;
    over_row(
        row, columns, true,
        [&](std::int64_t at) {
          const auto v = load_pack<N>(row + at);
#pragma unroll
          for (int k = 0; k < N; ++k) equal += v.at[k] == most ? 1 : 0;
        },
        [&](std::int64_t at) { equal += widen(row[at]) == most ? 1 : 0; });
    equal = block_sum<kThreads>(equal);
    if (threadIdx.x != 0) continue;
    const std::int64_t label = labels[i] - first_word;
    const bool held = labels[i] >= 0 && label >= 0 && label < columns;
    matches[2 * i] = equal;
    matches[2 * i + 1] = held && widen(row[label]) == most ? 1 : 0;
  }
}

__global__ void __launch_bounds__(kLossThreads)
    count_correct_kernel(std::int64_t rows, double* correct, const double* matches, const std::int32_t* labels) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < rows; i += kLossThreads)
    if (labels[i] >= 0 && matches[2 * i] > 0) sum += matches[2 * i + 1] / matches[2 * i];
  sum = block_sum<kLossThreads>(sum);
  if (threadIdx.x == 0) correct[0] += sum;
}

// What a row's gradient is made of: (probability - target)·scale.
template <class R>
struct RowGradient {
  R most, inverse_sum, spread, sharp, scale;
  std::int64_t label;  // in the words held; beyond them when held elsewhere
  __device__ __forceinline__ R operator()(R logit, std::int64_t word) const {
    return (exponential(logit - most) * inverse_sum - (word == label ? spread + sharp : spread)) * scale;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_backward_kernel(std::int64_t rows, std::int64_t columns, bool aligned, T* dlogits, const T* logits,
                                  const double* max, const double* sums, const std::int32_t* labels,
                                  const double* counts /* or null */, CrossEntropy how) {
  const double scale = counts ? counts[0] / counts[1] : 1;
  constexpr int N = kPackOf<T>;
  for (std::int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    const T* row = logits + i * columns;
    T* to = dlogits + i * columns;
    const bool counted = labels[i] >= 0;
    const RowGradient<Real<T>> gradient{static_cast<Real<T>>(max[i]),
                                        static_cast<Real<T>>(1 / sums[3 * i]),
                                        static_cast<Real<T>>(how.smoothing / static_cast<double>(how.words)),
                                        static_cast<Real<T>>(1 - how.smoothing),
                                        static_cast<Real<T>>(scale),
                                        labels[i] - how.first_word};
    over_row(
        row, columns, aligned,
        [&](std::int64_t at) {
          auto v = load_pack<N>(row + at);
#pragma unroll
          for (int k = 0; k < N; ++k) v.at[k] = counted ? gradient(v.at[k], at + k) : Real<T>(0);
          store_pack(to + at, v);
        },
        [&](std::int64_t at) { to[at] = narrow<T>(counted ? gradient(widen(row[at]), at) : Real<T>(0)); });
  }
}

}  // namespace

Cost CudaOps::cross_entropy_max(Stream& stream, const Tensor& max, const Tensor& logits) const {
  const Extents e = check_cross_entropy_max(stream, max, logits);
  with_number_type(logits, [&]<class T>(T) {
    launch(cuda_stream(stream), {blocks_for(e.rows, 1), kThreads}, cross_entropy_max_kernel<T>, e.rows, e.columns,
           max.as<double>(), logits.as<T>());
  });
  return bill_cross_entropy_max(max, logits);
}

Cost CudaOps::cross_entropy_sums(Stream& stream, const Tensor& sums, const Tensor& logits, const Tensor& max,
                                 const Tensor& labels, const CrossEntropy& how) const {
  const Extents e = check_cross_entropy_sums(stream, sums, logits, max, labels, how);
  with_number_type(logits, [&]<class T>(T) {
    launch(cuda_stream(stream), {blocks_for(e.rows, 1), kThreads}, cross_entropy_sums_kernel<T>, e.rows, e.columns,
           sums.as<double>(), logits.as<T>(), max.as<double>(), labels.as<std::int32_t>(), how.first_word);
  });
  return bill_cross_entropy_sums(sums, logits, max, labels);
}

Cost CudaOps::cross_entropy_loss(Stream& stream, const Tensor& loss, const Tensor& sums, const Tensor& max,
                                 const Tensor& labels, const CrossEntropy& how) const {
  const std::int64_t rows = check_cross_entropy_loss(stream, loss, sums, max, labels, how);
  if (rows > 0)
    launch(cuda_stream(stream), {1, kLossThreads}, cross_entropy_loss_kernel, rows, loss.as<double>(),
           sums.as<double>(), max.as<double>(), labels.as<std::int32_t>(), how);
  return bill_cross_entropy_loss(loss, sums, max, labels);
}

Cost CudaOps::label_matches(Stream& stream, const Tensor& matches, const Tensor& logits, const Tensor& max,
                            const Tensor& labels, const CrossEntropy& how) const {
  const Extents e = check_label_matches(stream, matches, logits, max, labels, how);
  with_number_type(logits, [&]<class T>(T) {
    launch(cuda_stream(stream), {blocks_for(e.rows, 1), kThreads}, label_matches_kernel<T>, e.rows, e.columns,
           matches.as<double>(), logits.as<T>(), max.as<double>(), labels.as<std::int32_t>(), how.first_word);
  });
  return bill_label_matches(matches, logits, max, labels);
}

Cost CudaOps::count_correct(Stream& stream, const Tensor& correct, const Tensor& matches, const Tensor& labels) const {
  const std::int64_t rows = check_count_correct(stream, correct, matches, labels);
  if (rows > 0)
    launch(cuda_stream(stream), {1, kLossThreads}, count_correct_kernel, rows, correct.as<double>(),
           matches.as<double>(), labels.as<std::int32_t>());
  return bill_count_correct(correct, matches, labels);
}

Cost CudaOps::cross_entropy_backward(Stream& stream, const Tensor& dlogits, const Tensor& logits, const Tensor& max,
                                     const Tensor& sums, const Tensor& labels, const Tensor& counts,
                                     const CrossEntropy& how) const {
  const Extents e = check_cross_entropy_backward(stream, dlogits, logits, max, sums, labels, counts, how);
  with_number_type(logits, [&]<class T>(T) {
    const auto past = [](const T* at) { return reinterpret_cast<std::uintptr_t>(at) % kPackBytes; };
    launch(cuda_stream(stream), {blocks_for(e.rows, 1), kThreads}, cross_entropy_backward_kernel<T>, e.rows, e.columns,
           past(dlogits.as<T>()) == past(logits.as<T>()), dlogits.as<T>(), logits.as<T>(), max.as<double>(),
           sums.as<double>(), labels.as<std::int32_t>(), counts ? counts.as<double>() : nullptr, how);
  });
  return bill_cross_entropy_backward(dlogits, logits, max, sums, labels, counts);
}

}  // namespace quadrille
