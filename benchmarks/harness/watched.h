// SPDX-License-Identifier: Apache-2.0
// A data set that tells when its samples are read: how far a long evaluation has come, without a word about it in the
// trainer. Used by the timed run.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "datasets/dataset.h"

namespace quadrille {

class WatchedDataset : public Dataset {
 public:
  // `watch` gets the number of each sample before it is read, from whoever reads, one at a time.
  WatchedDataset(const Dataset& data, std::function<void(std::int64_t index)> watch)
      : data_(data), watch_(std::move(watch)) {}
  std::int64_t size() const override { return data_.size(); }
  bool holds(std::int64_t samples) const override { return data_.holds(samples); }
  std::string needed(std::int64_t samples) const override { return data_.needed(samples); }
  Fields fields() const override { return data_.fields(); }
  std::int64_t vocabulary() const override { return data_.vocabulary(); }
  double units() const override { return data_.units(); }
  std::string unit() const override { return data_.unit(); }
  std::int64_t labels() const override { return data_.labels(); }
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override {
    {
      const std::lock_guard lock(mutex_);
      watch_(index);
    }
    data_.read(epoch, index, row);
  }
  void scan() const override { data_.scan(); }
  Json description() const override { return data_.description(); }

 private:
  const Dataset& data_;
  std::function<void(std::int64_t)> watch_;
  mutable std::mutex mutex_;
};

}  // namespace quadrille
