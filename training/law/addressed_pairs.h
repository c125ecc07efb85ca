// SPDX-License-Identifier: Apache-2.0
// Pairs of rows of words that are a function of their address, each padded at its end. Some sources fill their row,
// some are a single word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/json.h"
#include "datasets/dataset.h"

namespace quadrille {

class AddressedPairs : public Dataset {
 public:
  AddressedPairs(std::int64_t pairs, Fields fields, std::int64_t vocabulary)
      : pairs_(pairs), fields_(std::move(fields)), vocabulary_(vocabulary) {}
  std::int64_t size() const override { return pairs_; }
  Fields fields() const override { return fields_; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  double units() const override { return static_cast<double>(labels()); }
  std::string unit() const override { return "token"; }
  std::int64_t labels() const override;
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override;
  void scan() const override {}
  Json description() const override { return Json::object(); }

 private:
  std::int64_t length(std::int64_t index, std::string_view field) const;

  std::int64_t pairs_;
  Fields fields_;
  std::int64_t vocabulary_;
};

}  // namespace quadrille
