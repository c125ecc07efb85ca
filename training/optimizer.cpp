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

class AdamWOptimizer : public Optimizer {
 public:
  AdamWOptimizer(const OptimizerConfig& c, const Ops& ops, Device& device, Stream& stream,
                 const std::vector<Bucket>& buckets)
      : config_(c), ops_(ops), first_(beside(buckets, device, stream)), second_(beside(buckets, device, stream)) {}
  void step(Stream& stream, const Bucket& b, std::size_t k, const Tensor& scalars) override {
    for (const Owned& o : b.owned)
      ops_.adamw(stream, o.values, o.gradients, first_[k].rows(o.first, o.values.count()),
                 second_[k].rows(o.first, o.values.count()), scalars,
                 {config_.beta1, config_.beta2, config_.epsilon, o.decays ? config_.weight_decay : 0});
  }
  std::int64_t bytes() const override { return bytes_of(first_) + bytes_of(second_); }

 private:
  OptimizerConfig config_;
  const Ops& ops_;
  std::vector<Tensor> first_, second_;
};

class SgdOptimizer : public Optimizer {
 public:
  SgdOptimizer(const OptimizerConfig& c, const Ops& ops, Device& device, Stream& stream,
               const std::vector<Bucket>& buckets)
      : config_(c), ops_(ops) {
    if (c.momentum > 0) velocity_ = beside(buckets, device, stream);
  }
  void step(Stream& stream, const Bucket& b, std::size_t k, const Tensor& scalars) override {
    for (const Owned& o : b.owned)
      ops_.sgd_momentum(stream, o.values, o.gradients,
                        velocity_.empty() ? Tensor() : velocity_[k].rows(o.first, o.values.count()), scalars,
                        {config_.momentum, o.decays ? config_.weight_decay : 0, config_.nesterov});
  }
  std::int64_t bytes() const override { return bytes_of(velocity_); }

 private:
  OptimizerConfig config_;
  const Ops& ops_;
  std::vector<Tensor> velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& c, const Ops& ops, Device& device, Stream& stream,
                                          const std::vector<Bucket>& buckets) {
  if (c.kind == "adamw") return std::make_unique<AdamWOptimizer>(c, ops, device, stream, buckets);
  if (c.kind == "sgd") return std::make_unique<SgdOptimizer>(c, ops, device, stream, buckets);
  fail("unknown optimizer \"{}\": use adamw or sgd", c.kind);
}

}  // namespace quadrille
