// SPDX-License-Identifier: Apache-2.0
// GPT-2's tokenizer against ids computed with an independent implementation (Python's regex module and a plain merge
// loop) and against a Megatron data set made elsewhere.
#include <cstdlib>

#include "datasets/text.h"
#include "datasets/token_files.h"
#include "datasets/words.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

const std::string kMerges = test_data() + "gpt2-merges.bpe";

std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, "text", 0, ids);
  return ids;
}

class Gpt2 : public testing::Test {
 protected:
  static void SetUpTestSuite() { tokenizer_ = read_gpt2_tokenizer(kMerges); }
  static void TearDownTestSuite() { tokenizer_.reset(); }
  static std::shared_ptr<const Tokenizer> tokenizer_;
};
std::shared_ptr<const Tokenizer> Gpt2::tokenizer_;

using Ids = std::vector<std::int32_t>;

TEST_F(Gpt2, VocabularyAndEnd) {
  EXPECT_EQ(tokenizer_->vocabulary(), 50257);
  EXPECT_EQ(tokenizer_->end_of_text(), 50256);
  EXPECT_EQ(tokenizer_->bytes_of(15496), "Hello");
  EXPECT_EQ(tokenizer_->bytes_of(220), " ");
}

TEST_F(Gpt2, AsciiExamples) {
  EXPECT_EQ(encode(*tokenizer_, "Hello world"), (Ids{15496, 995}));
  EXPECT_EQ(encode(*tokenizer_, "it's we'll I'd they've 'S 's  'tis"),
            (Ids{270, 338, 356, 1183, 314, 1549, 484, 1053, 705, 50, 705, 82, 220, 705, 48010}));
  EXPECT_EQ(encode(*tokenizer_, "  two  spaces\n\n\ttab \n end  "),
            (Ids{220, 734, 220, 9029, 628, 197, 8658, 220, 198, 886, 220, 220}));
  EXPECT_EQ(encode(*tokenizer_, "don't123abc!!! ..."), (Ids{9099, 470, 10163, 39305, 10185, 2644}));
  EXPECT_EQ(encode(*tokenizer_, "aaaaaaaaaaaaaaaaaaaaaaa"), (Ids{24794, 24794, 24794, 24794, 24794, 46071}));
  EXPECT_EQ(encode(*tokenizer_, "\r\n\r\nx"), (Ids{201, 198, 201, 198, 87}));
  EXPECT_EQ(encode(*tokenizer_, "I'M I'm 'll''ve"), (Ids{40, 6, 44, 314, 1101, 705, 297, 7061, 303}));
  EXPECT_EQ(encode(*tokenizer_, " "), Ids{220});
  EXPECT_EQ(encode(*tokenizer_, ""), Ids{});
}

TEST_F(Gpt2, CharactersAboveAscii) {
  if (!has_unicode_tables()) GTEST_SKIP() << "built without utf8proc";
  EXPECT_EQ(encode(*tokenizer_, "naïve café Ωμέγα 你好 мир 😀😀 ½ ² Ⅷ ٣٤ a\u00a0b\u2003c\u3000 d"),
            (Ids{2616, 38776, 40304, 7377,  102,   34703, 138,  255,   42063, 17394, 220,  19526, 254,  25001,
                 121,  12466, 120,   18849, 21169, 30325, 222,  47249, 222,   25208, 1587, 110,   2343, 227,
                 100,  18923, 96,    149,   97,    257,   1849, 65,    447,   225,   66,   5099,  222,  288}));
  EXPECT_EQ(encode(*tokenizer_, "a\u200bb\u0301 e\u0301"), (Ids{64, 9525, 65, 136, 223, 304, 136, 223}));
  EXPECT_EQ(encode(*tokenizer_, "x\u0085y \u1680z"), (Ids{87, 126, 227, 88, 220, 157, 248, 222, 89}));
}

TEST_F(Gpt2, WithoutTablesTextAboveAsciiIsRefused) {
  if (has_unicode_tables()) GTEST_SKIP() << "this build has utf8proc";
  expect_parts(message_of([&] { encode(*tokenizer_, "caf\xc3\xa9"); }), {"text", "byte 3", "libutf8proc-dev"});
}

TEST_F(Gpt2, ShippedText) {
  const auto ids = encode(*tokenizer_, read_all(test_data() + "evaluate.txt"));
  ASSERT_EQ(ids.size(), 3781u);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) sum += static_cast<std::int64_t>(i + 1) * ids[i];
  EXPECT_EQ(sum % 1000000007, 610549854);
}

TEST_F(Gpt2, EncodesWhatAMegatronSetDecodesTo) {
  const TokenFile file = open_megatron(test_data() + "persuasion");
  ASSERT_EQ(file.piece.count, 115081);
  const FileTokens tokens({file.piece}, file.type, 50257, Json());
  Ids all(115081);
  tokens.read(0, all);
  std::size_t checked = 0;
  for (std::size_t from = 0; from < all.size();) {  // chapter by chapter: each begins or ends with the end of text
    std::size_t to = from;
    while (to < all.size() && all[to] != 50256) ++to;
    const Ids chapter(all.begin() + static_cast<std::ptrdiff_t>(from), all.begin() + static_cast<std::ptrdiff_t>(to));
    EXPECT_EQ(encode(*tokenizer_, tokenizer_->decode(chapter)), chapter);
    checked += chapter.size();
    from = to + 1;
  }
  EXPECT_EQ(checked, 115081u - 25);
}

TEST_F(Gpt2, RoundTripAndRefusalOfOtherBytes) {
  std::string text;
  for (std::uint32_t c = 1; c < 128; ++c) text += static_cast<char>(c), text += static_cast<char>(c * 37 % 127 + 1);
  EXPECT_EQ(tokenizer_->decode(encode(*tokenizer_, text)), text);
  expect_parts(message_of([&] { encode(*tokenizer_, "ab\xff"); }), {"text is not UTF-8 at byte 2"});
}

TEST_F(Gpt2, DocumentsBetweenBlankLines) {
  const Folder folder;
  folder.write("a.txt", "Hello world\n\nHello\n\n\nworld");
  const auto tokens = encoded_text(TextFiles(folder.path(), {"a.txt"}), tokenizer_, Documents::blank_lines, true);
  Ids ids(static_cast<std::size_t>(tokens->count()));
  tokens->read(0, ids);
  EXPECT_EQ(ids, (Ids{50256, 15496, 995, 628, 50256, 15496, 628, 50256, 198, 6894}));
  EXPECT_EQ(tokens->units({1, 9}), 26);  // the end of text stands for no character
  folder.write("b.txt", "Hello\n\n\n\nworld");
  const auto empty = encoded_text(TextFiles(folder.path(), {"b.txt"}), tokenizer_, Documents::blank_lines, true);
  expect_parts(message_of([&] { empty->count(); }), {"document 1", "b.txt", "byte 7", "empty"});
}

// Tiny Shakespeare as karpathy/llm.c's script prepares it: 32,768 + 305,260 tokens.
TEST_F(Gpt2, TinyShakespeare) {
  const char* path = std::getenv("QUADRILLE_TINYSHAKESPEARE");
  if (!path) GTEST_SKIP() << "QUADRILLE_TINYSHAKESPEARE does not name the text";
  const std::filesystem::path file(path);
  const auto tokens = encoded_text(TextFiles(file.parent_path().string(), {file.filename().string()}), tokenizer_,
                                   Documents::blank_lines, true);
  EXPECT_EQ(tokens->count(), 338028);
}

TEST(Gpt2Merges, WrongFilesAreRefusedWithTheLine) {
  const Folder folder;
  const auto refused = [&](std::string_view text) {
    const std::string path = folder.write("m.bpe", text);
    return message_of([&] { read_gpt2_tokenizer(path); });
  };
  expect_parts(refused(""), {"m.bpe is empty"});
  expect_parts(refused("#version: 0.2\na b\nab"), {"does not end with a line end"});
  expect_parts(refused("#version: 0.2\na b\nabc d\n"), {"m.bpe:3", "abc"});
  expect_parts(refused("a b\na b\n"), {"m.bpe:2", "exists already"});
  expect_parts(refused("a b c\n"), {"m.bpe:1", "no merge"});
  expect_parts(refused("a b\r\n"), {"m.bpe:1", "no merge"});
  expect_parts(refused("a\n"), {"m.bpe:1", "no merge"});
  expect_parts(refused("\xff\xfe\n"), {"not UTF-8"});
  expect_parts(message_of([] { read_gpt2_tokenizer("/nowhere/m.bpe"); }), {"/nowhere/m.bpe"});
}

}  // namespace
}  // namespace quadrille
