// SPDX-License-Identifier: Apache-2.0
// BERT's uncased tokenizer (Devlin et al., NAACL 2019) with a given vocabulary file: one piece a line, its id the
// line's number from 0; pieces that go on inside a word begin with ##. Text is made lower case, loses its accents,
// falls into words at white space, punctuation and CJK characters; a word becomes the longest pieces from the left, or
// [UNK] as a whole. Unlike the other tokenizers this one does not give text back.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "datasets/tokenizer.h"

namespace quadrille {

class WordPiece : public Tokenizer {
 public:
  explicit WordPiece(const std::string& path);  // throws Error naming file and line
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(pieces_.size()); }
  void encode(std::string_view text, std::string_view name, std::int64_t offset,
              std::vector<std::int32_t>& ids) const override;
  std::string_view bytes_of(std::int32_t id) const override;
  Json description() const override;
  std::int32_t id_of(std::string_view piece) const;  // throws Error: not in the file
  bool goes_on(std::int32_t id) const { return bytes_of(id).starts_with("##"); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  void encode_word(const std::string& word, std::vector<std::int32_t>& ids) const;

  std::string path_, sha256_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::size_t longest_ = 0;  // bytes of the longest piece: no need to look further
  std::int32_t unknown_ = 0;
};

// The words that WordPiece looks up, for tests.
std::vector<std::string> bert_words(std::string_view text, std::string_view name, std::int64_t offset);

}  // namespace quadrille
