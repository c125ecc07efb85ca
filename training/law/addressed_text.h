// SPDX-License-Identifier: Apache-2.0
// The data of `quadrille check` and of the law tests: ids that are a function of their address, and labels masked
// unevenly, so that ranks and micro-batches hold different numbers of them.
#pragma once

#include <cstdint>
#include <string>

#include "core/json.h"
#include "datasets/dataset.h"

namespace quadrille {

// Row r of a pass keeps about (r mod 8 + 1)/8 of its labels.
class AddressedText : public Dataset {
 public:
  AddressedText(std::int64_t windows, std::int64_t tokens, std::int64_t vocabulary)
      : windows_(windows), tokens_(tokens), vocabulary_(vocabulary) {}
  std::int64_t size() const override { return windows_; }
  Fields fields() const override { return text_fields(tokens_); }
  std::int64_t vocabulary() const override { return vocabulary_; }
  double units() const override { return static_cast<double>(labels()); }
  std::string unit() const override { return "token"; }
  std::int64_t labels() const override;
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override;
  void scan() const override {}
  Json description() const override { return Json::object(); }

 private:
  std::int64_t windows_, tokens_, vocabulary_;
};

}  // namespace quadrille
