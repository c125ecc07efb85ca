// SPDX-License-Identifier: Apache-2.0
#include "training/engine.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace quadrille {

namespace {

// Time spent in a phase, on this rank's clock.
class PhaseClock {
 public:
  PhaseClock(Ledger& ledger, std::string_view name) : ledger_(ledger), name_(name), begin_(ledger.now()) {}
  ~PhaseClock() { ledger_.phase(name_, ledger_.now() - begin_); }
  PhaseClock(const PhaseClock&) = delete;
  PhaseClock& operator=(const PhaseClock&) = delete;

 private:
  Ledger& ledger_;
  std::string_view name_;
  double begin_;
};

void copy_ids(const std::vector<std::int32_t>& from, const Tensor& host, const Tensor& device, Stream& stream) {
  std::copy(from.begin(), from.end(), host.host<std::int32_t>().begin());
  stream.copy(device, host);
}

}  // namespace

Engine::Engine(const Workload& w, const Mesh& mesh, Device& device, const Ops& ops, Ledger& ledger,
               const Rehearsal* rehearsal)
    : workload_(w),
      mesh_(mesh),
      device_(device),
      stream_(device.make_stream()),
      ledger_(ledger),
      plan_(w.strategy, mesh),
      model_(describe_model(w.model, w.vocabulary)),
      parameters_(plan_),
      stage_(model_->build(parameters_, w.training.label_smoothing)),
      arena_(device, rehearsal ? rehearsal->arena_bytes : Arena::kUnbounded),
      context_{plan_, ops, *stream_, arena_, ledger_, w.training.dtype},
      evaluation_context_{plan_, ops, *stream_, arena_, evaluation_ledger_, w.training.dtype},
      rows_per_micro_batch_(w.training.micro_batch > 0 ? w.training.micro_batch * plan_.parts(Axis::batch)
                                                       : w.training.batch_size),
      exchange_(mesh, *stream_) {
  const std::int64_t rows = own_rows(rows_per_micro_batch_).count, tokens = model_->tokens();
  ids_ = device_.empty({rows, tokens}, DType::i32), labels_ = device_.empty({rows, tokens}, DType::i32);
  host_ids_ = host_->empty({rows, tokens}, DType::i32), host_labels_ = host_->empty({rows, tokens}, DType::i32);
  totals_ = device_.empty({3}, DType::f64);
  if (rehearsal) {
    require(rehearsal->owed.size() == parameters_.all().size(), "the rehearsal knew {} parameters, the model has {}",
            rehearsal->owed.size(), parameters_.all().size());
    for (std::size_t i = 0; i < rehearsal->owed.size(); ++i) parameters_.all()[i].owed = rehearsal->owed[i];
  } else {
    rehearse();
  }
  buckets_ = lay_out(parameters_, mesh_, device_, w.training.dtype, w.training.optimizer.decay_all);
  find_buckets_of_blocks();
  for (Reported& r : ring_) {
    r.scalars = device_.empty({kStepScalars}, DType::f64);
    r.host = host_->empty({kStepScalars}, DType::f64);
  }
  optimizer_ = make_optimizer(w.training.optimizer, ops, device_, *stream_, buckets_);
  if (device_.holds_numbers()) {
    PhaseClock clock(ledger_, "weights");
    for (const Parameter& p : parameters_.all()) initialise(p, plan_, w.seed);
  }
}

Slice Engine::own_rows(std::int64_t rows) const {
  const Dims dims = {{Axis::batch, rows}};
  return plan_.slice(dims[0], plan_.at_rest(dims));
}

// One forward with numbers that do not exist: where each parameter is lent shows on which mesh axes it will owe.
void Engine::rehearse() {
  require(!device_.holds_numbers(), "a rehearsal belongs on a counting device");
  for (Parameter& p : parameters_.all()) p.value = device_.empty(p.shape, workload_.training.dtype);
  MicroBatch micro;
  micro.rows = rows_per_micro_batch_, micro.tokens = model_->tokens();
  micro.ids = ids_, micro.labels = labels_;
  micro.loss = totals_.rows(0, 2);
  stage_.forward(evaluation_context_, micro);
  stage_.note_debts();
  for (const Parameter& p : parameters_.all()) require(p.used, "parameter {} of the model is never used", p.name);
}

Rehearsal Engine::rehearsal() const {
  Rehearsal r{{}, arena_.bytes_peak()};
  for (const Parameter& p : parameters_.all()) r.owed.push_back(p.owed);
  return r;
}

void Engine::find_buckets_of_blocks() {
  for (const auto& block : stage_.blocks()) {
    const auto b =
        std::find_if(buckets_.begin(), buckets_.end(), [&](const Bucket& k) { return k.name == block->bucket(); });
    bucket_of_block_.push_back(b == buckets_.end() ? -1 : static_cast<int>(b - buckets_.begin()));
  }
}

void Engine::zero_gradients() {
  for (const Bucket& b : buckets_) stream_->zero(b.gradients);
  stream_->zero(totals_);
}

Batch Engine::rows_of(const Dataset* data, std::int64_t step, std::int64_t micro, std::int64_t rows) const {
  const Slice own = own_rows(rows);
  if (!data) return {own.first, own.count, model_->tokens(), 0, {}, {}};
  return training_batch(*data, workload_.seed, step, workload_.training.batch_size,
                        {micro * rows + own.first, own.count});
}

MicroBatch Engine::feed(const Batch& batch, std::int64_t rows, std::int64_t first_row, bool training) {
  MicroBatch micro;
  micro.first_row = first_row, micro.rows = rows, micro.tokens = model_->tokens();
  micro.seed = workload_.seed, micro.training = training;
  micro.loss = totals_.rows(0, 2);
  micro.ids = ids_, micro.labels = labels_;
  if (device_.holds_numbers()) {
    require(batch.rows == ids_.shape()[0] && batch.tokens == micro.tokens,
            "a batch of {} rows of {} tokens came where {} of {} were wanted", batch.rows, batch.tokens,
            ids_.shape()[0], micro.tokens);
    copy_ids(batch.ids, host_ids_, ids_, *stream_);
    copy_ids(batch.labels, host_labels_, labels_, *stream_);
  }
  return micro;
}

void Engine::step(const Dataset* data, std::int64_t step) {
  latest_ = 1 - latest_;
  ring_[latest_].begin = stream_->record();
  zero_gradients();
  for (std::int64_t m = 0; m < micro_batches(); ++m) {
    MicroBatch micro;
    {
      PhaseClock clock(ledger_, "data");
      micro =
          feed(rows_of(data, step, m, rows_per_micro_batch_), rows_per_micro_batch_, m * rows_per_micro_batch_, true);
      micro.step = step;
    }
    {
      PhaseClock clock(ledger_, "forward");
      stage_.forward(context_, micro);
    }
    PhaseClock clock(ledger_, "backward");
    stage_.backward(m + 1 == micro_batches() ? &exchange_ : nullptr, buckets_, bucket_of_block_);
  }
  finish_step(step);
}

void Engine::finish_step(std::int64_t step) {
  const Ops& ops = context_.ops;
  Reported& r = ring_[latest_];
  {
    PhaseClock clock(ledger_, "exchange");
    exchange_.finish();
    for (const Bucket& b : buckets_)
      for (const Segment& s : b.segments)
        if (s.counted) ops.sum_of_squares(*stream_, totals_.rows(2, 1), b.gradients.rows(s.first, s.count));
    sum_over(context_, totals_, mesh_.all());
    ops.step_scalars(*stream_, r.scalars, totals_, rate_at(workload_.training.rate, step + 1),
                     workload_.training.clip_norm, step + 1);
  }
  PhaseClock clock(ledger_, "optimizer");
  for (std::size_t k = 0; k < buckets_.size(); ++k) optimizer_->step(*stream_, buckets_[k], k, r.scalars);
  if (device_.holds_numbers()) stream_->copy(r.host, r.scalars);
  r.end = stream_->record();
  r.step = step + 1;
}

std::optional<StepReport> Engine::report() {
  Reported& r = ring_[latest_];
  if (r.step == 0) return {};
  r.end->block_host();
  const auto v = r.host.host<double>();
  const double count = v[kCount];
  StepReport report{r.step,          v[kLossSum] / count,           v[kGradientNorm], v[kRate], count,
                    v[kFinite] == 1, r.end->seconds_since(*r.begin)};
  r.step = 0;
  return report;
}

EvaluationReport Engine::evaluate(const Dataset* data) {
  const double begin = evaluation_ledger_.now();
  stream_->zero(totals_);
  const std::int64_t rows = rows_per_micro_batch_, windows = data ? data->size() : rows;
  const Slice own = own_rows(rows);
  for (std::int64_t first = 0; first < windows; first += rows) {
    const Batch batch =
        data ? evaluation_batch(*data, first, own) : Batch{own.first, own.count, model_->tokens(), 0, {}, {}};
    stage_.forward(evaluation_context_, feed(batch, rows, first, false));
  }
  sum_over(evaluation_context_, totals_, mesh_.all());
  EvaluationReport report;
  if (!data) return report;
  const Tensor host = host_->empty({3}, DType::f64);
  stream_->copy(host, totals_);
  stream_->synchronize();
  report.loss_sum = host.host<double>()[0];
  report.labels = host.host<double>()[1];
  report.units = data->units();
  report.quality = report.loss_sum / report.units;
  report.seconds = evaluation_ledger_.now() - begin;
  return report;
}

MemoryReport Engine::memory() const {
  MemoryReport m;
  for (const Bucket& b : buckets_) m.weights += b.values.bytes(), m.gradients += b.gradients.bytes();
  m.optimizer = optimizer_->bytes();
  m.activations = arena_.bytes_peak();
  return m;
}

}  // namespace quadrille
