// SPDX-License-Identifier: Apache-2.0
#include "training/optimizer.h"

#include "core/error.h"

namespace quadrille {

namespace {

// One zeroed tensor beside what this rank owns of each bucket.
std::vector<Tensor> beside(const std::vector<Bucket>& buckets, Device& device, Stream& stream) {
  std::vector<Tensor> state;
  for (const Bucket& b : buckets) {
    state.push_back(device.empty({b.owned_count}, wide(b.dtype)));
    stream.zero(state.back());
  }
  return state;
}

std::int64_t bytes_of(const std::vector<Tensor>& tensors) {
  std::int64_t n = 0;
  for (const Tensor& t : tensors) n += t.bytes();
  return n;
}

// What all kinds have: options, ops, and so many zeroed tensors beside each bucket.
class WithState : public Optimizer {
 public:
  WithState(const OptimizerConfig& c, const Ops& ops, Device& device, Stream& stream,
            const std::vector<Bucket>& buckets, int states)
      : config_(c), ops_(ops) {
    for (int i = 0; i < states; ++i) state_.push_back(beside(buckets, device, stream));
  }
  std::int64_t bytes() const override {
    std::int64_t n = 0;
    for (const auto& tensors : state_) n += bytes_of(tensors);
    return n;
  }

 protected:
  // Of one run of a bucket; empty where none is kept.
  Tensor state(std::size_t which, std::size_t bucket, const Owned& o) const {
    return which < state_.size() ? state_[which][bucket].rows(o.first, o.values.count()) : Tensor();
  }
  double decay_of(const Owned& o) const { return o.decays ? config_.weight_decay : 0; }
  const OptimizerConfig& config() const { return config_; }
  const Ops& ops() const { return ops_; }

 private:
  OptimizerConfig config_;
  const Ops& ops_;
  std::vector<std::vector<Tensor>> state_;
};

class AdamOptimizer : public WithState {
 public:
  using WithState::WithState;
  void step(Stream& stream, const Bucket& b, std::size_t k, const Tensor& scalars) override {
    for (const Owned& o : b.owned)
      ops().adamw(stream, o.values, o.gradients, state(0, k, o), state(1, k, o), scalars,
                  {config().beta1, config().beta2, config().epsilon, decay_of(o), config().kind == "adam"});
  }
};

class SgdOptimizer : public WithState {
 public:
  using WithState::WithState;
  void step(Stream& stream, const Bucket& b, std::size_t k, const Tensor& scalars) override {
    for (const Owned& o : b.owned)
      ops().sgd_momentum(stream, o.values, o.gradients, state(0, k, o), scalars,
                         {config().momentum, decay_of(o), config().nesterov});
  }
};

// Knows for each run the norms of the whole parameter it belongs to.
class WithNorms : public WithState {
 public:
  WithNorms(const OptimizerConfig& c, const Ops& ops, Device& device, Stream& stream,
            const std::vector<Bucket>& buckets, int states, std::int64_t parameters)
      : WithState(c, ops, device, stream, buckets, states), norms_(device.empty({parameters, 2}, DType::f64)) {}
  Tensor norms() const override { return norms_; }
  std::int64_t bytes() const override { return WithState::bytes() + norms_.bytes(); }

 protected:
  // Where the squares of values (0) or of what moves them (1) of this run's parameter are summed.
  Tensor squares(const Owned& o, std::int64_t which) const { return norms_.flat().rows(2 * o.parameter + which, 1); }
  // Of a run that is scaled; empty where the ratio is 1.
  Tensor norms_of(const Owned& o) const { return o.decays ? norms_.flat().rows(2 * o.parameter, 2) : Tensor(); }
  static bool measured(const Owned& o) { return o.decays && o.counted; }

 private:
  Tensor norms_;
};

class LarsOptimizer : public WithNorms {
 public:
  using WithNorms::WithNorms;
  void measure(Stream& stream, const Bucket& b, std::size_t, const Tensor&) override {
    for (const Owned& o : b.owned) {
      if (!measured(o)) continue;
      ops().sum_of_squares(stream, squares(o, 0), o.values);
      ops().sum_of_squares(stream, squares(o, 1), o.gradients);
    }
  }
  void step(Stream& stream, const Bucket& b, std::size_t k, const Tensor& scalars) override {
    for (const Owned& o : b.owned)
      ops().lars(stream, o.values, o.gradients, state(0, k, o), norms_of(o), scalars,
                 {config().momentum, decay_of(o), config().trust, config().epsilon, config().nesterov,
                  config().scaled_momentum});
  }
};

class LambOptimizer : public WithNorms {
 public:
  using WithNorms::WithNorms;
  void measure(Stream& stream, const Bucket& b, std::size_t k, const Tensor& scalars) override {
    for (const Owned& o : b.owned) {
      if (measured(o)) ops().sum_of_squares(stream, squares(o, 0), o.values);
      ops().lamb_moments(stream, measured(o) ? squares(o, 1) : Tensor(), o.values, o.gradients, state(0, k, o),
                         state(1, k, o), scalars, options(o));
    }
  }
  void step(Stream& stream, const Bucket& b, std::size_t k, const Tensor& scalars) override {
    for (const Owned& o : b.owned)
      ops().lamb_step(stream, o.values, state(0, k, o), state(1, k, o), norms_of(o), scalars, options(o));
  }

 private:
  Lamb options(const Owned& o) const {
    return {config().beta1, config().beta2, config().epsilon, decay_of(o), config().bias_correction};
  }
};

}  // namespace

void Optimizer::measure(Stream&, const Bucket&, std::size_t, const Tensor&) {}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& c, const Ops& ops, Device& device, Stream& stream,
                                          const std::vector<Bucket>& buckets, std::int64_t parameters) {
  const auto made = [&]<class Kind>(int states, auto... more) {
    return std::make_unique<Kind>(c, ops, device, stream, buckets, states, more...);
  };
  if (c.kind == "adamw" || c.kind == "adam") return made.template operator()<AdamOptimizer>(2);
  if (c.kind == "sgd") return made.template operator()<SgdOptimizer>(c.momentum > 0 ? 1 : 0);
  if (c.kind == "lars") return made.template operator()<LarsOptimizer>(1, parameters);
  if (c.kind == "lamb") return made.template operator()<LambOptimizer>(2, parameters);
  fail("unknown optimizer \"{}\": use adamw, adam, lamb, lars or sgd", c.kind);
}

}  // namespace quadrille
