// SPDX-License-Identifier: Apache-2.0
// R's data and Debian's packages: small whole ones are read, cut or changed ones end in an Error and never worse.
#include "datasets/rdata.h"
#include "datasets/inflate.h"

#include "core/build.h"
#include "datasets/package.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

const std::string kSmall = test_data() + "small";

class RData : public testing::Test {
 protected:
  void SetUp() override {
    if (!build_part("zlib").built) GTEST_SKIP() << "built without zlib";
  }
};

TEST(RDataAbsent, WithoutZlibItIsSaid) {
  if (build_part("zlib").built) GTEST_SKIP() << "this build has zlib";
  expect_parts(message_of([] { read_r_character_vectors(kSmall); }), {"small.rdx", "zlib1g-dev", "--from"});
}

TEST_F(RData, CharacterVectorsAreRead) {
  const auto vectors = read_r_character_vectors(kSmall);
  ASSERT_EQ(vectors.size(), 2u);  // the integer vector between them is passed over
  EXPECT_EQ(vectors[0].name, "first");
  EXPECT_EQ(vectors[0].lines, (std::vector<std::string>{"It was a dark night.", "", "na\xc3\xafve"}));
  EXPECT_EQ(vectors[1].name, "second");
  EXPECT_EQ(vectors[1].lines, (std::vector<std::string>{"One line"}));
}

TEST_F(RData, TruncatedAnywhere) {
  const std::string rdx = read_all(kSmall + ".rdx"), rdb = read_all(kSmall + ".rdb");
  EXPECT_NO_THROW(parse_r_character_vectors(rdx, rdb, "small"));
  for (std::size_t size = 0; size < rdb.size(); ++size)
    EXPECT_THROW(parse_r_character_vectors(rdx, rdb.substr(0, size), "small"), Error) << size;
  // The last 8 bytes of gzip are a checksum and a length: zlib wants them too.
  for (std::size_t size = 0; size < rdx.size(); ++size)
    EXPECT_THROW(parse_r_character_vectors(rdx.substr(0, size), rdb, "small"), Error) << size;
  expect_parts(message_of([&] { parse_r_character_vectors(rdx, rdb.substr(0, 60), "small"); }),
               {"small.rdb: first", "truncated"});
}

TEST_F(RData, AnyByteChangedNeverCrashes) {
  const std::string rdx = read_all(kSmall + ".rdx"), rdb = read_all(kSmall + ".rdb");
  for (std::size_t at = 0; at < rdb.size(); ++at) {
    for (int value : {0, 1, 127, 128, 255}) {
      std::string bad = rdb;
      bad[at] = static_cast<char>(value);
      try {
        parse_r_character_vectors(rdx, bad, "small");
      } catch (const Error&) {}
    }
  }
}

// Past the checksum of the compression: the serialised bytes themselves, every prefix and many changes, packed anew.
TEST_F(RData, DamagedSerialisationNeverCrashes) {
  const std::string rdx = read_all(kSmall + ".rdx"), rdb = read_all(kSmall + ".rdb");
  const std::string data = inflate_bytes(rdx, 1 << 20, "index");
  const auto stored = [](const std::string& text) {  // zlib with stored blocks (RFC 1950, 1951): no compressor needed
    std::string out("\x78\x01\x01", 3);
    const auto n = static_cast<std::uint16_t>(text.size());
    out += raw<std::uint16_t>({n, static_cast<std::uint16_t>(~n)}) + text;
    std::uint32_t a = 1, b = 0;
    for (char c : text) a = (a + static_cast<unsigned char>(c)) % 65521, b = (b + a) % 65521;
    for (int shift : {24, 16, 8, 0}) out += static_cast<char>((b << 16 | a) >> shift);
    return out;
  };
  EXPECT_EQ(parse_r_character_vectors(stored(data), rdb, "small").size(), 2u);
  for (std::size_t size = 0; size < data.size(); ++size)
    EXPECT_THROW(parse_r_character_vectors(stored(data.substr(0, size)), rdb, "small"), Error) << size;
  for (std::size_t at = 0; at < data.size(); ++at) {
    for (int value : {0, 1, 2, 16, 19, 127, 128, 254, 255}) {
      std::string bad = data;
      bad[at] = static_cast<char>(value);
      try {
        parse_r_character_vectors(stored(bad), rdb, "small");
      } catch (const Error&) {}
    }
  }
}

TEST_F(RData, WhatIsNoRDataIsSaid) {
  const std::string rdx = read_all(kSmall + ".rdx"), rdb = read_all(kSmall + ".rdb");
  expect_parts(message_of([&] { parse_r_character_vectors("hello", rdb, "small"); }), {"small.rdx", "damaged"});
  std::string other = rdb;
  other[4] = 'Z';
  expect_parts(message_of([&] { parse_r_character_vectors(rdx, other, "small"); }),
               {"first", "method 'Z'", "only zlib"});
  other = rdb;
  other[3] = static_cast<char>(other[3] + 1);
  expect_parts(message_of([&] { parse_r_character_vectors(rdx, other, "small"); }), {"first", "were promised"});
  expect_parts(message_of([] { read_r_character_vectors("/nowhere/Rdata"); }), {"/nowhere/Rdata.rdx"});
}

class Package : public testing::Test {
 protected:
  void SetUp() override {
    if (!build_part("libarchive").built) GTEST_SKIP() << "built without libarchive";
  }
};

TEST(PackageAbsent, WithoutLibarchiveItIsSaid) {
  if (build_part("libarchive").built) GTEST_SKIP() << "this build has libarchive";
  expect_parts(message_of([] { unpack_package("a.deb", {}); }), {"a.deb", "libarchive-dev", "dpkg-deb -x"});
}

TEST_F(Package, AllThreeCompressions) {
  for (const char* kind : {"xz", "gz", "zst"}) {
    const auto files = unpack_package(fmt::format("{}small-{}.deb", test_data(), kind), {"Rdata.rdx", "Rdata.rdb"});
    ASSERT_EQ(files.size(), 2u) << kind;
    for (const auto& [path, content] : files)
      EXPECT_EQ(content, read_all(kSmall + path.substr(path.rfind('.')))) << path;
  }
}

TEST_F(Package, TruncatedAnywhere) {
  for (const char* kind : {"xz", "gz", "zst"}) {
    const std::string good = read_all(fmt::format("{}small-{}.deb", test_data(), kind));
    for (std::size_t size = 0; size < good.size(); ++size) {
      const std::string part = good.substr(0, size);
      // Up to the end of the archive's padding a reader may already have both files; never may it have other ones.
      try {
        const auto files = unpack_package(part, "a.deb", {"Rdata.rdx", "Rdata.rdb"});
        for (const auto& [name, content] : files)
          EXPECT_EQ(content, read_all(kSmall + name.substr(name.rfind('.')))) << kind << " " << size;
      } catch (const Error&) {}
      if (size >= good.size() * 3 / 4) continue;
      EXPECT_THROW(unpack_package(part, "a.deb", {"Rdata.rdb"}), Error) << kind << " " << size;
    }
  }
}

TEST_F(Package, WhatIsNoPackageIsSaid) {
  const Folder folder;
  expect_parts(message_of([&] { unpack_package(folder.write("a.deb", "hello"), {}); }), {"a.deb is no Debian package"});
  expect_parts(message_of([&] { unpack_package(folder.write("a.deb", ""), {}); }), {"a.deb is no Debian package"});
  expect_parts(message_of([&] { unpack_package(folder / "b.deb", {}); }), {"b.deb", "No such file"});
}

// Found by tests/fuzz: a stream that libarchive refuses without a word.
TEST_F(Package, AFailureWithoutAReasonIsSaidToo) {
  const std::string ar =
      "!<arch>\ndebian-binary   0           0     0     100644  4         `\n2.0\ndata.tartar.gz  0           0     0  "
      "   100644  29        `\n";
  const std::string_view data(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x63\x60\x18\x05\xa3\x60\x14\x8c\x54\x00\x02\x2e\xaf\xb5\xef\x00\x04\x00"
      "\x00\x0a\xa1\x3f\x8b",
      33);
  expect_parts(message_of([&] { unpack_package(ar + std::string(data), "a.deb", {}); }), {"a.deb", "damaged"});
}

}  // namespace
}  // namespace quadrille
