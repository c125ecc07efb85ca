// SPDX-License-Identifier: Apache-2.0
// Text to ids and back. Three kinds: bytes, byte pairs learned from the training text, GPT-2's byte pairs. All of them
// work on bytes, so decode(encode(text)) is text, whatever it holds. A Tokenizer is constant and shared by threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"

namespace quadrille {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t vocabulary() const = 0;
  // Appends the ids of `text`. `name` and `offset` (of text in it) are for messages.
  virtual void encode(std::string_view text, std::string_view name, std::int64_t offset,
                      std::vector<std::int32_t>& ids) const = 0;
  virtual std::string_view bytes_of(std::int32_t id) const = 0;  // throws Error: beyond the vocabulary
  virtual std::optional<std::int32_t> end_of_text() const { return {}; }
  virtual Json description() const = 0;
  std::string decode(std::span<const std::int32_t> ids) const;
};

// Ids are the bytes themselves; with an alphabet, the numbers of its bytes in ascending order.
std::unique_ptr<Tokenizer> make_byte_tokenizer();
std::unique_ptr<Tokenizer> make_compact_tokenizer(const std::string& alphabet);  // distinct bytes, ascending

// Byte pairs learned from texts: ids 0 to 255 are the bytes, 256 + k is the pair merged k-th. Merges never cross the
// parts of split_words (words.h). Deterministic: the most frequent pair first, among equals the one of smallest ids.
using Merge = std::pair<std::int32_t, std::int32_t>;
std::vector<Merge> learn_merges(std::span<const std::string_view> texts, std::int64_t vocabulary);
std::unique_ptr<Tokenizer> make_bpe_tokenizer(const std::vector<Merge>& merges);

// GPT-2's, from its file of merges ("vocab.bpe"): first the 256 bytes in GPT-2's order, then the merges, then the end
// of text. Throws Error naming file and line. Text that is not UTF-8 is refused when it is encoded.
std::unique_ptr<Tokenizer> read_gpt2_tokenizer(const std::string& path);

}  // namespace quadrille
