// SPDX-License-Identifier: Apache-2.0
// A tokenizer with marks: ids that stand for no text ([CLS], [SEP], [MASK]; begin and end of a sentence). WordPiece has
// them in its vocabulary file; to our own byte pairs they are added after the last pair, so that the vocabulary is the
// number asked for. Used by bert_text.cpp and pairs.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "datasets/text.h"

namespace quadrille {

struct MarkedTokenizer {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::int64_t vocabulary = 0;      // marks included
  std::vector<std::int32_t> marks;  // in the order of their names
  Json resolved;                    // the object with every default
  Json description() const;
};
// {"kind": "bpe", "vocabulary": 4096} | {"kind": "wordpiece", "file": "bert_vocabulary/vocab.txt"} (below data_root).
MarkedTokenizer open_marked_tokenizer(const Json& config, const std::string& path, const TextFiles& train,
                                      const std::string& data_root, const std::vector<std::string>& marks);

}  // namespace quadrille
