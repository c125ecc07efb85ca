// SPDX-License-Identifier: Apache-2.0
#include "kernels/emulated_bf16.h"

#include <deque>
#include <tuple>
#include <utility>

#include "core/bf16.h"
#include "core/error.h"
#include "kernels/backend.h"

namespace quadrille {

namespace {

// What an op does with an operand.
struct In {
  const Tensor& tensor;
};
struct Out {
  const Tensor& tensor;
  bool read = false;  // added to: its numbers count
};

const Tensor& plain(const In& in) { return in.tensor; }
const Tensor& plain(const Out& out) { return out.tensor; }
template <class T>
const T& plain(const T& option) {
  return option;
}

bool is_bf16(const Tensor& t) { return t && t.dtype() == DType::bf16; }
bool is_bf16(const In& in) { return is_bf16(in.tensor); }
bool is_bf16(const Out& out) { return is_bf16(out.tensor); }
template <class T>
bool is_bf16(const T&) {
  return false;
}

// The f32 twins of a call's bf16 operands. Operands that are one tensor get one twin.
class Twins {
 public:
  Tensor of(const In& in) { return twin(in.tensor, true, false); }
  Tensor of(const Out& out) { return twin(out.tensor, out.read, true); }
  template <class T>
  const T& of(const T& option) {
    return option;
  }
  void round_results() const {
    for (const Twin& t : twins_) {
      if (!t.written) continue;
      const auto to = t.tensor.host<bf16>();
      const auto from = t.numbers.host<float>();
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = bf16(from[i]);
    }
  }

 private:
  struct Twin {
    Tensor tensor, numbers;
    bool loaded = false, written = false;
  };
  Tensor twin(const Tensor& t, bool read, bool written) {
    if (!is_bf16(t)) return t;
    Twin& twin = of_place(t);
    if (read && !twin.loaded) {
      const auto from = t.host<bf16>();
      const auto to = twin.numbers.host<float>();
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from[i]);
      twin.loaded = true;
    }
    twin.written |= written;
    return twin.numbers.reshaped(t.shape());
  }
  Twin& of_place(const Tensor& t) {
    for (Twin& known : twins_)
      if (known.tensor.same_place(t)) return known;
    return twins_.emplace_back(Twin{t, t.device().empty(t.shape(), DType::f32)});
  }

  std::deque<Twin> twins_;
};

class EmulatedBf16 : public Ops {
 public:
  EmulatedBf16(const Ops& inner, std::int64_t attention_block)
      : inner_(inner), bills_(make_counting_ops({.block = attention_block})) {}
  std::string_view name() const override { return inner_.name(); }
  Cost convert(Stream& stream, const Tensor& out, const Tensor& in) const override {
    return run(stream, &Ops::convert, Out{out}, In{in});
  }
  Cost matmul(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
              const Matmul& how) const override {
    require(!how.tf32, "matmul: tf32 is a mode of tensor cores, which the back end \"{}\" does not have: use f32",
            name());
    return run(stream, &Ops::matmul, Out{out, how.write == Write::accumulate}, In{a}, In{b}, In{bias}, how);
  }
  Cost add(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) const override {
    return run(stream, &Ops::add, Out{out}, In{a}, In{b});
  }
  Cost add_bias(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& bias) const override {
    return run(stream, &Ops::add_bias, Out{out}, In{x}, In{bias});
  }
  Cost sum_rows(Stream& stream, const Tensor& out, const Tensor& x, Write write) const override {
    return run(stream, &Ops::sum_rows, Out{out, write == Write::accumulate}, In{x}, write);
  }
  Cost gelu(Stream& stream, const Tensor& out, const Tensor& x) const override {
    return run(stream, &Ops::gelu, Out{out}, In{x});
  }
  Cost relu(Stream& stream, const Tensor& out, const Tensor& x) const override {
    return run(stream, &Ops::relu, Out{out}, In{x});
  }
  Cost gelu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x) const override {
    return run(stream, &Ops::gelu_backward, Out{dx}, In{dy}, In{x});
  }
  Cost tanh(Stream& stream, const Tensor& out, const Tensor& x) const override {
    return run(stream, &Ops::tanh, Out{out}, In{x});
  }
  Cost tanh_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y) const override {
    return run(stream, &Ops::tanh_backward, Out{dx}, In{dy}, In{y});
  }
  Cost gated_silu(Stream& stream, const Tensor& out, const Tensor& gate, const Tensor& up) const override {
    return run(stream, &Ops::gated_silu, Out{out}, In{gate}, In{up});
  }
  Cost gated_silu_backward(Stream& stream, const Tensor& dgate, const Tensor& dup, const Tensor& dy, const Tensor& gate,
                           const Tensor& up) const override {
    return run(stream, &Ops::gated_silu_backward, Out{dgate}, Out{dup}, In{dy}, In{gate}, In{up});
  }
  Cost dropout(Stream& stream, const Tensor& out, const Tensor& x, const Dropout& how) const override {
    return run(stream, &Ops::dropout, Out{out}, In{x}, how);
  }
  Cost norm_sums(Stream& stream, const Tensor& sums, const Tensor& x) const override {
    return run(stream, &Ops::norm_sums, Out{sums}, In{x});
  }
  Cost norm(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
            const Tensor& bias, const Norm& how) const override {
    return run(stream, &Ops::norm, Out{out}, In{x}, In{sums}, In{gain}, In{bias}, how);
  }
  Cost norm_backward_sums(Stream& stream, const Tensor& sums, const Tensor& dy, const Tensor& x,
                          const Tensor& forward_sums, const Tensor& gain, const Norm& how) const override {
    return run(stream, &Ops::norm_backward_sums, Out{sums}, In{dy}, In{x}, In{forward_sums}, In{gain}, how);
  }
  Cost norm_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& forward_sums,
                     const Tensor& backward_sums, const Tensor& gain, const Norm& how, Write write) const override {
    return run(stream, &Ops::norm_backward, Out{dx, write == Write::accumulate}, In{dy}, In{x}, In{forward_sums},
               In{backward_sums}, In{gain}, how, write);
  }
  Cost norm_backward_parameters(Stream& stream, const Tensor& dgain, const Tensor& dbias, const Tensor& dy,
                                const Tensor& x, const Tensor& forward_sums, const Norm& how) const override {
    return run(stream, &Ops::norm_backward_parameters, Out{dgain, true}, Out{dbias, true}, In{dy}, In{x},
               In{forward_sums}, how);
  }
  Cost embedding(Stream& stream, const Tensor& out, const Tensor& table, const Tensor& ids,
                 std::int64_t first_row) const override {
    return run(stream, &Ops::embedding, Out{out}, In{table}, In{ids}, first_row);
  }
  Cost embedding_backward(Stream& stream, const Tensor& dtable, const Tensor& dout, const Tensor& ids,
                          std::int64_t first_row) const override {
    return run(stream, &Ops::embedding_backward, Out{dtable, true}, In{dout}, In{ids}, first_row);
  }
  Cost rows_of_places(Stream& stream, const Tensor& rows, const Tensor& places, std::int64_t tokens, std::int64_t first,
                      const Jump& jump) const override {
    return run(stream, &Ops::rows_of_places, Out{rows}, In{places}, tokens, first, jump);
  }
  Cost positions(Stream& stream, const Tensor& ids, std::int64_t first, const Jump& jump) const override {
    return run(stream, &Ops::positions, Out{ids}, first, jump);
  }
  Cost sinusoids(Stream& stream, const Tensor& out, const Tensor& x, const Sinusoids& how) const override {
    return run(stream, &Ops::sinusoids, Out{out}, In{x}, how);
  }
  Cost row_lengths(Stream& stream, const Tensor& lengths, const Tensor& ids) const override {
    return run(stream, &Ops::row_lengths, Out{lengths}, In{ids});
  }
  Cost attention(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& q, const Tensor& kv,
                 const Tensor& lengths, const Attention& how) const override {
    return run(stream, &Ops::attention, Out{out}, Out{log_sum}, In{q}, In{kv}, In{lengths}, how);
  }
  Cost attention_backward(Stream& stream, const Tensor& dq, const Tensor& dkv, const Tensor& dout, const Tensor& out,
                          const Tensor& log_sum, const Tensor& q, const Tensor& kv, const Tensor& lengths,
                          const Attention& how) const override {
    return run(stream, &Ops::attention_backward, Out{dq}, Out{dkv}, In{dout}, In{out}, In{log_sum}, In{q}, In{kv},
               In{lengths}, how);
  }
  Cost attention_merge(Stream& stream, const Tensor& out, const Tensor& log_sum, const Tensor& part_out,
                       const Tensor& part_log_sum) const override {
    return run(stream, &Ops::attention_merge, Out{out, true}, Out{log_sum, true}, In{part_out}, In{part_log_sum});
  }
  Cost rotary(Stream& stream, const Tensor& out, const Tensor& x, const Rotary& how) const override {
    return run(stream, &Ops::rotary, Out{out}, In{x}, how);
  }
  Cost cross_entropy_max(Stream& stream, const Tensor& max, const Tensor& logits) const override {
    return run(stream, &Ops::cross_entropy_max, Out{max}, In{logits});
  }
  Cost cross_entropy_sums(Stream& stream, const Tensor& sums, const Tensor& logits, const Tensor& max,
                          const Tensor& labels, const CrossEntropy& how) const override {
    return run(stream, &Ops::cross_entropy_sums, Out{sums}, In{logits}, In{max}, In{labels}, how);
  }
  Cost cross_entropy_loss(Stream& stream, const Tensor& loss, const Tensor& sums, const Tensor& max,
                          const Tensor& labels, const CrossEntropy& how) const override {
    return run(stream, &Ops::cross_entropy_loss, Out{loss, true}, In{sums}, In{max}, In{labels}, how);
  }
  Cost label_matches(Stream& stream, const Tensor& matches, const Tensor& logits, const Tensor& max,
                     const Tensor& labels, const CrossEntropy& how) const override {
    return run(stream, &Ops::label_matches, Out{matches}, In{logits}, In{max}, In{labels}, how);
  }
  Cost count_correct(Stream& stream, const Tensor& correct, const Tensor& matches,
                     const Tensor& labels) const override {
    return run(stream, &Ops::count_correct, Out{correct, true}, In{matches}, In{labels});
  }
  Cost cross_entropy_backward(Stream& stream, const Tensor& dlogits, const Tensor& logits, const Tensor& max,
                              const Tensor& sums, const Tensor& labels, const Tensor& counts,
                              const CrossEntropy& how) const override {
    return run(stream, &Ops::cross_entropy_backward, Out{dlogits}, In{logits}, In{max}, In{sums}, In{labels},
               In{counts}, how);
  }
  Cost conv(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Conv& how) const override {
    return run(stream, &Ops::conv, Out{out}, In{x}, In{w}, how);
  }
  Cost conv_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w, const Conv& how,
                           Write write) const override {
    return run(stream, &Ops::conv_backward_input, Out{dx, write == Write::accumulate}, In{dy}, In{w}, how, write);
  }
  Cost conv_backward_weight(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Conv& how,
                            Write write) const override {
    return run(stream, &Ops::conv_backward_weight, Out{dw, write == Write::accumulate}, In{dy}, In{x}, how, write);
  }
  Cost channel_sums(Stream& stream, const Tensor& sums, const Tensor& x) const override {
    return run(stream, &Ops::channel_sums, Out{sums}, In{x});
  }
  Cost batch_norm(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& sums, const Tensor& gain,
                  const Tensor& bias, const BatchNorm& how) const override {
    return run(stream, &Ops::batch_norm, Out{out}, In{x}, In{sums}, In{gain}, In{bias}, how);
  }
  Cost batch_norm_backward_sums(Stream& stream, const Tensor& backward_sums, const Tensor& dy, const Tensor& x,
                                const Tensor& out, const Tensor& sums, const BatchNorm& how) const override {
    return run(stream, &Ops::batch_norm_backward_sums, Out{backward_sums}, In{dy}, In{x}, In{out}, In{sums}, how);
  }
  Cost batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& out,
                           const Tensor& sums, const Tensor& backward_sums, const Tensor& gain, const BatchNorm& how,
                           Write write) const override {
    return run(stream, &Ops::batch_norm_backward, Out{dx, write == Write::accumulate}, In{dy}, In{x}, In{out}, In{sums},
               In{backward_sums}, In{gain}, how, write);
  }
  Cost batch_norm_backward_parameters(Stream& stream, const Tensor& dgain, const Tensor& dbias,
                                      const Tensor& backward_sums) const override {
    return run(stream, &Ops::batch_norm_backward_parameters, Out{dgain, true}, Out{dbias, true}, In{backward_sums});
  }
  Cost update_averages(Stream& stream, const Tensor& averages, const Tensor& sums, double momentum) const override {
    return run(stream, &Ops::update_averages, Out{averages, true}, In{sums}, momentum);
  }
  Cost sums_of_averages(Stream& stream, const Tensor& sums, const Tensor& averages) const override {
    return run(stream, &Ops::sums_of_averages, Out{sums}, In{averages});
  }
  Cost add_relu(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) const override {
    return run(stream, &Ops::add_relu, Out{out}, In{a}, In{b});
  }
  Cost relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& out) const override {
    return run(stream, &Ops::relu_backward, Out{dx}, In{dy}, In{out});
  }
  Cost max_pool(Stream& stream, const Tensor& out, const Tensor& x, const Conv& how) const override {
    return run(stream, &Ops::max_pool, Out{out}, In{x}, how);
  }
  Cost max_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                         const Conv& how) const override {
    return run(stream, &Ops::max_pool_backward, Out{dx}, In{dy}, In{x}, how);
  }
  Cost sum_pixels(Stream& stream, const Tensor& out, const Tensor& x, double scale) const override {
    return run(stream, &Ops::sum_pixels, Out{out}, In{x}, scale);
  }
  Cost spread_pixels(Stream& stream, const Tensor& dx, const Tensor& dy, double scale) const override {
    return run(stream, &Ops::spread_pixels, Out{dx}, In{dy}, scale);
  }
  Cost move_block(Stream& stream, const Tensor& out, const Tensor& in, const BlockMove& how) const override {
    return run(stream, &Ops::move_block, Out{out, true}, In{in}, how);
  }
  Cost sum_of_squares(Stream& stream, const Tensor& sum, const Tensor& x) const override {
    return run(stream, &Ops::sum_of_squares, Out{sum, true}, In{x});
  }
  Cost step_scalars(Stream& stream, const Tensor& scalars, const Tensor& totals, const Tensor& settings,
                    double clip_norm) const override {
    return run(stream, &Ops::step_scalars, Out{scalars}, In{totals}, In{settings}, clip_norm);
  }
  Cost adamw(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& first_moment,
             const Tensor& second_moment, const Tensor& scalars, const AdamW& how) const override {
    return run(stream, &Ops::adamw, Out{values, true}, In{gradients}, Out{first_moment, true}, Out{second_moment, true},
               In{scalars}, how);
  }
  Cost sgd_momentum(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity,
                    const Tensor& scalars, const SgdMomentum& how) const override {
    return run(stream, &Ops::sgd_momentum, Out{values, true}, In{gradients}, Out{velocity, true}, In{scalars}, how);
  }
  Cost lars(Stream& stream, const Tensor& values, const Tensor& gradients, const Tensor& velocity, const Tensor& norms,
            const Tensor& scalars, const Lars& how) const override {
    return run(stream, &Ops::lars, Out{values, true}, In{gradients}, Out{velocity, true}, In{norms}, In{scalars}, how);
  }
  Cost lamb_moments(Stream& stream, const Tensor& squares, const Tensor& values, const Tensor& gradients,
                    const Tensor& first_moment, const Tensor& second_moment, const Tensor& scalars,
                    const Lamb& how) const override {
    return run(stream, &Ops::lamb_moments, Out{squares, true}, In{values}, In{gradients}, Out{first_moment, true},
               Out{second_moment, true}, In{scalars}, how);
  }
  Cost lamb_step(Stream& stream, const Tensor& values, const Tensor& first_moment, const Tensor& second_moment,
                 const Tensor& norms, const Tensor& scalars, const Lamb& how) const override {
    return run(stream, &Ops::lamb_step, Out{values, true}, In{first_moment}, In{second_moment}, In{norms}, In{scalars},
               how);
  }

 private:
  template <class... Parameters, class... Operands>
  Cost run(Stream& stream, Cost (Ops::*op)(Stream&, Parameters...) const, const Operands&... operands) const {
    if (!(is_bf16(operands) || ...)) return (inner_.*op)(stream, plain(operands)...);
    const Cost cost = ((*bills_).*op)(stream, plain(operands)...);  // checks them too
    Twins twins;
    const auto numbers = std::tuple{twins.of(operands)...};
    std::apply([&](const auto&... n) { (inner_.*op)(stream, n...); }, numbers);
    twins.round_results();
    return cost;
  }

  const Ops& inner_;
  std::unique_ptr<Ops> bills_;
};

}  // namespace

std::unique_ptr<Ops> with_emulated_bf16(const Ops& inner, std::int64_t attention_block) {
  return std::make_unique<EmulatedBf16>(inner, attention_block);
}

}  // namespace quadrille
