// SPDX-License-Identifier: Apache-2.0
// SHA-256 against the published examples, UTF-8, alphabets, and manifests that are not what they should be.
#include "datasets/manifest.h"

#include "datasets/sha256.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

TEST(Sha256, PublishedExamples) {  // FIPS 180-4's example values (NIST, "Examples with Intermediate Values")
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesAreTheWhole) {
  const std::string text = read_all(test_data() + "train.txt").substr(0, 300);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 sum;
    sum.add(text.substr(0, cut));
    sum.add(text.substr(cut));
    EXPECT_EQ(sum.hex(), sha256_of(text));
  }
}

TEST(Utf8, IllFormedIsFoundWhereItBegins) {
  EXPECT_EQ(first_ill_formed("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), -1);
  EXPECT_EQ(first_ill_formed("ab\xff"), 2);
  EXPECT_EQ(first_ill_formed("a\x80"), 1);
  EXPECT_EQ(first_ill_formed("a\xc0\xaf"), 1);         // overlong
  EXPECT_EQ(first_ill_formed("\xe0\x80\x80"), 0);      // overlong
  EXPECT_EQ(first_ill_formed("\xed\xa0\x80"), 0);      // surrogate
  EXPECT_EQ(first_ill_formed("\xf4\x90\x80\x80"), 0);  // above U+10FFFF
  EXPECT_EQ(first_ill_formed("x\xe2\x82"), 1);         // cut short
  EXPECT_EQ(count_characters("na\xc3\xafve \xf0\x9f\x98\x80"), 7);
}

TEST(Manifest, HexRoundTrip) {
  EXPECT_EQ(to_hex(distinct_bytes("hello\n")), "0a65686c6f");
  EXPECT_EQ(from_hex("0a65686c6f", "x"), "\nehlo");
  expect_parts(message_of([] { from_hex("0g", "here"); }), {"here", "'g'"});
  expect_parts(message_of([] { from_hex("012", "here"); }), {"odd number"});
}

TEST(Manifest, WrongOnesAreRefused) {
  const Folder folder;
  EXPECT_FALSE(read_manifest(folder.path()));
  folder.write("manifest.json", R"({"quadrille_manifest": 2, "files": []})");
  expect_parts(message_of([&] { read_manifest(folder.path()); }), {"manifest.json", "version 2", "version 1"});
  folder.write("manifest.json", R"({"quadrille_manifest": 1, "files": [{"file": "a", "bytes": 1, "sha256": "00"}]})");
  expect_parts(message_of([&] { read_manifest(folder.path()); }), {"64 hexadecimal digits"});
  folder.write("manifest.json", R"({"quadrille_manifest": 1, "files": [{"file": "a")");
  expect_parts(message_of([&] { read_manifest(folder.path()); }), {"manifest.json"});
}

TEST(Manifest, EntriesAreReplaced) {
  Json manifest = new_manifest("m");
  set_manifest_entry(manifest, text_entry("a", "one"));
  set_manifest_entry(manifest, text_entry("b", "two"));
  set_manifest_entry(manifest, text_entry("a", "three"));
  EXPECT_EQ(manifest.at("files").size(), 2u);
  EXPECT_EQ(manifest_entry(manifest, "a")->at("bytes").integer(), 5);
  EXPECT_EQ(manifest_entry(manifest, "c"), nullptr);
}

TEST(Manifest, ChangedFilesAreNamed) {
  const Folder folder;
  folder.write("a.txt", "hello");
  const Json entry = text_entry("a.txt", "hello");
  EXPECT_NO_THROW(check_against_entry(folder.path(), entry));
  folder.write("a.txt", "hell");
  expect_parts(message_of([&] { check_against_entry(folder.path(), entry); }), {"a.txt", "4 bytes", "says 5"});
  folder.write("a.txt", "jello");
  expect_parts(message_of([&] { check_against_entry(folder.path(), entry); }), {"a.txt", "SHA-256"});
}

}  // namespace
}  // namespace quadrille
