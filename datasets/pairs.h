// SPDX-License-Identifier: Apache-2.0
// Pairs of sentences to translate, from a file with one pair a line: source TAB target. One vocabulary serves both
// sides: byte pairs learned from the training file. A row has the fields source [S]: the sentence and the end mark; ids
// [T]: the begin mark and the target; labels [T]: the target and the end mark. Padding is -1. Pairs that do not fit are
// left out, and counted.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/marked_tokenizer.h"

namespace quadrille {

class Pairs : public Dataset {
 public:
  Pairs(TextFiles files, MarkedTokenizer tokenizer, std::int64_t source_tokens, std::int64_t tokens);
  Fields fields() const override;
  std::int64_t size() const override { return static_cast<std::int64_t>(encoded().pairs.size()); }
  bool holds(std::int64_t samples) const override;
  std::int64_t vocabulary() const override { return tokenizer_.vocabulary; }
  double units() const override { return static_cast<double>(labels()); }
  std::string unit() const override { return "token"; }
  std::int64_t labels() const override { return encoded().labels; }
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override;
  void scan() const override;
  Json description() const override;  // with the pairs left out: encodes

  // For decoding: begin and end mark, the text of ids up to the end mark, and what the target of a sample was.
  std::int32_t begin() const { return tokenizer_.marks[0]; }
  std::int32_t end() const { return tokenizer_.marks[1]; }
  std::string text_of_ids(std::span<const std::int32_t> ids) const;
  std::string target(std::int64_t index) const;

 private:
  struct Place {
    std::size_t file, source, source_bytes, target_bytes;  // the target begins one byte after the source's end
    std::int64_t source_at, source_ids, target_ids;        // in ids, one after the other
  };
  struct Encoded {
    std::vector<std::int32_t> ids;
    std::vector<Place> pairs;
    std::int64_t labels = 0, left_out = 0;
  };
  Encoded encode() const;
  const Encoded& encoded() const;
  TextFiles files_;
  MarkedTokenizer tokenizer_;
  std::int64_t source_tokens_, tokens_;
  mutable std::once_flag once_;
  mutable Encoded encoded_;
};

// {"source": "pairs", "directory": "libreoffice_help", "train": "train.tsv", "evaluate": "valid.tsv",
//  "source_tokens": 64, "tokenizer": {"kind": "bpe", "vocabulary": 4096}}; source_tokens: model.tokens if left out.
Datasets open_pairs(const Json& config, std::int64_t tokens, const std::string& data_root);

}  // namespace quadrille
