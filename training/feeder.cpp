// SPDX-License-Identifier: Apache-2.0
#include "training/feeder.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace quadrille {

namespace {
// Of the rows of a batch, given out at once: few enough that all who read have something to do until it is complete.
std::int64_t piece_of(std::int64_t rows, int threads) {
  constexpr std::int64_t kPiecesEach = 4;
  return threads == 0 ? rows : std::max<std::int64_t>(1, rows / (kPiecesEach * (threads + 1)));
}
}  // namespace

Feeder::Feeder(const Dataset& data, List list, std::int64_t rows, std::int64_t batches, int threads, std::int64_t ahead)
    : data_(data),
      list_(std::move(list)),
      rows_(rows),
      batches_(batches),
      ahead_(threads > 0 ? std::max<std::int64_t>(1, ahead) : 0),
      piece_(piece_of(rows, threads)),
      rooms_(static_cast<std::size_t>(ahead_ + 1)) {
  require(rows > 0 && threads >= 0, "a feeder of {} rows with {} threads: wanted at least 1 and at least 0", rows,
          threads);
  limit_ = std::min(batches_, ahead_);
  for (int t = 0; t < threads; ++t) threads_.emplace_back([this] { work(); });
}

Feeder::~Feeder() {
  over_ = true;
  { const Lock lock(mutex_); }  // nobody is between looking at over_ and falling asleep
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// The exception in flight belongs to this row.
void Feeder::refuse(Room& r, std::int64_t batch, std::int64_t row) {
  if (!r.error || row < r.error_row) r.error = std::current_exception(), r.error_row = row;
  refused_ = std::min(refused_, batch);
}

// Makes the current batch known: what its rows are, and room for them. Room that an earlier batch had is used again.
// False: refused as a whole.
bool Feeder::open() {
  Room& r = room(current_);
  r.done = 0, r.error = nullptr;
  try {
    Wanted wanted = list_(current_);
    if (r.batch.rows != rows_) r.batch = room_for_rows(data_, rows_);
    assign_samples(r.batch, wanted.first_row, std::move(wanted.samples));
    return true;
  } catch (...) {
    refuse(r, current_, 0);
    return false;
  }
}

// Claims the next rows of the current batch and reads them; the lock is open meanwhile. After a refusal the other rows
// of its batch are still read, so that the first refusal is the one that is told, whoever was faster.
void Feeder::read_piece(Lock& lock) {
  const bool opened = claimed_ > 0 || open();
  const std::int64_t batch = current_, first = claimed_;
  Room& r = room(batch);
  const std::int64_t end = opened ? std::min(rows_, first + piece_) : rows_;
  claimed_ = end;
  if (claimed_ == rows_) ++current_, claimed_ = 0;
  std::int64_t row = first;
  if (opened) {
    lock.unlock();
    try {
      for (; row < end && !over_; ++row) read_row(data_, r.batch, row);
      lock.lock();
    } catch (...) {
      lock.lock();
      refuse(r, batch, row);
    }
  }
  r.done += end - first;
  if (r.done == rows_) ready_.notify_all();
}

void Feeder::work() {
  Lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [this] { return over_ || work_left(); });
    if (over_) return;
    read_piece(lock);
  }
}

const Batch& Feeder::next() {
  require(given_ < batches_, "batch {} of a list of {}", given_, batches_);
  Lock lock(mutex_);
  limit_ = std::min(batches_, given_ + 1 + ahead_);
  more_.notify_all();
  Room& r = room(given_);
  while (current_ <= given_ || r.done < rows_) {
    if (current_ == given_)
      read_piece(lock);
    else
      ready_.wait(lock);
  }
  if (r.error) std::rethrow_exception(r.error);
  ++given_;
  return r.batch;
}

void TrainingFeeder::begin(const Dataset& data, std::int64_t step) {
  const auto per_step = static_cast<std::int64_t>(of_.rows.size());
  if (feeder_ && data_ == &data && step < end_step_ && feeder_->given() == (step - first_step_) * per_step) return;
  feeder_.reset();
  data_ = &data;
  first_step_ = step;
  end_step_ = step < of_.steps ? of_.steps : Feeder::kEndless;
  const std::int64_t batches = end_step_ == Feeder::kEndless ? Feeder::kEndless : (end_step_ - step) * per_step;
  const auto list = [this, &data](std::int64_t batch) {
    const auto of_step = static_cast<std::int64_t>(of_.rows.size());
    const Slice rows = of_.rows[static_cast<std::size_t>(batch % of_step)];
    return Feeder::Wanted{rows.first,
                          training_samples(data.size(), of_.seed, first_step_ + batch / of_step, of_.batch_size, rows)};
  };
  feeder_ = std::make_unique<Feeder>(data, list, of_.rows.front().count, batches, threads_, per_step);
}

}  // namespace quadrille
