// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/broken.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace quadrille {

namespace {

template <class T>
void spoil_numbers(Fault fault, std::span<T> now, const std::vector<T>& before) {
  switch (fault) {
    case Fault::none:
    case Fault::wrong_bill:
      return;
    case Fault::does_nothing:
      std::copy(before.begin(), before.end(), now.begin());
      return;
    case Fault::one_percent:
      for (T& v : now) v = static_cast<T>(v * 1.01);
      return;
    case Fault::last_element: {
      double largest = 1;
      for (const T v : now)
        if (std::isfinite(static_cast<double>(v))) largest = std::max(largest, std::abs(static_cast<double>(v)));
      if (!now.empty()) now.back() = static_cast<T>(largest * 1.5);
      return;
    }
    case Fault::adds:
      for (std::size_t i = 0; i < now.size(); ++i) now[i] = static_cast<T>(now[i] + before[i]);
      return;
  }
}

// Remembers what an output held, and spoils it afterwards.
template <class T>
std::function<void()> spoiler(Fault fault, const Tensor& t) {
  const std::span<T> now = t.host<T>();
  return [fault, now, before = std::vector<T>(now.begin(), now.end())] { spoil_numbers(fault, now, before); };
}

template <class Options>
Options changed(Options options, const std::function<void(Options&)>& change) {
  if (change) change(options);
  return options;
}

}  // namespace

Cost BrokenOps::spoil(std::initializer_list<const Tensor*> outputs, const std::function<Cost()>& call) const {
  std::vector<std::function<void()>> spoilers;
  for (const Tensor* t : outputs) {
    if (!*t || (spoilers.size() == 1 && t->same_place(**outputs.begin()))) continue;  // absent, or dq and dkv packed
    if (t->dtype() == DType::f64) spoilers.push_back(spoiler<double>(fault_, *t));
    if (t->dtype() == DType::f32) spoilers.push_back(spoiler<float>(fault_, *t));
    if (t->dtype() == DType::i32) spoilers.push_back(spoiler<std::int32_t>(fault_, *t));
  }
  Cost cost = call();
  for (const auto& spoil_one : spoilers) spoil_one();
  if (fault_ == Fault::wrong_bill) cost.bytes += 1;
  return cost;
}

Cost BrokenOps::matmul(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                       const Matmul& how) const {
  return spoil({&out}, [&] { return right_.matmul(stream, out, a, b, bias, changed(how, forgetting_.matmul)); });
}

Cost BrokenOps::add(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) const {
  return spoil({&out}, [&] { return right_.add(stream, out, a, b); });
}

Cost BrokenOps::add_bias(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& bias) const {
  return spoil({&out}, [&] { return right_.add_bias(stream, out, x, bias); });
}

Cost BrokenOps::sum_rows(Stream& stream, const Tensor& out, const Tensor& x, Write write) const {
  return spoil({&out}, [&] { return right_.sum_rows(stream, out, x, changed(write, forgetting_.write)); });
}

Cost BrokenOps::gelu(Stream& stream, const Tensor& out, const Tensor& x) const {
  return spoil({&out}, [&] { return right_.gelu(stream, out, x); });
}

Cost BrokenOps::relu(Stream& stream, const Tensor& out, const Tensor& x) const {
  return spoil({&out}, [&] { return right_.relu(stream, out, x); });
}

Cost BrokenOps::gelu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x) const {
  return spoil({&dx}, [&] { return right_.gelu_backward(stream, dx, dy, x); });
}

Cost BrokenOps::tanh(Stream& stream, const Tensor& out, const Tensor& x) const {
  return spoil({&out}, [&] { return right_.tanh(stream, out, x); });
}

Cost BrokenOps::tanh_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y) const {
  return spoil({&dx}, [&] { return right_.tanh_backward(stream, dx, dy, y); });
}

Cost BrokenOps::gated_silu(Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up) const {
  return spoil({&out}, [&] { return right_.gated_silu(stream, out, gate, up); });
}

Cost BrokenOps::gated_silu_backward(Stream& stream, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                                    const Tensor& gate, const Tensor& up) const {
  return spoil({&dgate, &dup}, [&] { return right_.gated_silu_backward(stream, dgate, dup, dy, gate, up); });
}

Cost BrokenOps::dropout(Stream& stream, const Tensor& out, const Tensor& x, const Dropout& how) const {
  return spoil({&out}, [&] { return right_.dropout(stream, out, x, changed(how, forgetting_.dropout)); });
}

Cost BrokenOps::norm_sums(Stream& stream, const Tensor& sums, const Tensor& x) const {
  return spoil({&sums}, [&] { return right_.norm_sums(stream, sums, x); });
}

Cost BrokenOps::norm(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
                     const Tensor& bias, const Norm& how) const {
  return spoil({&out}, [&] { return right_.norm(stream, out, x, sums, gain, bias, changed(how, forgetting_.norm)); });
}

Cost BrokenOps::norm_backward_sums(Stream& stream, const Tensor& sums, const Tensor& dy, const Tensor& x,
                                   const Tensor& forward_sums, const Tensor& gain, const Norm& how) const {
  return spoil({&sums}, [&] {
    return right_.norm_backward_sums(stream, sums, dy, x, forward_sums, gain, changed(how, forgetting_.norm));
  });
}

Cost BrokenOps::norm_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                              const Tensor& forward_sums, const Tensor& backward_sums, const Tensor& gain,
                              const Norm& how, Write write) const {
  return spoil({&dx}, [&] {
    return right_.norm_backward(stream, dx, dy, x, forward_sums, backward_sums, gain, changed(how, forgetting_.norm),
                                changed(write, forgetting_.write));
  });
}

Cost BrokenOps::norm_backward_parameters(Stream& stream, const Tensor& dgain, const Tensor& dbias, const Tensor& dy,
                                         const Tensor& x, const Tensor& forward_sums, const Norm& how) const {
  return spoil({&dgain, &dbias}, [&] {
    return right_.norm_backward_parameters(stream, dgain, dbias, dy, x, forward_sums, changed(how, forgetting_.norm));
  });
}

Cost BrokenOps::embedding(Stream& stream, const Tensor& out, const Tensor& table, const Tensor& ids,
                          std::int64_t first_row) const {
  return spoil({&out},
               [&] { return right_.embedding(stream, out, table, ids, changed(first_row, forgetting_.first_row)); });
}

Cost BrokenOps::embedding_backward(Stream& stream, const Tensor& dtable, const Tensor& dout, const Tensor& ids,
                                   std::int64_t first_row) const {
  return spoil({&dtable}, [&] {
    return right_.embedding_backward(stream, dtable, dout, ids, changed(first_row, forgetting_.first_row));
  });
}

Cost BrokenOps::attention(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                          const Tensor& lengths, const Attention& how) const {
  return spoil({&out, &log_sum}, [&] {
    return right_.attention(stream, out, log_sum, q, kv, changed(lengths, forgetting_.lengths),
                            changed(how, forgetting_.attention));
  });
}

Cost BrokenOps::attention_backward(Stream& stream, const Tensor& dq, const Tensor& dkv, const Tensor& dout,
                                   const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                                   const Tensor& lengths, const Attention& how) const {
  return spoil({&dq, &dkv}, [&] {
    return right_.attention_backward(stream, dq, dkv, dout, out, log_sum, q, kv, changed(lengths, forgetting_.lengths),
                                     changed(how, forgetting_.attention));
  });
}

Cost BrokenOps::attention_merge(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& part_out,
                                const Tensor& part_log_sum) const {
  return spoil({&out, &log_sum}, [&] { return right_.attention_merge(stream, out, log_sum, part_out, part_log_sum); });
}

Cost BrokenOps::rotary(Stream& stream, const Tensor& out, const Tensor& x, const Rotary& how) const {
  return spoil({&out}, [&] { return right_.rotary(stream, out, x, changed(how, forgetting_.rotary)); });
}

Cost BrokenOps::cross_entropy_max(Stream& stream, const Tensor& max, const Tensor& logits) const {
  return spoil({&max}, [&] { return right_.cross_entropy_max(stream, max, logits); });
}

Cost BrokenOps::cross_entropy_sums(Stream& stream, const Tensor& sums, const Tensor& logits, const Tensor& max,
                                   const Tensor& labels, const CrossEntropy& how) const {
  return spoil({&sums}, [&] {
    return right_.cross_entropy_sums(stream, sums, logits, max, labels, changed(how, forgetting_.cross_entropy));
  });
}

Cost BrokenOps::cross_entropy_loss(Stream& stream, const Tensor& loss, const Tensor& sums, const Tensor& max,
                                   const Tensor& labels, const CrossEntropy& how) const {
  return spoil({&loss}, [&] {
    return right_.cross_entropy_loss(stream, loss, sums, max, labels, changed(how, forgetting_.cross_entropy));
  });
}

Cost BrokenOps::label_matches(Stream& stream, const Tensor& matches, const Tensor& logits, const Tensor& max,
                              const Tensor& labels, const CrossEntropy& how) const {
  return spoil({&matches}, [&] {
    return right_.label_matches(stream, matches, logits, max, labels, changed(how, forgetting_.cross_entropy));
  });
}

Cost BrokenOps::count_correct(Stream& stream, const Tensor& correct, const Tensor& matches,
                              const Tensor& labels) const {
  return spoil({&correct}, [&] { return right_.count_correct(stream, correct, matches, labels); });
}

Cost BrokenOps::cross_entropy_backward(Stream& stream, const Tensor& dlogits, const Tensor& logits, const Tensor& max,
                                       const Tensor& sums, const Tensor& labels, const Tensor& counts,
                                       const CrossEntropy& how) const {
  return spoil({&dlogits}, [&] {
    return right_.cross_entropy_backward(stream, dlogits, logits, max, sums, labels, counts,
                                         changed(how, forgetting_.cross_entropy));
  });
}

Cost BrokenOps::move_block(Stream& stream, const Tensor& out, const Tensor& in, const BlockMove& how) const {
  return spoil({&out}, [&] { return right_.move_block(stream, out, in, changed(how, forgetting_.block_move)); });
}

Cost BrokenOps::positions(Stream& stream, const Tensor& ids, std::int64_t first, const Jump& jump) const {
  return spoil({&ids}, [&] { return right_.positions(stream, ids, first, jump); });
}

Cost BrokenOps::sinusoids(Stream& stream, const Tensor& out, const Tensor& x, const Sinusoids& how) const {
  return spoil({&out}, [&] { return right_.sinusoids(stream, out, x, how); });
}

Cost BrokenOps::row_lengths(Stream& stream, const Tensor& lengths, const Tensor& ids) const {
  return spoil({&lengths}, [&] { return right_.row_lengths(stream, lengths, ids); });
}

Cost BrokenOps::rows_of_places(Stream& stream, const Tensor& rows, const Tensor& places, std::int64_t tokens,
                               std::int64_t first, const Jump& jump) const {
  const Jump how = changed(jump, forgetting_.jump);
  return spoil({&rows}, [&] {
    return right_.rows_of_places(stream, rows, places, tokens, changed(first, forgetting_.first_token), how);
  });
}

Cost BrokenOps::sum_of_squares(Stream& stream, const Tensor& sum, const Tensor& x) const {
  return spoil({&sum}, [&] { return right_.sum_of_squares(stream, sum, x); });
}

Cost BrokenOps::step_scalars(Stream& stream, const Tensor& scalars, const Tensor& totals, const Tensor& settings,
                             double clip_norm) const {
  const Tensor changed = settings.device().empty({2}, DType::f64);
  stream.copy(changed, settings);
  if (forgetting_.step_scalars) {
    const auto numbers = changed.host<double>();
    forgetting_.step_scalars(numbers[0], clip_norm, numbers[1]);
  }
  return spoil({&scalars}, [&] { return right_.step_scalars(stream, scalars, totals, changed, clip_norm); });
}

Cost BrokenOps::convert(Stream& stream, const Tensor& out, const Tensor& in) const {
  return spoil({&out}, [&] { return right_.convert(stream, out, in); });
}
Cost BrokenOps::adamw(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& first_moment,
                      const Tensor& second_moment, const Tensor& scalars, const AdamW& how) const {
  return spoil({&values, &first_moment, &second_moment}, [&] {
    return right_.adamw(stream, values, gradients, first_moment, second_moment, scalars,
                        changed(how, forgetting_.adamw));
  });
}

Cost BrokenOps::sgd_momentum(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                             const Tensor& scalars, const SgdMomentum& how) const {
  return spoil({&values, &velocity}, [&] {
    return right_.sgd_momentum(stream, values, gradients, velocity, scalars, changed(how, forgetting_.sgd_momentum));
  });
}

Cost BrokenOps::lars(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                     const Tensor& norms, const Tensor& scalars, const Lars& how) const {
  return spoil({&values, &velocity}, [&] {
    return right_.lars(stream, values, gradients, velocity, norms, scalars, changed(how, forgetting_.lars));
  });
}

Cost BrokenOps::lamb_moments(Stream& stream, const Tensor& squares, const Tensor& values, const Tensor& gradients,
                             const Tensor& first_moment, const Tensor& second_moment, const Tensor& scalars,
                             const Lamb& how) const {
  return spoil({&squares, &first_moment, &second_moment}, [&] {
    return right_.lamb_moments(stream, squares, values, gradients, first_moment, second_moment, scalars,
                               changed(how, forgetting_.lamb));
  });
}

Cost BrokenOps::lamb_step(Stream& stream, const Tensor& values, const Tensor& first_moment, const Tensor& second_moment,
                          const Tensor& norms, const Tensor& scalars, const Lamb& how) const {
  return spoil({&values}, [&] {
    return right_.lamb_step(stream, values, first_moment, second_moment, norms, scalars,
                            changed(how, forgetting_.lamb));
  });
}

}  // namespace quadrille
