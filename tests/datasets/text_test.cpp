// SPDX-License-Identifier: Apache-2.0
// Text through the byte tokenizer and through the configuration: counts, alphabets, and everything that is refused.
#include "datasets/text.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include "datasets/manifest.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

Datasets open(const std::string& config, const std::string& root, std::int64_t tokens = 4) {
  return open_datasets(parse_json(config, "test"), tokens, root);
}

void write_manifest(const Folder& folder, std::initializer_list<Json> entries) {
  Json manifest = new_manifest("m");
  for (const Json& entry : entries) set_manifest_entry(manifest, entry);
  folder.write("manifest.json", manifest.text());
}

TEST(ByteText, IdsAreTheBytesAcrossFiles) {
  const Folder folder;
  folder.write("a.txt", "hello");
  folder.write("b.txt", " world");
  const Datasets sets = open(R"({"source": "text", "train": ["a.txt", "b.txt"]})", folder.path(), 10);
  EXPECT_EQ(sets.evaluate, nullptr);
  EXPECT_EQ(sets.train->size(), 1);
  EXPECT_EQ(sets.train->vocabulary(), 256);
  const Batch batch = training_batch(*sets.train, 1, 0, 1, {0, 1});
  EXPECT_EQ(std::string(batch.integers("ids").begin(), batch.integers("ids").end()), "hello worl");
  EXPECT_EQ(std::string(batch.integers("labels").begin(), batch.integers("labels").end()), "ello world");
}

TEST(ByteText, UnitsAreTheCharactersOfTheLabels) {
  const Folder folder;
  folder.write("a.txt", "train me please");
  folder.write("b.txt", "xna\xc3\xafve \xe2\x82\xac");
  const Datasets sets = open(R"({"source": "text", "train": "a.txt", "evaluate": "b.txt"})", folder.path());
  EXPECT_EQ(sets.evaluate->labels(), 10);
  EXPECT_EQ(sets.evaluate->units(), 7);
  EXPECT_EQ(sets.evaluate->unit(), "character");
  EXPECT_EQ(sets.train->units(), 12);  // of the three whole windows of 4
}

TEST(ByteText, ShippedTextsOpenWithACompactAlphabet) {
  const Datasets sets = open(R"({"source": "text", "train": ["train.txt"], "evaluate": ["evaluate.txt"],
                                 "tokenizer": {"kind": "byte", "alphabet": "compact"}})",
                             test_data(), 64);
  sets.train->scan();
  sets.evaluate->scan();
  EXPECT_EQ(sets.train->vocabulary(), 72);
  EXPECT_EQ(sets.evaluate->labels(), 14990);
  EXPECT_EQ(sets.evaluate->units(), 14990);
  EXPECT_EQ(sets.train->size(), 59997 / 64);
  const std::string text = read_all(test_data() + "evaluate.txt");
  const auto tokenizer = make_compact_tokenizer(distinct_bytes(read_all(test_data() + "train.txt")));
  const Batch batch = evaluation_batch(*sets.evaluate, 0, {0, sets.evaluate->size()});
  EXPECT_EQ(tokenizer->decode(batch.integers("ids")).substr(0, text.size() - 1), text.substr(0, text.size() - 1));
}

TEST(ByteText, CompactRefusesAByteThatTrainingLacks) {
  const Folder folder;
  folder.write("a.txt", "abcabcabc");
  folder.write("b.txt", "abcazbc");
  const std::string config =
      R"({"source": "text", "train": "a.txt", "evaluate": "b.txt", "tokenizer": {"alphabet": "compact"}})";
  expect_parts(message_of([&] { open(config, folder.path()); }), {"b.txt", "0x7a", "position 4", "3 distinct bytes"});
  write_manifest(folder, {text_entry("a.txt", "abcabcabc"), text_entry("b.txt", "abcazbc")});
  expect_parts(message_of([&] { open(config, folder.path()); }), {"b.txt", "0x7a", "position 4"});
  Json lie = text_entry("b.txt", "abcazbc");  // a manifest that hides the byte: found when it is read
  lie.set("alphabet", to_hex("abc"));
  write_manifest(folder, {lie});
  const Datasets sets = open(config, folder.path());
  expect_parts(message_of([&] { evaluation_batch(*sets.evaluate, 0, {0, 2}); }), {"b.txt", "0x7a", "position 4"});
}

TEST(Text, ManifestsAreHeldAgainstTheFiles) {
  const Folder folder;
  folder.write("a.txt", "abcabcabc");
  write_manifest(folder, {text_entry("a.txt", "abcabcabcabc")});
  const std::string config = R"({"source": "text", "train": "a.txt"})";
  expect_parts(message_of([&] { open(config, folder.path()); }), {"a.txt", "9 bytes", "says 12"});
  write_manifest(folder, {text_entry("a.txt", "abcabcabd")});
  const Datasets sets = open(config, folder.path());
  expect_parts(message_of([&] { sets.train->scan(); }), {"a.txt", "SHA-256"});
}

TEST(Text, DamagedAndMissingFilesAreRefusedByName) {
  const Folder folder;
  folder.write("empty.txt", "");
  folder.write("latin.txt", "caf\xe9 au lait");
  expect_parts(message_of([&] { open(R"({"source": "text", "train": "none.txt"})", folder.path()); }),
               {"none.txt", "No such file"});
  expect_parts(message_of([&] { open(R"({"source": "text", "train": "empty.txt"})", folder.path()); }),
               {"empty.txt is empty"});
  expect_parts(message_of([&] { open(R"({"source": "text", "train": "."})", folder.path()); }), {"not a regular file"});
  const Datasets sets = open(R"({"source": "text", "train": "latin.txt"})", folder.path());
  expect_parts(message_of([&] { sets.train->scan(); }), {"latin.txt", "not UTF-8", "0xe9", "position 3"});
}

TEST(Text, ConfigurationMistakesAreNamed) {
  const Folder folder;
  folder.write("a.txt", "some text here");
  const auto refused = [&](const char* config) { return message_of([&] { open(config, folder.path()); }); };
  expect_parts(refused(R"({"source": "txt", "train": "a.txt"})"), {"data.source", "\"txt\"", "Did you mean text?"});
  expect_parts(refused(R"({"source": "text", "trian": "a.txt", "train": "a.txt"})"), {"trian", "train"});
  expect_parts(refused(R"({"source": "text"})"), {"train"});
  expect_parts(refused(R"({"source": "text", "train": []})"), {"data.train names no file"});
  expect_parts(refused(R"({"source": "text", "train": ["a.txt", "a.txt"]})"), {"a.txt twice"});
  expect_parts(refused(R"({"source": "text", "train": "a.txt", "evaluate": "a.txt"})"),
               {"a.txt is in data.train and in data.evaluate"});
  expect_parts(refused(R"({"source": "text", "train": "a.txt", "tokenizer": {"kind": "bytes"}})"), {"bytes", "byte"});
  expect_parts(refused(R"({"source": "text", "train": "a.txt", "tokenizer": {"vocabulary": 3}})"), {"vocabulary"});
  expect_parts(refused(R"({"source": "text", "train": "a.txt", "end_of_text": true})"), {"end_of_text", "only gpt2"});
  expect_parts(refused(R"({"source": "text", "train": "a.txt", "documents": "blank_lines"})"), {"blank_lines", "bpe"});
  expect_parts(refused(R"({"source": "text", "train": "a.txt", "tokenizer": {"kind": "bpe", "vocabulary": 255}})"),
               {"255", "256"});
}

TEST(Text, TooFewTokensAreRefusedAtOnce) {
  const Folder folder;
  folder.write("a.txt", "12345678");
  EXPECT_NO_THROW(open(R"({"source": "text", "train": "a.txt"})", folder.path(), 7));
  expect_parts(message_of([&] { open(R"({"source": "text", "train": "a.txt"})", folder.path(), 8); }),
               {"a.txt holds 8 tokens", "8 + 1 = 9"});
}

TEST(Text, TooFewBytePairsAreRefusedAtOnce) {
  const Folder folder;
  folder.write("a.txt", "the the the the cat");  // 19 bytes; with th, the, " the": 8 tokens of at most 4 bytes
  folder.write("b.txt", "t");
  const std::string pairs = R"("tokenizer": {"kind": "bpe", "vocabulary": 259}})";
  const auto text = [&](std::int64_t tokens) {
    return open(R"({"source": "text", "train": "a.txt", )" + pairs, folder.path(), tokens);
  };
  EXPECT_EQ(text(7).train->size(), 1);
  expect_parts(message_of([&] { text(8); }), {"a.txt holds 8 tokens", "8 + 1 = 9"});
  expect_parts(message_of([&] { text(19); }), {"a.txt holds 8 tokens", "19 + 1 = 20"});  // fewer bytes than tokens
  const auto holds = [&](std::int64_t windows) { return text(1).train->holds(windows); };
  for (std::int64_t windows = 0; windows < 30; ++windows) EXPECT_EQ(holds(windows), windows <= 7) << windows;
  EXPECT_FALSE(holds(std::numeric_limits<std::int64_t>::max()));
  expect_parts(message_of([&] {
                 open(R"({"source": "text", "train": "a.txt", "evaluate": "b.txt", )" + pairs, folder.path(), 2);
               }),
               {"b.txt holds 1 tokens", "at least 2"});
}

TEST(Text, ResolvedConfigurationOpensTheSameSets) {
  const std::string config = R"({"source": "text", "train": "train.txt", "evaluate": "evaluate.txt"})";
  const Datasets first = open(config, test_data(), 32);
  const Datasets second = open(first.resolved.text(), test_data(), 32);
  EXPECT_EQ(first.resolved, second.resolved);
  EXPECT_EQ(first.resolved.at("tokenizer").at("alphabet").string(), "full");
  EXPECT_EQ(training_batch(*first.train, 1, 2, 4, {0, 4}).integers("ids"),
            training_batch(*second.train, 1, 2, 4, {0, 4}).integers("ids"));
}

TEST(ByteTokenizer, RoundTripOfAnyBytes) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  std::vector<std::int32_t> ids;
  make_byte_tokenizer()->encode(all, "all", 0, ids);
  EXPECT_EQ(make_byte_tokenizer()->decode(ids), all);
  expect_parts(message_of([] { make_byte_tokenizer()->bytes_of(256); }), {"256"});
  expect_parts(message_of([] { make_compact_tokenizer("ba"); }), {"ascending"});
}

}  // namespace
}  // namespace quadrille
