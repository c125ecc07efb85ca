// SPDX-License-Identifier: Apache-2.0
// Byte pairs learned from text: an example worked by hand, a slow reference, round trips, the cached merges.
#include <algorithm>
#include <filesystem>
#include <map>

#include "core/random.h"
#include "datasets/merges_cache.h"
#include "datasets/text.h"
#include "datasets/words.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

std::vector<Merge> learn(std::string_view text, std::int64_t vocabulary) {
  return learn_merges(std::vector{text}, vocabulary);
}
std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, "text", 0, ids);
  return ids;
}
std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> list;
  split_words(text, false, byte_class, [&](std::string_view word) { list.emplace_back(word); });
  return list;
}

std::string noise(std::uint64_t seed, std::size_t size, int distinct) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(bits_at(seed, i) % static_cast<unsigned>(distinct));
  return text;
}

// The definition, without any bookkeeping: count all pairs of all words, merge the best, repeat.
std::vector<Merge> learn_slowly(std::string_view text, std::int64_t vocabulary) {
  std::vector<std::vector<std::int32_t>> all;
  split_words(text, false, byte_class, [&](std::string_view word) {
    auto& ids = all.emplace_back();
    for (char c : word) ids.push_back(static_cast<unsigned char>(c));
  });
  std::vector<Merge> merges;
  for (std::int32_t id = 256; id < vocabulary; ++id) {
    std::map<Merge, int> counts;
    for (const auto& ids : all) {
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) ++counts[{ids[i], ids[i + 1]}];
    }
    const auto best = std::ranges::max_element(
        counts, [](const auto& a, const auto& b) { return a.second < b.second; });  // the first of equals
    merges.push_back(best->first);
    for (auto& ids : all) {
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        if (Merge(ids[i], ids[i + 1]) != best->first) continue;
        ids[i] = id;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return merges;
}

TEST(Words, FallAsInGpt2) {
  using List = std::vector<std::string>;
  EXPECT_EQ(words("Hello  big world12, ok\n\n  x"),
            (List{"Hello", " ", " big", " world", "12", ",", " ok", "\n\n ", " x"}));
  EXPECT_EQ(words("it's"), (List{"it", "'", "s"}));
  EXPECT_EQ(words("a \n"), (List{"a", " \n"}));
  EXPECT_EQ(words("na\xc3\xafve"), (List{"na\xc3\xafve"}));
  EXPECT_EQ(words(""), List{});
}

TEST(LearnMerges, ExampleWorkedByHand) {
  // "ab" x 3, " abc" x 2, " c" x 1: pairs ab 5, " a" 2, bc 2, " c" 1. First ab = 256; then " ab" and "abc" twice each:
  // (32, 256) is smaller than (256, 99) and gets 257; then (257, 99) twice.
  const auto merges = learn("ab\nab\nab abc abc c", 259);
  EXPECT_EQ(merges, (std::vector<Merge>{{'a', 'b'}, {32, 256}, {257, 'c'}}));
  const auto tokenizer = make_bpe_tokenizer(merges);
  EXPECT_EQ(tokenizer->vocabulary(), 259);
  EXPECT_EQ(encode(*tokenizer, "ab abc abd bab"), (std::vector<std::int32_t>{256, 258, 257, 'd', 32, 'b', 256}));
}

TEST(LearnMerges, AgreesWithTheDefinition) {
  const std::string text = read_all(test_data() + "train.txt").substr(0, 6000);
  EXPECT_EQ(learn(text, 420), learn_slowly(text, 420));
  const std::string dense = noise(3, 800, 3) + "aaaa aaaaa aaa aaaaaaaa";
  EXPECT_EQ(learn(dense, 300), learn_slowly(dense, 300));
}

TEST(LearnMerges, TheOrderOfTextsDoesNotMatter) {
  const std::string text = read_all(test_data() + "train.txt");
  const std::size_t half = text.find('\n', text.size() / 2) + 1;
  const std::string_view whole(text), a = whole.substr(0, half), b = whole.substr(half);
  EXPECT_EQ(learn_merges(std::vector{a, b}, 700), learn_merges(std::vector{b, a}, 700));
}

TEST(LearnMerges, MoreThanTheTextHoldsIsRefused) {
  expect_parts(message_of([] { learn("abab abab", 300); }), {"vocabulary of 258 ids only", "300"});
  expect_parts(message_of([] { learn("x", 100); }), {"100", "256"});
}

TEST(Bpe, RoundTripOfTextAndOfRandomBytes) {
  const std::string text = read_all(test_data() + "train.txt");
  const auto tokenizer = make_bpe_tokenizer(learn(text, 1000));
  const auto ids = encode(*tokenizer, text);
  EXPECT_LT(ids.size(), text.size() / 2);
  EXPECT_EQ(tokenizer->decode(ids), text);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::string random = noise(seed, 3000, seed % 2 ? 256 : 100);
    EXPECT_EQ(tokenizer->decode(encode(*tokenizer, random)), random);
  }
}

TEST(Bpe, ALongRunOfOneCharacterIsNoTrap) {
  const auto tokenizer = make_bpe_tokenizer({{'a', 'a'}, {256, 256}, {257, 257}});
  const std::string run(1000003, 'a');
  const auto ids = encode(*tokenizer, run);
  EXPECT_EQ(ids.size(), 125000u + 2);  // eights, then 3 left: 2 + 1
  EXPECT_EQ(tokenizer->decode(ids), run);
}

TEST(Bpe, BadMergesAreRefused) {
  expect_parts(message_of([] { make_bpe_tokenizer({{'a', 256}}); }), {"merge 0", "256"});
  expect_parts(message_of([] { make_bpe_tokenizer({{'a', 'b'}, {'a', 'b'}}); }), {"merge 1", "second time"});
}

TEST(MergesCache, IsMadeOnceAndVerified) {
  const Folder folder;
  folder.write("a.txt", read_all(test_data() + "train.txt"));
  const TextFiles files(folder.path(), {"a.txt"});
  const std::string path = merges_path(files, 400);
  EXPECT_FALSE(std::filesystem::exists(path));
  const auto merges = learned_merges(files, 400);
  ASSERT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(learned_merges(files, 400), merges);
  const std::string good = read_all(path);
  std::string bad = good;
  bad[good.size() / 2] ^= 1;
  std::ofstream(path, std::ios::binary) << bad;
  expect_parts(message_of([&] { learned_merges(files, 400); }), {path, "damaged", "Delete"});
  for (std::size_t size = 0; size < good.size(); size += 37) {
    std::ofstream(path, std::ios::binary) << good.substr(0, size);
    EXPECT_THROW(learned_merges(files, 400), Error);
  }
  std::filesystem::remove(path);
  learned_merges(files, 300);
  std::filesystem::rename(merges_path(files, 300), path);  // whole, but of another vocabulary
  expect_parts(message_of([&] { learned_merges(files, 400); }), {path, "vocabulary 400"});
}

TEST(MergesCache, OtherTextIsLearnedAnew) {
  const Folder folder;
  folder.write("a.txt", "the cat sat on the mat on the hat");
  folder.write("b.txt", "dogs dig dogs dig dogs");
  EXPECT_NE(merges_path(TextFiles(folder.path(), {"a.txt"}), 260),
            merges_path(TextFiles(folder.path(), {"b.txt"}), 260));
}

TEST(BpeText, UnitsAreTheCharactersOfAllTokensButTheFirst) {
  const Folder folder;
  folder.write("a.txt", "the the the the cat");
  folder.write("b.txt", "the cat");
  const Datasets sets = open_datasets(parse_json(R"({"source": "text", "train": "a.txt", "evaluate": "b.txt",
      "tokenizer": {"kind": "bpe", "vocabulary": 259}})",
                                                 "test"),
                                      2, folder.path());
  EXPECT_EQ(sets.evaluate->vocabulary(), 259);
  // " the" x 3 and "the": th, the, " the" are the three merges; "the" " " "c" "a" "t".
  EXPECT_EQ(sets.evaluate->labels(), 4);
  EXPECT_EQ(sets.evaluate->units(), 4);
  EXPECT_EQ(sets.evaluate->unit(), "character");
  sets.train->scan();
}

}  // namespace
}  // namespace quadrille
