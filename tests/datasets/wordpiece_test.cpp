// SPDX-License-Identifier: Apache-2.0
// WordPiece: BERT's ids of real text, its rules one by one, and vocabularies that are none.
#include "datasets/wordpiece.h"

#include <algorithm>

#include "datasets/tfrecord.h"
#include "datasets/words.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

using Words = std::vector<std::string>;
Words words(std::string_view text) { return bert_words(text, "x.txt", 0); }

const WordPiece& bert() {
  static const WordPiece kBert(test_data() + "bert-uncased-vocab.txt");
  return kBert;
}
std::vector<std::int32_t> ids(std::string_view text) {
  std::vector<std::int32_t> result;
  bert().encode(text, "x.txt", 0, result);
  return result;
}
Words pieces(std::string_view text) {
  Words result;
  for (std::int32_t id : ids(text)) result.emplace_back(bert().bytes_of(id));
  return result;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Eight examples written by another program hold 16 segments, cut anywhere from the sentences that stand here.
TEST(WordPieceTest, IdsOfRealTextAreTheExamples) {
  const RecordFile file(test_data() + "sotu-bert.tfrecord");
  const auto lines = lines_of(test_data() + "sotu-segments.txt");
  ASSERT_EQ(lines.size(), 16u);
  for (std::int64_t i = 0; i < file.size(); ++i) {
    const Example example = parse_example(file.record(i), file.name(i));
    const auto& places = integers_of(example, "masked_lm_positions", "x");
    const auto& labels = integers_of(example, "masked_lm_ids", "x");
    const auto& raw_ids = integers_of(example, "input_ids", "x");
    std::vector<std::int32_t> whole(raw_ids.begin(), raw_ids.end());
    for (std::size_t p = 0; p < places.size(); ++p) {
      if (places[p] > 0) whole[static_cast<std::size_t>(places[p])] = static_cast<std::int32_t>(labels[p]);
    }
    const auto first = std::ranges::find(whole, 102), second = std::find(first + 1, whole.end(), 102);
    const auto inside = [&](auto begin, auto end, const std::string& line) {
      const auto all = ids(line);
      EXPECT_GT(end - begin, 2);
      EXPECT_NE(std::search(all.begin(), all.end(), begin, end), all.end()) << line;
    };
    inside(whole.begin() + 1, first, lines[static_cast<std::size_t>(2 * i)]);
    inside(first + 1, second, lines[static_cast<std::size_t>(2 * i + 1)]);
  }
}

TEST(WordPieceTest, LongestMatchFirst) {
  EXPECT_EQ(pieces("Unaffable"), (Words{"una", "##ffa", "##ble"}));
  EXPECT_EQ(pieces("running"), Words{"running"});
  EXPECT_EQ(bert().vocabulary(), 30522);
  EXPECT_EQ(bert().id_of("[MASK]"), 103);
  EXPECT_TRUE(bert().goes_on(bert().id_of("##ble")));
  EXPECT_FALSE(bert().goes_on(bert().id_of("una")));
}

TEST(WordPieceTest, WordsOfAscii) {
  EXPECT_EQ(words(" Hello,\tWORLD!\r\n$5^2 "), (Words{"hello", ",", "world", "!", "$", "5", "^", "2"}));
  EXPECT_EQ(words(std::string_view("a\0b\x01"
                                   "c\x7f",
                                   6)),
            Words{"abc"});
  EXPECT_EQ(words("don't"), (Words{"don", "'", "t"}));
}

TEST(WordPieceTest, WordsBeyondAscii) {
  if (!has_unicode_tables()) GTEST_SKIP() << "no utf8proc";
  EXPECT_EQ(words("\u00c9t\u00e9 \u00c5ngstr\u00f6m"), (Words{"ete", "angstrom"}));
  EXPECT_EQ(words("e\u0301"), Words{"e"});
  EXPECT_EQ(words("\u4e2d\u6587ab"), (Words{"\u4e2d", "\u6587", "ab"}));
  EXPECT_EQ(words("a\u2014b\u2026 \u201cc\u201d"), (Words{"a", "\u2014", "b", "\u2026", "\u201c", "c", "\u201d"}));
  EXPECT_EQ(words("a\u00a0b\u3000c\u200bd\ufffd"), (Words{"a", "b", "cd"}));  // two spaces, two that vanish
  EXPECT_EQ(words("Stra\u00dfe \u0130"), (Words{"stra\u00dfe", "i"}));
  EXPECT_EQ(words("\u039f\u0394\u039f\u03a3 \u03a3"), (Words{"\u03bf\u03b4\u03bf\u03c2", "\u03c3"}));
}

TEST(WordPieceTest, UnknownWords) {
  EXPECT_EQ(pieces(std::string(100, 'a')).front(), "aaa");
  EXPECT_EQ(pieces(std::string(101, 'a')), Words{"[UNK]"});
  if (!has_unicode_tables()) return;
  EXPECT_EQ(pieces("\U0001f600 yes"), (Words{"[UNK]", "yes"}));
}

TEST(WordPieceTest, GarbledTextIsRefusedWithItsPlace) {
  expect_parts(message_of([] { bert_words("ab\xff", "x.txt", 10); }), {"x.txt", "byte 12", "bpe"});
}

TEST(WordPieceTest, VocabulariesThatAreNone) {
  const Folder folder;
  const auto refused = [&](std::string_view text) {
    const std::string path = folder.write("v.txt", text);
    return message_of([&] { WordPiece vocabulary(path); });
  };
  expect_parts(refused("[PAD]\n[UNK]\n\na\n"), {"v.txt:3", "no piece", "fetch"});
  expect_parts(refused("[UNK]\na\na\n"), {"v.txt:3", "\"a\"", "line 2"});
  expect_parts(refused("a\nb\n"), {"v.txt", "2 pieces", "[UNK]", "truncated"});
  expect_parts(refused("a\xff\n"), {"v.txt", "UTF-8", "byte 1"});
  expect_parts(refused(""), {"v.txt"});
  const WordPiece crlf(folder.write("w.txt", "[UNK]\r\na\r\n"));
  EXPECT_EQ(crlf.vocabulary(), 2);
  EXPECT_EQ(crlf.bytes_of(1), "a");
  EXPECT_THROW(crlf.bytes_of(2), Error);
}

}  // namespace
}  // namespace quadrille
