// SPDX-License-Identifier: Apache-2.0
// Text files as documents of sentences of ids, and their cut into samples: runs of sentences of one document that fit
// into a row together. Encoded once, when the first is wanted. Used by bert_text.cpp.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/slice.h"
#include "datasets/marked_tokenizer.h"

namespace quadrille {

// Which documents belong: number mod every == every - 1 (evaluation), the others (training), or all (every 0).
struct DocumentChoice {
  std::int64_t every = 0;
  bool evaluation = false;
  bool takes(std::int64_t document) const { return every == 0 || (document % every == every - 1) == evaluation; }
};

struct EncodedDocuments {
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> sentences;  // where each begins in ids, and the end
  std::vector<Slice> documents;         // their sentences
  std::vector<Slice> samples;           // their sentences
  std::vector<std::int64_t> owner;      // of each sample, its document
  std::int64_t length(std::int64_t sentence) const {
    return sentences[static_cast<std::size_t>(sentence) + 1] - sentences[static_cast<std::size_t>(sentence)];
  }
  std::span<const std::int32_t> sentence(std::int64_t i) const {
    return std::span(ids).subspan(static_cast<std::size_t>(sentences[static_cast<std::size_t>(i)]),
                                  static_cast<std::size_t>(length(i)));
  }
};

class DocumentSet {
 public:
  // `room`: ids of sentences that a sample takes at most (but for one sentence longer than that).
  DocumentSet(TextFiles files, MarkedTokenizer tokenizer, DocumentChoice choice, std::int64_t room);
  const EncodedDocuments& encoded() const;
  EncodedDocuments encode() const;
  std::int64_t count() const { return count_; }  // documents, told without encoding
  const TextFiles& files() const { return files_; }
  const MarkedTokenizer& tokenizer() const { return tokenizer_; }

 private:
  TextFiles files_;
  MarkedTokenizer tokenizer_;
  DocumentChoice choice_;
  std::int64_t room_, count_ = 0;
  mutable std::once_flag once_;
  mutable EncodedDocuments encoded_;
};

}  // namespace quadrille
