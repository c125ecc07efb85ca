// SPDX-License-Identifier: Apache-2.0
// The tokenizer of merged byte pairs, common to our own vocabularies and GPT-2's; only the numbers of the bytes, the
// splitting into words and the end of text differ.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "datasets/tokenizer.h"

namespace quadrille {

class BpeTokenizer : public Tokenizer {
 public:
  // byte_order[k]: the byte whose id is k. Merge k makes id 256 + k out of two smaller ids.
  BpeTokenizer(const std::array<unsigned char, 256>& byte_order, const std::vector<Merge>& merges);
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(bytes_.size()); }
  std::string_view bytes_of(std::int32_t id) const override;

 protected:
  // The ids of one word: of all pairs present the one merged first in training is merged first, leftmost first.
  std::vector<std::int32_t> merge_word(std::string_view word) const;
  void add_token(std::string bytes) { bytes_.push_back(std::move(bytes)); }

 private:
  std::array<std::int32_t, 256> byte_ids_{};
  std::unordered_map<std::uint64_t, std::int32_t> merged_;  // pair -> id
  std::vector<std::string> bytes_;
};

// Ids of words already seen in a text, so that a frequent word is merged once.
class WordCache {
 public:
  template <class Make>
  const std::vector<std::int32_t>& get(std::string_view word, Make make) {
    const auto found = ids_.find(word);
    if (found != ids_.end()) return found->second;
    return ids_.emplace(word, make(word)).first->second;
  }

 private:
  std::unordered_map<std::string_view, std::vector<std::int32_t>> ids_;  // the text outlives the cache
};

}  // namespace quadrille
