// SPDX-License-Identifier: Apache-2.0
// Rows with BERT's fields that are a function of their address: padding of different lengths, masked words and labels
// of the next sentence unevenly many, some rows without.
#pragma once

#include <cstdint>
#include <string>

#include "core/json.h"
#include "datasets/dataset.h"

namespace quadrille {

class AddressedBert : public Dataset {
 public:
  AddressedBert(std::int64_t rows, std::int64_t tokens, std::int64_t masked, std::int64_t vocabulary)
      : rows_(rows), tokens_(tokens), masked_(masked), vocabulary_(vocabulary) {}
  std::int64_t size() const override { return rows_; }
  Fields fields() const override;
  std::int64_t vocabulary() const override { return vocabulary_; }
  double units() const override { return static_cast<double>(labels()); }
  std::string unit() const override { return "token"; }
  std::int64_t labels() const override;
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override;
  void scan() const override {}
  Json description() const override { return Json::object(); }

 private:
  std::int64_t length_of(std::int64_t index) const;
  std::int64_t masked_of(std::int64_t index) const;

  std::int64_t rows_, tokens_, masked_, vocabulary_;
};

}  // namespace quadrille
