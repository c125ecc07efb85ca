// SPDX-License-Identifier: Apache-2.0
// Files of ids: what is written is read back, and every way a file can be wrong has its message. Truncated at every
// length each of them ends in an Error.
#include "datasets/token_files.h"

#include <algorithm>
#include <numeric>

#include "datasets/manifest.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

using Ids = std::vector<std::int32_t>;

Ids read(const TokenFile& file, std::int64_t vocabulary) {
  const FileTokens tokens({file.piece}, file.type, vocabulary, Json());
  Ids ids(static_cast<std::size_t>(tokens.count()));
  tokens.read(0, ids);
  return ids;
}

std::string header(std::int32_t magic, std::int32_t version, std::int32_t count) {
  return raw<std::int32_t>({magic, version, count}) + std::string(1012, '\0');
}

template <class Open>
void truncate_everywhere(const Folder& folder, const std::string& name, const std::string& good, Open open) {
  folder.write(name, good);
  for (std::size_t size = good.size(); size-- > 0;) {
    std::filesystem::resize_file(folder / name, size);
    EXPECT_THROW(open(), Error) << size << " of " << good.size() << " bytes of " << name;
  }
  folder.write(name, good);
  EXPECT_NO_THROW(open());
}

TEST(Llmc, WrittenAndReadBack) {
  const Folder folder;
  const Ids ids = {1, 2, 50256, 0, 65535};
  write_llmc(folder / "a.bin", ids, 65536);
  const std::string bytes = read_all(folder / "a.bin");
  EXPECT_EQ(bytes, header(20240520, 1, 5) + raw<std::uint16_t>({1, 2, 50256, 0, 65535}));
  const TokenFile file = open_llmc(folder / "a.bin");
  EXPECT_EQ(file.vocabulary, 50257);
  EXPECT_EQ(read(file, 65536), ids);
  const Ids wide = {1, 128255, 70000};
  write_llmc(folder / "b.bin", wide, 128256);
  EXPECT_EQ(read_all(folder / "b.bin"), header(20240801, 7, 3) + raw<std::uint32_t>({1, 128255, 70000}));
  EXPECT_EQ(open_llmc(folder / "b.bin").vocabulary, 128256);
  EXPECT_EQ(read(open_llmc(folder / "b.bin"), 128256), wide);
  expect_parts(message_of([&] { write_llmc(folder / "c.bin", Ids{3, 9}, 9); }), {"id 9", "token 1", "9 ids"});
}

TEST(Llmc, WrongHeadersAreNamed) {
  const Folder folder;
  const auto refused = [&](const std::string& bytes) {
    const std::string path = folder.write("a.bin", bytes);
    return message_of([&] { open_llmc(path); });
  };
  const std::string two = raw<std::uint16_t>({1, 2});
  expect_parts(refused(header(__builtin_bswap32(20240520), 0x01000000, 0x02000000) + two),
               {"a.bin is byte-swapped", "20240520"});
  expect_parts(refused(header(20240522, 1, 2) + two), {"multiple-choice"});
  expect_parts(refused(header(20240328, 1, 2) + two), {"tokenizer"});
  expect_parts(refused(header(7, 1, 2) + two), {"no llm.c file", "magic number is 7"});
  expect_parts(refused(header(20240520, 2, 2) + two), {"version 2", "wanted 1"});
  expect_parts(refused(header(20240801, 1, 2) + two), {"version 1", "wanted 7"});
  expect_parts(refused(header(20240520, 1, -2) + two), {"-2 tokens"});
  expect_parts(refused(header(20240520, 1, 3) + two), {"1024 + 3 x 2 = 1030 bytes", "truncated"});
  expect_parts(refused(header(20240520, 1, 1) + two), {"longer"});
  expect_parts(refused(header(20240520, 1, 2147483647) + two), {"truncated"});
  expect_parts(refused("short"), {"5 bytes", "1024"});
}

TEST(Llmc, TruncatedAnywhere) {
  const Folder folder;
  truncate_everywhere(folder, "a.bin", header(20240520, 1, 3) + raw<std::uint16_t>({1, 2, 3}),
                      [&] { open_llmc(folder / "a.bin"); });
}

TEST(FileTokens, IdsBeyondTheVocabularyAreNamed) {
  const Folder folder;
  folder.write("a.bin", header(20240520, 1, 4) + raw<std::uint16_t>({1, 2, 77, 3}));
  expect_parts(message_of([&] { read(open_llmc(folder / "a.bin"), 77); }),
               {"a.bin", "id 77", "token 2", "byte 1028", "77 ids (0 to 76)"});
  EXPECT_NO_THROW(read(open_llmc(folder / "a.bin"), 78));
  folder.write("b.bin", raw<std::uint16_t>({1, 0x0500}));
  expect_parts(message_of([&] { read(open_nanogpt(folder / "b.bin"), 100); }),
               {"id 1280", "token 1", "other way round it would be 5"});
  const auto data = training_windows(
      std::make_shared<FileTokens>(std::vector{open_llmc(folder / "a.bin").piece}, IdType::u16, 77, Json()), 3);
  expect_parts(message_of([&] { training_batch(*data, 1, 0, 1, {0, 1}); }), {"id 77", "token 2"});
}

TEST(FileTokens, PiecesAreReadAsOneRow) {
  const Folder folder;
  std::vector<Piece> pieces;
  std::int32_t next = 0;
  for (std::int32_t size : {3, 1, 7, 2}) {
    Ids ids(static_cast<std::size_t>(size));
    std::iota(ids.begin(), ids.end(), next);
    next += size;
    const std::string path = folder / fmt::format("{}.bin", next);
    write_llmc(path, ids, 100);
    pieces.push_back(open_llmc(path).piece);
  }
  const FileTokens tokens(pieces, IdType::u16, 100, Json());
  ASSERT_EQ(tokens.count(), 13);
  for (std::int64_t first = 0; first <= 13; ++first) {
    for (std::int64_t count = 0; first + count <= 13; ++count) {
      Ids ids(static_cast<std::size_t>(count));
      tokens.read(first, ids);
      for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(ids[static_cast<std::size_t>(i)], first + i);
    }
  }
  Ids two(2);
  expect_parts(message_of([&] { tokens.read(12, two); }), {"[12, 14)", "13"});
  expect_parts(message_of([&] { tokens.read(-1, two); }), {"[-1, 1)"});
}

std::string megatron_index(std::uint8_t type, const std::vector<std::int32_t>& lengths,
                           const std::vector<std::int64_t>& offsets, const std::vector<std::int64_t>& boundaries) {
  std::string text("MMIDIDX\0\0", 9);
  text += raw<std::uint64_t>({1}) + raw<std::uint8_t>({type}) + raw<std::uint64_t>({lengths.size(), boundaries.size()});
  for (auto v : lengths) text += raw({v});
  for (auto v : offsets) text += raw({v});
  for (auto v : boundaries) text += raw({v});
  return text;
}

TEST(Megatron, RealSet) {
  const TokenFile file = open_megatron(test_data() + "persuasion");
  EXPECT_EQ(file.type, IdType::u16);
  const Ids ids = read(file, 50257);
  EXPECT_EQ(ids.size(), 115081u);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 50256), 25);
  EXPECT_EQ(open_megatron(test_data() + "persuasion.bin").piece.count, 115081);
  EXPECT_EQ(open_megatron(test_data() + "persuasion.idx").piece.count, 115081);
}

TEST(Megatron, EveryTypeOfIds) {
  const Folder folder;
  const auto check = [&](std::uint8_t code, const std::string& bytes, std::int64_t width) {
    folder.write("a.idx", megatron_index(code, {2, 1}, {0, 2 * width}, {0, 1, 2}));
    folder.write("a.bin", bytes);
    EXPECT_EQ(read(open_megatron(folder / "a"), 100), (Ids{7, 8, 9})) << int{code};
  };
  check(1, raw<std::uint8_t>({7, 8, 9}), 1);
  check(2, raw<std::int8_t>({7, 8, 9}), 1);
  check(3, raw<std::int16_t>({7, 8, 9}), 2);
  check(4, raw<std::int32_t>({7, 8, 9}), 4);
  check(5, raw<std::int64_t>({7, 8, 9}), 8);
  check(8, raw<std::uint16_t>({7, 8, 9}), 2);
  folder.write("a.idx", megatron_index(4, {2, 1}, {0, 8}, {0, 1, 2}));
  folder.write("a.bin", raw<std::int32_t>({7, -8, 9}));
  expect_parts(message_of([&] { read(open_megatron(folder / "a"), 100); }), {"id -8", "token 1"});
}

TEST(Megatron, WrongIndicesAreNamed) {
  const Folder folder;
  folder.write("a.bin", raw<std::uint16_t>({7, 8, 9}));
  const auto refused = [&](const std::string& index) {
    folder.write("a.idx", index);
    return message_of([&] { open_megatron(folder / "a"); });
  };
  const std::string good = megatron_index(8, {2, 1}, {0, 4}, {0, 1, 2});
  expect_parts(refused("X" + good.substr(1)), {"no Megatron index", "MMIDIDX"});
  std::string other = good;
  other[9] = 2;
  expect_parts(refused(other), {"version 2"});
  other = good;
  std::swap(other[9], other[16]);
  expect_parts(refused(other), {"byte-swapped"});
  expect_parts(refused(megatron_index(6, {2, 1}, {0, 4}, {0, 1, 2})), {"type 6"});
  expect_parts(refused(megatron_index(8, {2, 1}, {0, 6}, {0, 1, 2})), {"sequence 1 begins at byte 6, wanted 4"});
  expect_parts(refused(megatron_index(8, {3, 0}, {0, 6}, {0, 1, 2})), {"sequence 1 has 0 tokens", "empty documents"});
  expect_parts(refused(megatron_index(8, {2, -1}, {0, 4}, {0, 1, 2})), {"sequence 1 has -1 tokens"});
  expect_parts(refused(megatron_index(8, {2, 1}, {0, 4}, {0, 1, 1})), {"boundary 2", "the document is empty"});
  expect_parts(refused(megatron_index(8, {2, 1}, {0, 4}, {1, 2})), {"boundary 0"});
  expect_parts(refused(megatron_index(8, {2, 1}, {0, 4}, {0, 1})), {"ends at sequence 1 of 2"});
  expect_parts(refused(megatron_index(8, {2, 2}, {0, 4}, {0, 1, 2})), {"a.bin has 6 bytes", "4 tokens", "truncated"});
  expect_parts(refused(megatron_index(8, {2}, {0}, {0, 1})), {"another file"});
  expect_parts(refused(good + "ab"), {"multimodal"});
  expect_parts(refused(good + "abc"), {"damaged"});
  other = good;
  other[25] = 0x7f;  // S near 2^63
  expect_parts(refused(other), {"truncated or damaged"});
  other = good;
  other[33] = 0x7f;
  expect_parts(refused(other), {"truncated or damaged"});
  std::filesystem::remove(folder / "a.idx");
  expect_parts(message_of([&] { open_megatron(folder / "a.bin"); }), {"a.idx", "No such file"});
}

TEST(Megatron, TruncatedAnywhere) {
  const Folder folder;
  folder.write("a.bin", raw<std::uint16_t>({7, 8, 9}));
  truncate_everywhere(folder, "a.idx", megatron_index(8, {2, 1}, {0, 4}, {0, 1, 2}),
                      [&] { open_megatron(folder / "a"); });
  truncate_everywhere(folder, "a.bin", raw<std::uint16_t>({7, 8, 9}), [&] { open_megatron(folder / "a"); });
}

TEST(Megatron, AnyByteChangedNeverCrashes) {
  const Folder folder;
  folder.write("a.bin", raw<std::uint16_t>({7, 8, 9}));
  const std::string good = megatron_index(8, {2, 1}, {0, 4}, {0, 1, 2});
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int value : {0, 1, 127, 128, 255}) {
      std::string bad = good;
      bad[at] = static_cast<char>(value);
      folder.write("a.idx", bad);
      try {
        read(open_megatron(folder / "a"), 100);
      } catch (const Error&) {}
    }
  }
}

TEST(NanoGpt, ReadAndRefused) {
  const Folder folder;
  folder.write("a.bin", raw<std::uint16_t>({7, 50256, 9}));
  EXPECT_EQ(read(open_nanogpt(folder / "a.bin"), 50257), (Ids{7, 50256, 9}));
  folder.write("a.bin", "abc");
  expect_parts(message_of([&] { open_nanogpt(folder / "a.bin"); }), {"3 bytes", "odd"});
  folder.write("a.bin", "");
  expect_parts(message_of([&] { open_nanogpt(folder / "a.bin"); }), {"empty"});
  folder.write("a.bin", header(20240520, 1, 0));
  expect_parts(message_of([&] { open_nanogpt(folder / "a.bin"); }), {"llmc"});
  folder.write("a.bin", std::string("MMIDIDX\0\0\0", 10));
  expect_parts(message_of([&] { open_nanogpt(folder / "a.bin"); }), {"megatron"});
}

Datasets open(const std::string& config, const std::string& root, std::int64_t tokens = 2) {
  return open_datasets(parse_json(config, "test"), tokens, root);
}

TEST(TokenConfig, ShardsVocabularyAndUnits) {
  const Folder folder;
  write_llmc(folder / "a.bin", Ids{1, 2, 3}, 50257);
  write_llmc(folder / "b.bin", Ids{4, 5, 6}, 50257);
  const Datasets sets = open(R"({"source": "llmc", "train": ["a.bin", "b.bin"]})", folder.path());
  EXPECT_EQ(sets.train->size(), 2);
  EXPECT_EQ(sets.train->vocabulary(), 50257);
  EXPECT_EQ(sets.resolved.at("vocabulary").integer(), 50257);
  EXPECT_EQ(sets.train->unit(), "token");
  EXPECT_EQ(sets.train->units(), 4);
  EXPECT_NO_THROW(open(R"({"source": "llmc", "train": ["a.bin"], "vocabulary": 4})", folder.path()).train->scan());
  expect_parts(message_of([&] {
                 open(R"({"source": "llmc", "train": ["a.bin"], "vocabulary": 3})", folder.path()).train->scan();
               }),
               {"id 3"});
}

TEST(TokenConfig, RefusedByName) {
  const Folder folder;
  write_llmc(folder / "a.bin", Ids{1, 2, 3}, 50257);
  write_llmc(folder / "copy.bin", Ids{1, 2, 3}, 50257);
  write_llmc(folder / "wide.bin", Ids{1, 2, 3}, 128256);
  folder.write("n.bin", raw<std::uint16_t>({7, 8, 9}));
  const auto refused = [&](const char* config, std::int64_t tokens = 2) {
    return message_of([&] { open(config, folder.path(), tokens); });
  };
  expect_parts(refused(R"({"source": "llmc", "train": ["a.bin", "copy.bin"]})"),
               {"a.bin and", "copy.bin hold the same bytes", "shard"});
  expect_parts(refused(R"({"source": "llmc", "train": ["a.bin", "a.bin"]})"), {"a.bin twice"});
  expect_parts(refused(R"({"source": "llmc", "train": ["a.bin", "gone.bin"]})"), {"gone.bin", "No such file"});
  expect_parts(refused(R"({"source": "llmc", "train": ["a.bin", "wide.bin"]})"),
               {"wide.bin holds ids of 4 bytes", "of 2"});
  expect_parts(refused(R"({"source": "nanogpt", "train": "n.bin"})"), {"data.vocabulary is missing", "nanogpt"});
  expect_parts(refused(R"({"source": "llmc", "train": "a.bin", "evaluate": "a.bin"})"),
               {"a.bin is in data.train and in data.evaluate"});
  expect_parts(refused(R"({"source": "llmc", "train": "a.bin"})", 3), {"holds 3 tokens", "3 + 1 = 4 tokens"});
  expect_parts(refused(R"({"source": "llmc", "train": "a.bin", "vocab": 3})"), {"vocab"});
  expect_parts(refused(R"({"source": "llmc", "train": "a.bin", "vocabulary": 0})"), {"0"});
}

}  // namespace
}  // namespace quadrille
