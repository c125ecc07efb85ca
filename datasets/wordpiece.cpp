// SPDX-License-Identifier: Apache-2.0
// See wordpiece.h. The rules of splitting are those of google-research/bert, tokenization.py.
#include "datasets/wordpiece.h"

#include <algorithm>

#include "core/error.h"
#include "datasets/manifest.h"
#include "datasets/mapped_file.h"
#include "datasets/sha256.h"
#include "datasets/unicode.h"

namespace quadrille {
namespace {

constexpr std::size_t kLongestWord = 100;  // characters

// The blocks of ideographs that Chinese is written in.
bool is_cjk(std::uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b820 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}
// All of ASCII that is neither letter, number, space nor control: also symbols such as $ and ^.
bool is_ascii_punctuation(std::uint32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

class Splitter {
 public:
  void take(std::uint32_t c) {
    if (is_white_space(c) && c != 0x85 && (c < 0x1c || c > 0x1f)) return end_word();  // these five are controls
    if (c < 0x80) return take_ascii(c);
    const Kind kind = c == 0xfffd ? Kind::control : kind_of(c);
    if (kind == Kind::control) return;
    if (kind == Kind::punctuation || is_cjk(c))
      return take_alone([&](std::string& word) { append_without_marks(c, word); });
    append_without_marks(small_letter(c), word_);
    capital_sigma_ = c == 0x3a3;
  }
  std::vector<std::string> finish() {
    end_word();
    return std::move(words_);
  }

 private:
  void take_ascii(std::uint32_t c) {
    if (c < 0x20 || c == 0x7f) return;
    if (is_ascii_punctuation(c)) return take_alone([&](std::string& word) { word += static_cast<char>(c); });
    capital_sigma_ = false;
    word_ += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  template <class Append>
  void take_alone(Append append) {
    end_word();
    append(word_);
    end_word();
  }
  // A sigma that ends a word of several letters is written otherwise (Unicode, SpecialCasing.txt).
  void end_word() {
    constexpr std::string_view kSigma = "\xcf\x83", kFinal = "\xcf\x82";
    if (capital_sigma_ && word_.size() > kSigma.size() && word_.ends_with(kSigma))
      word_.replace(word_.size() - kSigma.size(), kSigma.size(), kFinal);
    capital_sigma_ = false;
    if (!word_.empty()) words_.push_back(std::move(word_));
    word_.clear();
  }

  std::vector<std::string> words_;
  std::string word_;
  bool capital_sigma_ = false;
};

std::size_t characters_of(std::string_view word) {
  return static_cast<std::size_t>(std::ranges::count_if(word, [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::vector<std::string> bert_words(std::string_view text, std::string_view name, std::int64_t offset) {
  if (const std::int64_t bad = first_ill_formed(text); bad >= 0)
    fail("{} is not UTF-8 at byte {}: convert it, or take the byte pair tokenizer (\"kind\": \"bpe\")", name,
         offset + bad);
  Splitter splitter;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    try {
      splitter.take(c.value);
    } catch (const Error& error) {
      fail("{} at byte {}: {}", name, offset + static_cast<std::int64_t>(at), error.what());
    }
    at += c.bytes;
  }
  return splitter.finish();
}

WordPiece::WordPiece(const std::string& path) : path_(path) {
  const MappedFile file(path);
  const std::string_view text = file.text();
  sha256_ = sha256_of(text);
  if (const std::int64_t bad = first_ill_formed(text); bad >= 0)
    fail("{} is not UTF-8 at byte {}: wanted a vocabulary of WordPieces, one a line", path, bad);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view piece = text.substr(at, end - at);
    if (piece.ends_with('\r')) piece.remove_suffix(1);
    const std::size_t line = pieces_.size() + 1;
    require(!piece.empty() && piece != "##",
            "{}:{} holds no piece: a vocabulary has one on each line, and the number "
            "of the line is the id; fetch the file again",
            path, line);
    require(pieces_.size() < (std::size_t{1} << 24), "{}: more than 2^24 pieces: this is no vocabulary", path);
    const auto [found, is_new] = ids_.emplace(piece, static_cast<std::int32_t>(pieces_.size()));
    require(is_new, "{}:{}: \"{}\" stands on line {} already; fetch the file again", path, line, piece,
            found->second + 1);
    pieces_.emplace_back(piece);
    longest_ = std::max(longest_, piece.size());
    at = end + 1;
  }
  unknown_ = id_of("[UNK]");
}

std::int32_t WordPiece::id_of(std::string_view piece) const {
  const auto found = ids_.find(piece);
  require(found != ids_.end(), "{} ({} pieces) lacks {}: it is not BERT's vocabulary, or is truncated; fetch it again",
          path_, pieces_.size(), piece);
  return found->second;
}

std::string_view WordPiece::bytes_of(std::int32_t id) const {
  require(id >= 0 && id < vocabulary(), "id {} is beyond the vocabulary of {}", id, vocabulary());
  return pieces_[static_cast<std::size_t>(id)];
}

void WordPiece::encode_word(const std::string& word, std::vector<std::int32_t>& ids) const {
  if (characters_of(word) > kLongestWord) return ids.push_back(unknown_);
  const std::size_t before = ids.size();
  std::string piece;
  for (std::size_t start = 0; start < word.size();) {
    const std::string_view mark = start > 0 ? "##" : "";
    piece.assign(mark).append(word, start, longest_);
    std::size_t length = piece.size() - mark.size();
    auto found = ids_.end();
    for (; length > 0; --length) {
      piece.resize(mark.size() + length);
      if ((found = ids_.find(piece)) != ids_.end()) break;
    }
    if (length == 0) {
      ids.resize(before);
      return ids.push_back(unknown_);
    }
    ids.push_back(found->second);
    start += length;
  }
}

void WordPiece::encode(std::string_view text, std::string_view name, std::int64_t offset,
                       std::vector<std::int32_t>& ids) const {
  for (const std::string& word : bert_words(text, name, offset)) encode_word(word, ids);
}

Json WordPiece::description() const {
  Json result = Json::object();
  result.set("kind", "wordpiece");
  result.set("file", path_);
  result.set("vocabulary", vocabulary());
  result.set("sha256", sha256_);
  return result;
}

}  // namespace quadrille
