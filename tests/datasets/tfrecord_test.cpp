// SPDX-License-Identifier: Apache-2.0
// TFRecord and tf.train.Example: a file of another program, packed and unpacked numbers, and all that can be wrong.
#include "datasets/tfrecord.h"

#include "core/build.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

std::string record(std::string_view data) {
  const std::string length = raw<std::uint64_t>({data.size()});
  return length + raw<std::uint32_t>({masked_crc(crc32c(length))}) + std::string(data) +
         raw<std::uint32_t>({masked_crc(crc32c(data))});
}
std::string piece(int field, std::string_view content) {  // below 2^14 bytes
  std::string text(1, static_cast<char>(field << 3 | 2));
  if (content.size() >= 128) text += static_cast<char>((content.size() & 0x7f) | 0x80);
  text += static_cast<char>(content.size() >= 128 ? content.size() >> 7 : content.size());
  return text.append(content);
}
std::string feature(std::string_view key, std::string_view value) { return piece(1, piece(1, key) + piece(2, value)); }

TEST(TfRecord, Checksum) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);  // RFC 3720, B.4 and the usual check value
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
}

TEST(TfRecord, ExamplesOfAnotherProgram) {
  const RecordFile file(test_data() + "sotu-bert.tfrecord");
  ASSERT_EQ(file.size(), 8);
  const Example example = parse_example(file.record(0), file.name(0));
  const auto& ids = integers_of(example, "input_ids", "x");
  ASSERT_EQ(ids.size(), 128u);
  EXPECT_EQ((std::vector<std::int64_t>(ids.begin(), ids.begin() + 6)),
            (std::vector<std::int64_t>{101, 1998, 2096, 5327, 103, 2551}));
  EXPECT_EQ(integers_of(example, "next_sentence_labels", "x").size(), 1u);
  EXPECT_EQ(std::get<std::vector<float>>(example.at("masked_lm_weights")).front(), 1.0f);
  EXPECT_EQ(example.size(), 7u);
  expect_parts(message_of([&] { integers_of(example, "masked_lm_weights", file.name(0)); }),
               {"record 0", "masked_lm_weights", "real numbers"});
  expect_parts(message_of([&] { integers_of(example, "inputs", file.name(0)); }), {"no \"inputs\"", "input_ids"});
}

TEST(TfRecord, PackedByGzip) {
  if (!build_part("zlib").built) GTEST_SKIP() << "no zlib";
  const RecordFile plain(test_data() + "sotu-bert.tfrecord"), packed(test_data() + "sotu-bert.tfrecord.gz");
  ASSERT_EQ(packed.size(), plain.size());
  for (std::int64_t i = 0; i < plain.size(); ++i) EXPECT_EQ(packed.record(i), plain.record(i));
  const Folder folder;
  const std::string whole = read_all(test_data() + "sotu-bert.tfrecord.gz");
  const std::string cut = folder.write("cut.gz", whole.substr(0, whole.size() / 2));
  expect_parts(message_of([&] { RecordFile file(cut); }), {"cut.gz", "truncated"});
}

TEST(TfRecord, NumbersPackedOrNot) {
  const std::string minus_one = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
  const std::string message = piece(
      1, feature("packed", piece(3, piece(1, std::string("\x01\xac\x02", 3) + minus_one))) +
             feature("single", piece(3, std::string("\x08\x01\x08\xac\x02", 5) + std::string(1, 8).append(minus_one))) +
             feature("mixed", piece(3, std::string("\x08\x07", 2) + piece(1, "\x08"))) +
             feature("real",
                     piece(2, std::string(1, 13).append(raw<float>({1.5f})).append(piece(1, raw<float>({-2.0f}))))) +
             feature("text", piece(1, piece(1, "ab") + piece(1, ""))) + feature("none", ""));
  const Example example = parse_example(message, "x");
  using Integers = std::vector<std::int64_t>;
  EXPECT_EQ(integers_of(example, "packed", "x"), (Integers{1, 300, -1}));
  EXPECT_EQ(integers_of(example, "single", "x"), (Integers{1, 300, -1}));
  EXPECT_EQ(integers_of(example, "mixed", "x"), (Integers{7, 8}));
  EXPECT_EQ(std::get<std::vector<float>>(example.at("real")), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(std::get<std::vector<std::string>>(example.at("text")), (std::vector<std::string>{"ab", ""}));
  EXPECT_TRUE(integers_of(example, "none", "x").empty());
}

TEST(TfRecord, UnknownFieldsArePassedOver) {
  const std::string odd = std::string("\x78\x05", 2) + "\x79" + std::string(8, 'x') + "\x7d" + "abcd" + piece(15, "zz");
  const std::string list = piece(3, piece(1, "\x05") + odd);
  const Example example =
      parse_example(odd + piece(1, odd + piece(1, piece(1, "k") + odd + piece(2, list + odd))), "x");
  EXPECT_EQ(integers_of(example, "k", "x"), std::vector<std::int64_t>{5});
}

TEST(TfRecord, DamagedFilesAreToldWithTheirPlace) {
  const Folder folder;
  const std::string good = record("abc") + record("defg");
  const auto refused = [&](std::string_view content) {
    const std::string path = folder.write("x.tfrecord", content);
    return message_of([&] {
      const RecordFile file(path);
      for (std::int64_t i = 0; i < file.size(); ++i) file.record(i);
    });
  };
  EXPECT_EQ(RecordFile(folder.write("good.tfrecord", good)).record(1), "defg");
  expect_parts(refused(""), {"x.tfrecord", "empty"});
  expect_parts(refused(good + "abc"), {"x.tfrecord", "record 2 begins at byte 39", "3 bytes are left", "12"});
  expect_parts(refused(good.substr(0, good.size() - 1)), {"record 1 (byte 19)", "has 4 bytes", "7 bytes further on"});
  std::string bad = good;
  bad[13] ^= 1;
  expect_parts(refused(bad), {"record 0 (byte 0)", "the data have checksum", "damaged"});
  bad = good;
  bad[20] ^= 1;
  expect_parts(refused(bad), {"record 1 (byte 19)", "the length has checksum"});
  const std::string huge = raw<std::uint64_t>({~std::uint64_t{0}});
  expect_parts(refused(huge + raw<std::uint32_t>({masked_crc(crc32c(huge))}) + "1234"),
               {"record 0", "18446744073709551615 bytes", "4 bytes further on"});
  expect_parts(refused("just a line of text, no records"), {"record 0 (byte 0)", "no TFRecord file"});
}

TEST(TfRecord, DamagedMessages) {
  const auto refused = [](std::string_view message) {
    return message_of([&] { parse_example(message, "x, record 0 (byte 0)"); });
  };
  expect_parts(refused("\x0a\x05"
                       "ab"),
               {"record 0", "5 bytes were wanted and 2 are left", "byte 2", "tf.train.Example"});
  expect_parts(refused(std::string(11, '\xff')), {"a number of more than 10 bytes"});
  expect_parts(refused("\x0f"), {"unknown wire type 7"});
  expect_parts(refused(piece(1, feature("k", piece(3,
                                                   "\x0d"
                                                   "abcd")))),
               {"a value of wire type 5"});
}

}  // namespace
}  // namespace quadrille
