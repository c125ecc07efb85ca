// SPDX-License-Identifier: Apache-2.0
// See bert_documents.h.
#include "datasets/bert_documents.h"

#include <algorithm>

#include "core/error.h"

namespace quadrille {
namespace {

// Calls sentence(document, line, offset) for each line that is not blank.
template <class Sentence>
void walk(const TextFiles& files, Sentence sentence) {
  std::int64_t document = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string_view text = files.file(i).text();
    bool inside = false;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
        document += inside;
        inside = false;
      } else {
        inside = true;
        sentence(document, i, line.substr(0, line.find_last_not_of(" \t\r") + 1), static_cast<std::int64_t>(at));
      }
      at = end + 1;
    }
    document += inside;  // a file ends a document
  }
}

// Sentences of one document into runs of at most `room` ids.
void cut(EncodedDocuments& all, std::int64_t document, std::int64_t room) {
  const Slice sentences = all.documents[static_cast<std::size_t>(document)];
  Slice sample{sentences.first, 0};
  std::int64_t ids = 0;
  const auto close = [&] {
    if (sample.count == 0) return;
    all.samples.push_back(sample);
    all.owner.push_back(document);
    sample = {sample.end(), 0};
    ids = 0;
  };
  for (std::int64_t s = sentences.first; s < sentences.end(); ++s) {
    if (ids + all.length(s) > room) close();
    ++sample.count;
    ids += all.length(s);
  }
  close();
}

}  // namespace

DocumentSet::DocumentSet(TextFiles files, MarkedTokenizer tokenizer, DocumentChoice choice, std::int64_t room)
    : files_(std::move(files)), tokenizer_(std::move(tokenizer)), choice_(choice), room_(room) {
  std::int64_t last = -1, all = 0;
  walk(files_, [&](std::int64_t document, std::size_t, std::string_view, std::int64_t) {
    if (document == last) return;
    last = document;
    ++all;
    count_ += choice_.takes(document);
  });
  require(count_ >= 2,
          "{} has {} documents, {} of them for {}: wanted at least 2, because wrong second segments come "
          "from another document. Documents are parted by blank lines; take more text or another evaluate_every",
          files_.name(), all, count_, choice_.evaluation ? "evaluation" : "training");
}

EncodedDocuments DocumentSet::encode() const {
  EncodedDocuments result;
  std::int64_t last = -1;
  const auto close = [&] {
    if (!result.documents.empty() && result.documents.back().count == 0) result.documents.pop_back();
  };
  walk(files_, [&](std::int64_t document, std::size_t file, std::string_view line, std::int64_t offset) {
    if (!choice_.takes(document)) return;
    if (document != last) {
      close();
      result.documents.push_back({static_cast<std::int64_t>(result.sentences.size()), 0});
    }
    last = document;
    const auto before = static_cast<std::int64_t>(result.ids.size());
    tokenizer_.tokenizer->encode(line, files_.file(file).path(), offset, result.ids);
    if (static_cast<std::int64_t>(result.ids.size()) == before) return;  // nothing but characters that vanish
    result.sentences.push_back(before);
    ++result.documents.back().count;
  });
  close();
  result.sentences.push_back(static_cast<std::int64_t>(result.ids.size()));
  require(result.documents.size() >= 2, "{} has {} documents with words: wanted at least 2", files_.name(),
          result.documents.size());
  for (std::size_t d = 0; d < result.documents.size(); ++d) cut(result, static_cast<std::int64_t>(d), room_);
  return result;
}

const EncodedDocuments& DocumentSet::encoded() const {
  std::call_once(once_, [this] { encoded_ = encode(); });
  return encoded_;
}

}  // namespace quadrille
