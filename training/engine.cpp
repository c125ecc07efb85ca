// SPDX-License-Identifier: Apache-2.0
#include "training/engine.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "parallelism/courier.h"

namespace quadrille {

namespace {

// Time that this rank's own thread spends, whatever its device does meanwhile.
class HostClock {
 public:
  HostClock(Ledger& ledger, std::string_view name) : ledger_(ledger), name_(name), begin_(ledger.now()) {}
  ~HostClock() { ledger_.phase(name_, ledger_.now() - begin_); }
  HostClock(const HostClock&) = delete;
  HostClock& operator=(const HostClock&) = delete;

 private:
  Ledger& ledger_;
  std::string_view name_;
  double begin_;
};

class Range {
 public:
  Range(Stream& stream, const std::string& name) : stream_(stream) { stream_.begin_range(name); }
  ~Range() { stream_.end_range(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  Stream& stream_;
};

void copy_field(const Batch& batch, const Field& field, const Tensor& host) {
  const auto put = [&](const auto& from, auto to) {
    require(from.size() == to.size(), "a batch with {} numbers of \"{}\" came where {} were wanted", from.size(),
            field.name, to.size());
    std::copy(from.begin(), from.end(), to.begin());
  };
  if (field.type == DType::i32)
    put(batch.integers(field.name), host.host<std::int32_t>());
  else
    put(batch.numbers(field.name), host.host<float>());
}

Tensor room_for(const Carried& c, Context& context, End end) {
  return context.arena.empty(context.plan.shape(c.dims, c.states), context.dtype, end);
}

// Room for `rows` rows of each field.
std::vector<Tensor> room_for(const Fields& fields, std::int64_t rows, Device& device) {
  std::vector<Tensor> room;
  for (const Field& f : fields) {
    std::vector<std::int64_t> extents = {rows};
    extents.insert(extents.end(), f.shape.extents().begin(), f.shape.extents().end());
    room.push_back(device.empty(Shape(extents), f.type));
  }
  return room;
}

}  // namespace

Engine::Engine(const Workload& w, const Mesh& mesh, Device& device, const Ops& ops, Ledger& ledger,
               const Rehearsal* rehearsal)
    : workload_(w),
      mesh_(mesh),
      device_(device),
      stream_(device.make_stream()),
      host_(device.host_side()),
      ledger_(ledger),
      plan_(w.strategy, mesh),
      model_(describe_model(w.model, w.vocabulary)),
      parameters_(plan_),
      blocks_(model_->build(parameters_, w.training.label_smoothing)),
      arena_(device, rehearsal ? rehearsal->arena_bytes : Arena::kUnbounded),
      context_{plan_, ops, *stream_, arena_, ledger_, w.training.dtype, w.training.tf32},
      evaluation_context_{plan_, ops, *stream_, arena_, evaluation_ledger_, w.training.dtype, w.training.tf32},
      rows_per_micro_batch_(w.training.micro_batch > 0 ? w.training.micro_batch * plan_.parts(Axis::batch)
                                                       : w.training.batch_size) {
  if (rehearsal) rehearsal_ = *rehearsal;
  parameters_.open_statistics(device_, *stream_);
  open_losses();
  open_pipeline();
  // Keys and values that travel round pass from neighbour to neighbour.
  if (plan_.context().attention == KeyExchange::ring && plan_.context_axes() != 0)
    mesh_.along(plan_.context_axes()).prepare_passing();
  if (!rehearsal) rehearse();
  require(rehearsal_.owed.size() == parameters_.all().size(), "the rehearsal knew {} parameters, the model has {}",
          rehearsal_.owed.size(), parameters_.all().size());
  for (std::size_t i = 0; i < rehearsal_.owed.size(); ++i) parameters_.all()[i].owed = rehearsal_.owed[i];
  weights_ = std::make_unique<Weights>(parameters_, usage(), context_, w.training.optimizer);
  settings_ = device_.empty({2}, DType::f64);
  scalars_ = device_.empty({kStepScalars}, DType::f64);
  for (Reported& r : ring_) {
    r.settings = host_->empty({2}, DType::f64);
    r.scalars = host_->empty({kStepScalars}, DType::f64);
  }
  optimizer_ = make_optimizer(w.training.optimizer, ops, device_, *stream_, weights_->buckets(),
                              static_cast<std::int64_t>(parameters_.all().size()));
  if (device_.holds_numbers()) {
    HostClock clock(ledger_, "weights");
    weights_->change_all([&](const Parameter& p) { initialise(p, plan_, w.seed); });
    settle_accounts();
  }
}

// Cuts the row of blocks into runs, lists this rank's tasks and makes room for what they read.
void Engine::open_pipeline() {
  const Pipeline& pipeline = plan_.pipeline();
  runs_ = cut_into_runs(blocks_, plan_.stages() * pipeline.chunks);
  for (int c = 0; c < pipeline.chunks; ++c) {
    const Slice own = runs_[static_cast<std::size_t>(run_of(c))];
    stages_.emplace_back(blocks_, static_cast<int>(own.first), static_cast<int>(own.count));
  }
  tasks_ = tasks_of(pipeline.schedule, plan_.stage(), plan_.stages(), pipeline.chunks, micro_batches());
  if (plan_.stages() > 1) onwards_.emplace(plan_, 1, ledger_), backwards_.emplace(plan_, -1, ledger_);
  open_fields();
}

void Engine::open_fields() {
  fields_ = model_->fields();
  const std::int64_t rows = own_rows(rows_per_micro_batch_).count;
  loads_ahead_ = may_replay() || losses_.size() > 1;
  const std::int64_t under_way = loads_ahead_ ? micro_batches() : in_flight(tasks_);
  for (std::int64_t i = 0; i < under_way; ++i) fed_.push_back(room_for(fields_, rows, device_));
  const std::int64_t staged = device_.holds_numbers() ? 2 * micro_batches() * plan_.pipeline().chunks : 0;
  for (std::int64_t i = 0; i < staged; ++i) staged_.push_back({room_for(fields_, rows, *host_), {}});
  if (const RowsOfSteps rows_taken = rows_of_steps(); !rows_taken.rows.empty())
    training_rows_.emplace(rows_taken, workload_.data_threads);
}

void Engine::open_losses() {
  losses_ = model_->losses();
  const auto further = static_cast<std::int64_t>(losses_.size()) - 1;
  totals_ = device_.empty({3 + 2 * further}, DType::f64);
  // Kept: to give pinned memory back waits for all devices, also for those of ranks that wait for this one.
  host_totals_ = host_->empty({3 + 2 * further}, DType::f64);
  if (further == 0) return;
  counts_ = device_.empty({2 * further}, DType::f64);
  for (Reported& r : ring_) r.counts = host_->empty({2 * further}, DType::f64);
}

LossTotals Engine::loss(std::size_t number) const {
  const auto further = static_cast<std::int64_t>(number) - 1;
  if (number == 0) return {losses_[0], totals_.rows(0, 2)};
  return {losses_[number], totals_.rows(3 + 2 * further, 2), counts_.rows(2 * further, 2)};
}

PipelineReport Engine::pipeline() const {
  const Pipeline& p = plan_.pipeline();
  PipelineReport report{plan_.stages(),
                        p.chunks,
                        std::string(name_of(p.schedule)),
                        {},
                        micro_batches(),
                        bubble_share(plan_.stages(), p.chunks, micro_batches())};
  for (const Slice& run : runs_) {
    std::int64_t layers = 0;
    for (std::int64_t b = run.first; b < run.end(); ++b) layers += blocks_[static_cast<std::size_t>(b)]->is_layer();
    report.layers.push_back(layers);
  }
  return report;
}

Usage Engine::usage() const {
  Usage u{rehearsal_.blocks_of, {}};
  for (std::size_t b = 0; b < blocks_.size(); ++b) u.stage_of.push_back(stage_of(static_cast<int>(b)));
  return u;
}

int Engine::stage_of(int block) const {
  const auto run = std::find_if(runs_.begin(), runs_.end(), [&](const Slice& r) { return block < r.end(); });
  return static_cast<int>(run - runs_.begin()) % plan_.stages();
}

bool Engine::over_several_stages(std::size_t parameter) const {
  const std::vector<int>& users = rehearsal_.blocks_of[parameter];
  return std::any_of(users.begin(), users.end(), [&](int b) { return stage_of(b) != stage_of(users.front()); });
}

bool Engine::has_layers() const {
  return std::any_of(stages_.begin(), stages_.end(), [this](const Stage& stage) {
    return std::any_of(stage.blocks().begin(), stage.blocks().end(),
                       [this](int b) { return blocks_[static_cast<std::size_t>(b)]->is_layer(); });
  });
}

Slice Engine::own_rows(std::int64_t rows) const {
  const Dims dims = {{Axis::batch, rows}};
  return plan_.slice(dims[0], plan_.at_rest(dims));
}

MeshAxes Engine::axes_of_rows() const {
  MeshAxes axes = 0;
  for (int m = 0; m < mesh_.axes(); ++m)
    if (plan_.rests_on(Axis::batch, m)) axes |= bit(m);
  return axes;
}

// One forward of the whole model with numbers that do not exist: where each parameter is lent shows on which mesh axes
// it will owe, and which blocks use it which stages will hold it.
void Engine::rehearse() {
  require(!device_.holds_numbers(), "a rehearsal belongs on a counting device");
  Arena arena(device_, Arena::kUnbounded);
  Context context{
      plan_, context_.ops, *stream_, arena, evaluation_ledger_, workload_.training.dtype, workload_.training.tf32};
  std::unordered_map<const Parameter*, std::size_t> number;
  for (Parameter& p : parameters_.all()) {
    number.emplace(&p, number.size());
    p.value = device_.empty(p.shape, workload_.training.dtype);
  }
  rehearsal_.blocks_of.resize(parameters_.all().size());
  const MicroBatch micro = feed(nullptr, rows_per_micro_batch_, 0, true, 0);
  Flow flow;
  MicroBatch blind = micro;  // for the blocks of stages that are given no rows
  blind.fields.clear();
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    rehearsal_.into.push_back(flow);
    rehearsal_.into.back().hidden.numbers = rehearsal_.into.back().memory.numbers = {};
    const bool looks = b == 0 || b + 1 == blocks_.size() || model_->layers_read_fields();
    Tape tape(context, looks ? micro : blind, Purpose::look);
    flow = give(tape, blocks_[b]->forward(tape, take(tape, flow)));
    for (const Parameter* p : tape.note_debts()) {
      auto& users = rehearsal_.blocks_of[number.at(p)];
      if (users.empty() || users.back() != static_cast<int>(b)) users.push_back(static_cast<int>(b));
    }
  }
  for (Parameter& p : parameters_.all()) {
    require(!rehearsal_.blocks_of[number.at(&p)].empty(), "parameter {} of the model is never used", p.name);
    rehearsal_.owed.push_back(p.owed);
    p.value = {};
  }
}

// The first chunk of this rank that looks at data; -1: none does.
int Engine::first_look() const {
  for (int c = 0; c < plan_.pipeline().chunks; ++c)
    if (looks_at_rows(run_of(c))) return c;
  return -1;
}

RowsOfSteps Engine::rows_of_steps() const {
  RowsOfSteps of{workload_.seed, workload_.training.batch_size, workload_.training.steps, {}};
  const Slice own = own_rows(rows_per_micro_batch_);
  const auto add = [&](std::int64_t micro_batch) {
    of.rows.push_back({micro_batch * rows_per_micro_batch_ + own.first, own.count});
  };
  if (loads_ahead_ && first_look() >= 0)
    for (std::int64_t m = 0; m < micro_batches(); ++m) add(m);
  if (!loads_ahead_)
    for (const Task& task : tasks_)
      if (task.kind == Task::Kind::forward && looks_at_rows(run_of(task.chunk))) add(task.micro_batch);
  return of;
}

template <class Feeding>
const Batch* Engine::wait_for(Feeding& feeding) {
  const double begin = ledger_.now();
  const Batch& batch = feeding.next();
  ledger_.entry({Entry::Kind::wait, "data", {}, {}, begin, ledger_.now()});
  return &batch;
}

MicroBatch Engine::feed(const Batch* read, std::int64_t rows, std::int64_t first_row, bool training, int slot) {
  const Fed& fed = fed_[static_cast<std::size_t>(slot) % fed_.size()];
  MicroBatch micro;
  micro.first_row = first_row, micro.rows = rows;
  micro.seed = workload_.seed, micro.training = training;
  for (std::size_t k = 0; k < losses_.size(); ++k) micro.losses.push_back(loss(k));
  if (!training) micro.correct = totals_.rows(2, 1);
  for (std::size_t f = 0; f < fields_.size(); ++f) micro.fields.emplace_back(fields_[f].name, fed[f]);
  if (device_.holds_numbers() && read) {
    Staged& staged = staged_[next_staged_++ % staged_.size()];
    if (staged.copied) staged.copied->block_host();
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      copy_field(*read, fields_[f], staged.host[f]);
      stream_->copy(fed[f], staged.host[f]);
    }
    staged.copied = stream_->record();
  }
  return micro;
}

MicroBatch Engine::next_rows(const Dataset* data, std::int64_t step, int micro_batch, int chunk) {
  const Batch* batch = nullptr;
  if (data && looks_at_rows(run_of(chunk))) {
    phase("wait for data", [&] { batch = wait_for(*training_rows_); });
    // A later chunk of this rank takes up the same rows again.
    if (watch_samples_ && chunk == first_look())
      watch_samples_({step + 1, micro_batch, batch->first_row, batch->samples});
  }
  MicroBatch micro;
  phase("data",
        [&] { micro = feed(batch, rows_per_micro_batch_, micro_batch * rows_per_micro_batch_, true, micro_batch); });
  micro.step = step;
  if (batch && losses_.size() > 1) {
    const auto counted = [&](const std::string& labels) {
      return static_cast<double>(std::ranges::count_if(batch->integers(labels), [](auto label) { return label >= 0; }));
    };
    const auto counts = ring_[latest_].counts.host<double>();
    for (std::size_t k = 1; k < losses_.size(); ++k)
      counts[2 * k - 2] += counted(losses_[0]), counts[2 * k - 1] += counted(losses_[k]);
  }
  return micro;
}

// All rows of the step go to the device, and with them how many labels count.
void Engine::load_rows(const Dataset* data, std::int64_t step) {
  const bool counts = losses_.size() > 1 && device_.holds_numbers();
  if (counts) std::ranges::fill(ring_[latest_].counts.host<double>(), 0.0);
  for (int m = 0; m < static_cast<int>(micro_batches()); ++m)
    loaded_.push_back(next_rows(data, step, m, std::max(first_look(), 0)));
  if (counts) stream_->copy(counts_, ring_[latest_].counts);
}

// What a run's first block takes: nothing, or what the run before it made, which another stage sends.
Flow Engine::take_in(Context& context, int run) {
  if (run == 0) return {};
  const Slice own = runs_[static_cast<std::size_t>(run)];
  // A run without blocks passes on what the next one takes.
  Flow flow = rehearsal_.into[static_cast<std::size_t>(own.first)];
  for (Carried* c : {&flow.hidden, &flow.memory})
    if (*c) {
      c->numbers = room_for(*c, context, End::low);
      onwards_->receive(c->numbers, *stream_);
    }
  return flow;
}

void Engine::hand_on(Flow flow, int run) {
  if (run + 1 == static_cast<int>(runs_.size())) return;
  for (Carried* c : {&flow.hidden, &flow.memory})
    if (*c) onwards_->send(std::move(c->numbers), *stream_);
}

void Engine::settle_channels() {
  for (auto* channel : {&onwards_, &backwards_})
    if (*channel) (*channel)->settle(*stream_);
}

void Engine::forward(const Task& task, const Dataset* data, std::int64_t step) {
  const MicroBatch micro = loaded_.empty() ? next_rows(data, step, task.micro_batch, task.chunk)
                                           : loaded_[static_cast<std::size_t>(task.micro_batch)];
  phase("forward", [&] {
    const int run = run_of(task.chunk);
    Flow in = take_in(context_, run);
    hand_on(stages_[static_cast<std::size_t>(task.chunk)].forward(context_, micro, *weights_, std::move(in),
                                                                  task.micro_batch),
            run);
  });
}

void Engine::backward(const Task& task) {
  const int run = run_of(task.chunk);
  FlowGradient gradient;
  if (run + 1 < static_cast<int>(runs_.size())) {
    const Flow& out = rehearsal_.into[static_cast<std::size_t>(runs_[static_cast<std::size_t>(run)].end())];
    gradient = {receive_gradient(out.hidden), receive_gradient(out.memory)};
  }
  gradient = stages_[static_cast<std::size_t>(task.chunk)].backward(
      context_, *weights_, std::move(gradient), task.micro_batch, task.micro_batch + 1 == micro_batches());
  if (run == 0) return;
  const Flow& in = rehearsal_.into[static_cast<std::size_t>(runs_[static_cast<std::size_t>(run)].first)];
  if (in.hidden) backwards_->send(std::move(gradient.hidden), *stream_);
  if (!in.memory) return;
  if (!gradient.memory) {  // no block from here on looks at it
    gradient.memory = room_for(in.memory, context_, End::high);
    stream_->zero(gradient.memory);
  }
  backwards_->send(std::move(gradient.memory), *stream_);
}

// Of what this stage handed on.
Tensor Engine::receive_gradient(const Carried& of) {
  if (!of) return {};
  Tensor gradient = room_for(of, context_, End::high);
  backwards_->receive(gradient, *stream_);
  return gradient;
}

void Engine::step(const Dataset* data, std::int64_t step) {
  latest_ = 1 - latest_;
  Reported& r = ring_[latest_];
  r.begin = stream_->record();
  send_settings(step);
  if (data && training_rows_) training_rows_->begin(*data, step);
  loaded_.clear();
  if (loads_ahead_) load_rows(data, step);
  constexpr std::int64_t kStepsBefore = 2;  // in which libraries choose their ways
  const bool replays = may_replay() && steps_done_ >= kStepsBefore;
  if (!replays || !replay_step()) work_of_step(data, step);
  ++steps_done_;
  if (device_.holds_numbers()) stream_->copy(r.scalars, scalars_);
  r.end = stream_->record();
  r.step = step + 1;
}

// The work of a step that is on the device's side of it.
void Engine::work_of_step(const Dataset* data, std::int64_t step) {
  weights_->zero_gradients();
  stream_->zero(totals_);
  // Where the losses are: what a further one's gradient is scaled by.
  if (losses_.size() > 1 && is_last(run_of(plan_.pipeline().chunks - 1))) sum_over(context_, counts_, axes_of_rows());
  for (const Task& task : tasks_) {
    if (task.kind == Task::Kind::forward)
      forward(task, data, step);
    else
      phase("backward", [&] { backward(task); });
  }
  finish_step();
}

// Messages are not kept: their deadlines and accounts are the host's work.
bool Engine::may_replay() const {
  return workload_.replay && can_keep_ && rehearsal_.same_every_step && mesh_.world().size() == 1 &&
         !ledger_.keeps_entries();
}

// With the rows on the device everything else is one call. False: the step is still to be done.
bool Engine::replay_step() {
  const bool first = !replay_;
  if (first) {
    const Work before = ledger_.work();
    keeping_ = true;
    replay_ = stream_->keep_work([&] { work_of_step(nullptr, 0); });
    keeping_ = false;
    replayed_work_ = ledger_.work() - before;
  }
  if (!replay_) {
    can_keep_ = false;
    return false;
  }
  if (!first) ledger_.work(replayed_work_);
  phase("replayed", [&] { replay_->run(); });
  ++replayed_steps_;
  return true;
}

template <class Work>
void Engine::phase(std::string_view name, Work&& work) {
  if (keeping_) return work();
  const Range range(*stream_, std::string(name));
  std::unique_ptr<Event> begin = stream_->record();
  work();
  ring_[latest_].phases.push_back({name, std::move(begin), stream_->record()});
}

// The host's copy is this step's own until the report of it, which waits for the step's end.
void Engine::send_settings(std::int64_t step) {
  if (!device_.holds_numbers()) return;
  Reported& r = ring_[latest_];
  const auto numbers = r.settings.host<double>();
  numbers[0] = rate_at(workload_.training.rate, step + 1);
  numbers[1] = static_cast<double>(step + 1);
  stream_->copy(settings_, r.settings);
}

// Nothing is under way: what the courier carried belongs to this rank's bill.
void Engine::settle_accounts() {
  if (Courier* courier = mesh_.courier()) courier->settle_accounts(ledger_);
  mesh_.world().settle();
}

void Engine::finish_step() {
  const Ops& ops = context_.ops;
  phase("exchange", [&] {
    settle_channels();
    weights_->finish();
    for (const Bucket& b : weights_->buckets())
      for (const Owned& o : b.owned)
        if (o.counted) ops.sum_of_squares(*stream_, totals_.rows(2, 1), o.gradients);
    sum_over(context_, totals_, mesh_.all());
    ops.step_scalars(*stream_, scalars_, totals_, settings_, workload_.training.clip_norm);
  });
  std::vector<Bucket>& buckets = weights_->buckets();
  if (const Tensor norms = optimizer_->norms()) {
    phase("optimizer", [&] {
      stream_->zero(norms);
      for (std::size_t k = 0; k < buckets.size(); ++k) optimizer_->measure(*stream_, buckets[k], k, scalars_);
    });
    phase("exchange", [&] { sum_over(context_, norms, mesh_.all()); });
  }
  phase("optimizer", [&] {
    for (std::size_t k = 0; k < buckets.size(); ++k) optimizer_->step(*stream_, buckets[k], k, scalars_);
  });
  phase("exchange", [&] {
    weights_->publish();
    settle_accounts();
  });
}

std::optional<StepReport> Engine::report(Reported& r) {
  if (r.step == 0) return {};
  r.end->block_host();
  for (const Phase& p : std::exchange(r.phases, {})) ledger_.phase(p.name, p.end->seconds_since(*p.begin));
  const auto v = r.scalars.host<double>();
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
  std::int64_t looks = 0;  // of this rank's chunks, at each batch
  for (int c = 0; c < plan_.pipeline().chunks; ++c) looks += looks_at_rows(run_of(c));
  std::optional<Feeder> feeder;
  if (data && looks > 0)
    feeder.emplace(
        *data,
        [&](std::int64_t n) {
          return Feeder::Wanted{own.first, evaluation_samples(data->size(), n / looks * rows, own)};
        },
        own.count, looks * ((windows + rows - 1) / rows), workload_.data_threads, looks);
  for (std::int64_t first = 0; first < windows; first += rows) {
    for (int c = 0; c < plan_.pipeline().chunks; ++c) {
      const Batch* batch = nullptr;
      if (feeder && looks_at_rows(run_of(c))) {
        HostClock clock(ledger_, "wait for data");
        batch = wait_for(*feeder);
      }
      const MicroBatch micro = feed(batch, rows, first, false, 0);
      Flow in = take_in(evaluation_context_, run_of(c));
      hand_on(stages_[static_cast<std::size_t>(c)].forward(evaluation_context_, micro, *weights_, std::move(in), 0),
              run_of(c));
    }
  }
  settle_channels();
  sum_over(evaluation_context_, totals_, mesh_.all());
  settle_accounts();
  EvaluationReport report;
  if (!data) return report;
  stream_->copy(host_totals_, totals_);
  stream_->synchronize();
  report.loss_sum = host_totals_.host<double>()[0];
  report.labels = host_totals_.host<double>()[1];
  report.correct = host_totals_.host<double>()[2];
  report.units = data->units();
  report.quality = report.loss_sum / report.units;
  report.seconds = evaluation_ledger_.now() - begin;
  return report;
}

MemoryReport Engine::memory() const {
  MemoryReport m;
  m.weights = counted_together({weights_->kept_bytes(), parameters_.statistics_bytes()});
  m.gradients = weights_->gradient_bytes();
  m.optimizer = counted_together({optimizer_->bytes(), weights_->master_bytes()});
  m.activations = arena_.bytes_peak();
  return m;
}

}  // namespace quadrille
