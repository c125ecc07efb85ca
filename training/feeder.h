// SPDX-License-Identifier: Apache-2.0
// How rows of data reach a rank: threads beside it read those of coming batches while it computes. What a row holds
// depends on its sample alone, so nothing that a rank sees depends on who read it, or when. Threads that have nothing
// to do sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "datasets/dataset.h"

namespace quadrille {

// The batches 0, 1, ... of a list, in order.
class Feeder {
 public:
  struct Wanted {
    std::int64_t first_row = 0;   // of the step, for Batch::first_row
    std::vector<Sample> samples;  // as many in each batch
  };
  using List = std::function<Wanted(std::int64_t batch)>;  // called by one thread at a time, in order
  static constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

  // `threads`: how many read ahead, sharing the rows of a batch; 0: next() reads alone. At most `ahead` batches (at
  // least one) are read or being read beyond the one that next() gave. The data set outlives the feeder.
  Feeder(const Dataset&, List, std::int64_t rows, std::int64_t batches, int threads, std::int64_t ahead);
  // Waits for the rows that threads are reading, one each.
  ~Feeder();
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;

  // Valid until the next call. The calling thread reads too while there is something left to do for this batch. Throws
  // what the data set threw at the first of the batch's rows that it refused, and again at every further call.
  const Batch& next();
  std::int64_t given() const { return given_; }  // batches so far

 private:
  struct Room {
    Batch batch;
    std::int64_t done = 0;  // rows
    std::exception_ptr error;
    std::int64_t error_row = 0;
  };
  using Lock = std::unique_lock<std::mutex>;
  Room& room(std::int64_t batch) { return rooms_[static_cast<std::size_t>(batch) % rooms_.size()]; }
  bool open();
  void refuse(Room&, std::int64_t batch, std::int64_t row);
  bool work_left() const { return current_ < limit_ && current_ <= refused_; }
  void read_piece(Lock&);
  void work();

  const Dataset& data_;
  const List list_;
  const std::int64_t rows_, batches_, ahead_, piece_;
  std::int64_t given_ = 0;
  std::vector<Room> rooms_;  // that of batch n: n modulo their number
  std::mutex mutex_;         // of all below, and of what rooms say of their progress
  std::condition_variable ready_, more_;
  std::int64_t current_ = 0;         // the batch whose rows are given out to whoever reads
  std::int64_t claimed_ = 0;         // of its rows
  std::int64_t limit_ = 0;           // batches from here on have no room yet
  std::int64_t refused_ = kEndless;  // the first batch with a row that could not be read: none after it is begun
  std::atomic<bool> over_ = false;
  std::vector<std::thread> threads_;
};

// Which rows of each step a rank reads.
struct RowsOfSteps {
  std::uint64_t seed = 0;
  std::int64_t batch_size = 0, steps = 0;  // of the run; nothing is read ahead beyond its end
  std::vector<Slice> rows;                 // of a step, for each batch in the order in which they are wanted
};

// The rows of a rank in training, step after step, up to one step ahead.
class TrainingFeeder {
 public:
  TrainingFeeder(RowsOfSteps rows, int threads) : of_(std::move(rows)), threads_(threads) {}
  // The batches of this step come next. What was read ahead for another data set or another step is dropped.
  void begin(const Dataset&, std::int64_t step);
  const Batch& next() { return feeder_->next(); }

 private:
  const RowsOfSteps of_;
  const int threads_;
  const Dataset* data_ = nullptr;
  std::int64_t first_step_ = 0, end_step_ = 0;  // of the feeder
  std::unique_ptr<Feeder> feeder_;
};

}  // namespace quadrille
