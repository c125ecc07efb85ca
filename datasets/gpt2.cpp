// SPDX-License-Identifier: Apache-2.0
// GPT-2's tokenizer from its published file of merges. That file writes each byte as a printable character (encoder.py,
// bytes_to_unicode): printable Latin-1 as itself, the others as U+0100 and up in order; the ids of the bytes follow the
// same order.
#include <array>

#include "core/error.h"
#include "datasets/bpe.h"
#include "datasets/manifest.h"
#include "datasets/mapped_file.h"
#include "datasets/words.h"

namespace quadrille {
namespace {

constexpr bool is_printable(int c) {
  return (c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff);
}

std::array<unsigned char, 256> gpt2_order() {
  std::array<unsigned char, 256> order{};
  std::size_t next = 0;
  for (bool printable : {true, false}) {
    for (int c = 0; c < 256; ++c) {
      if (is_printable(c) == printable) order[next++] = static_cast<unsigned char>(c);
    }
  }
  return order;
}

std::uint32_t code_point(std::string_view text, std::size_t at, std::size_t& bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i])); };
  const std::uint32_t lead = byte(0);
  bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  std::uint32_t value = bytes == 1 ? lead : lead & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) value = value << 6 | (byte(i) & 0x3f);
  return value;
}

// A token of the file, as bytes. "" when a character stands for no byte.
std::string bytes_of_symbols(std::string_view symbols) {
  static const std::array<unsigned char, 256> kOrder = gpt2_order();
  constexpr std::size_t kPrintable = 188;
  std::string bytes;
  std::size_t length = 0;
  for (std::size_t at = 0; at < symbols.size(); at += length) {
    const std::uint32_t c = code_point(symbols, at, length);
    if (c < 256 && is_printable(static_cast<int>(c))) {
      bytes += static_cast<char>(c);
    } else if (c >= 256 && c < 256 + 256 - kPrintable) {
      bytes += static_cast<char>(kOrder[kPrintable + c - 256]);
    } else {
      return "";
    }
  }
  return bytes;
}

std::vector<Merge> parse_merges(const MappedFile& file) {
  std::unordered_map<std::string, std::int32_t> ids;
  const auto order = gpt2_order();
  for (std::size_t id = 0; id < 256; ++id)
    ids.emplace(std::string(1, static_cast<char>(order[id])), static_cast<std::int32_t>(id));
  std::vector<Merge> merges;
  std::string_view rest = file.text();
  require(!rest.empty(), "{} is empty: wanted GPT-2's merges, one pair a line", file.path());
  const std::int64_t bad = first_ill_formed(rest);
  require(bad < 0, "{} is not UTF-8 at byte {}: it is no file of GPT-2's merges", file.path(), bad);
  require(rest.back() == '\n', "{} does not end with a line end: it is truncated after {} bytes", file.path(),
          file.size());
  for (std::int64_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = rest.find('\n');
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (line == 1 && text.starts_with("#version")) continue;
    const std::size_t gap = text.find(' ');
    require(gap != std::string_view::npos && text.find(' ', gap + 1) == std::string_view::npos,
            "{}:{}: \"{}\" is no merge: wanted two tokens with one space between", file.path(), line, text);
    const std::string left = bytes_of_symbols(text.substr(0, gap)), right = bytes_of_symbols(text.substr(gap + 1));
    const auto known_left = ids.find(left), known_right = ids.find(right);
    require(known_left != ids.end() && known_right != ids.end(),
            "{}:{}: \"{}\" is no merge: {} is not made by a line before it", file.path(), line, text,
            known_left == ids.end() ? text.substr(0, gap) : text.substr(gap + 1));
    merges.emplace_back(known_left->second, known_right->second);
    require(ids.emplace(left + right, static_cast<std::int32_t>(255 + merges.size())).second,
            "{}:{}: \"{}\" makes a token that exists already", file.path(), line, text);
  }
  return merges;
}

class Gpt2 : public BpeTokenizer {
 public:
  explicit Gpt2(const MappedFile& file) : BpeTokenizer(gpt2_order(), parse_merges(file)) { add_token("<|endoftext|>"); }
  std::optional<std::int32_t> end_of_text() const override { return static_cast<std::int32_t>(vocabulary() - 1); }
  void encode(std::string_view text, std::string_view name, std::int64_t offset,
              std::vector<std::int32_t>& ids) const override {
    const std::int64_t bad = first_ill_formed(text);
    require(bad < 0, "{} is not UTF-8 at byte {}: GPT-2's words are made of characters. Convert it (iconv -t UTF-8)",
            name, offset + bad);
    if (!has_unicode_tables()) {
      for (std::size_t i = 0; i < text.size(); ++i) {
        require(static_cast<unsigned char>(text[i]) < 0x80,
                "{}: byte {} begins a character above 127, whose category this build does not know, so GPT-2's words "
                "cannot "
                "be promised. Install libutf8proc-dev and configure again",
                name, offset + static_cast<std::int64_t>(i));
      }
    }
    WordCache cache;
    split_words(text, true, unicode_class, [&](std::string_view word) {
      const auto& made = cache.get(word, [this](std::string_view w) { return merge_word(w); });
      ids.insert(ids.end(), made.begin(), made.end());
    });
  }
  Json description() const override {
    Json json = Json::object();
    json.set("kind", "gpt2");
    json.set("vocabulary", vocabulary());
    return json;
  }
};

}  // namespace

Char unicode_class(std::string_view text, std::size_t at) {
  if (static_cast<unsigned char>(text[at]) < 0x80) return byte_class(text, at);
  std::size_t bytes = 0;
  const std::uint32_t c = code_point(text, at, bytes);
  return {class_of(c), bytes};
}

std::unique_ptr<Tokenizer> read_gpt2_tokenizer(const std::string& path) {
  return std::make_unique<Gpt2>(MappedFile(path));
}

}  // namespace quadrille
