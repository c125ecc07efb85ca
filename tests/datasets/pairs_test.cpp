// SPDX-License-Identifier: Apache-2.0
// Pairs of sentences: what stands in a row, what is left out, and lines that are no pairs.
#include "datasets/pairs.h"

#include <algorithm>

#include "core/json.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

constexpr const char* kTrain =
    "The file is open.\tDie Datei ist offen.\n"
    "The cell is empty.\tDie Zelle ist leer.\n"
    "A very long sentence that will not fit into the row at all, because it goes on.\tZu lang.\n"
    "Close.\tSchlie\u00dfen.\n";

Datasets open_in(const Folder& folder, std::int64_t tokens = 24, const std::string& more = "", int vocabulary = 270) {
  return open_datasets(
      parse_json(R"({"source": "pairs", "train": "train.tsv", "tokenizer": {"kind": "bpe", "vocabulary": )" +
                     std::to_string(vocabulary) + "}" + more + "}",
                 "test"),
      tokens, folder.path());
}

TEST(PairsTest, Rows) {
  const Folder folder;
  folder.write("train.tsv", kTrain);
  const Datasets sets = open_in(folder, 24, R"(, "source_tokens": 20)");
  const auto& pairs = dynamic_cast<const Pairs&>(*sets.train);
  EXPECT_EQ(text_of(pairs.fields()), "source [20] i32, ids [24] i32, labels [24] i32");
  ASSERT_EQ(pairs.size(), 3);
  EXPECT_EQ(pairs.vocabulary(), 270);
  EXPECT_EQ(pairs.begin(), 268);
  EXPECT_EQ(pairs.end(), 269);
  EXPECT_EQ(pairs.description().at("pairs_left_out").integer(), 1);
  std::int64_t counted = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    const Batch row = single_sample(pairs, 7, i);
    const auto &source = row.integers("source"), &ids = row.integers("ids"), &labels = row.integers("labels");
    const auto length = static_cast<std::size_t>(std::ranges::find(labels, 269) - labels.begin());
    EXPECT_EQ(ids[0], 268);
    for (std::size_t k = 0; k < 24; ++k) {
      if (k < length) {
        EXPECT_EQ(ids[k + 1], labels[k]);
      } else if (k > length) {
        EXPECT_EQ(ids[k], -1);
        EXPECT_EQ(labels[k], -1);
      }
    }
    EXPECT_EQ(std::ranges::count(source, 269), 1);
    EXPECT_EQ(pairs.text_of_ids(labels), pairs.target(i));
    counted += static_cast<std::int64_t>(length) + 1;
  }
  EXPECT_EQ(pairs.target(2), "Schlie\u00dfen.");
  EXPECT_EQ(pairs.text_of_ids(single_sample(pairs, 0, 1).integers("source")), "The cell is empty.");
  EXPECT_EQ(pairs.labels(), counted);
  EXPECT_TRUE(pairs.holds(3));
  EXPECT_FALSE(pairs.holds(4));
}

TEST(PairsTest, LinesThatAreNoPairs) {
  const Folder folder;
  const auto refused = [&](std::string_view text) {
    folder.write("train.tsv", text);
    return message_of([&] { open_in(folder, 24, "", 258).train->scan(); });
  };
  expect_parts(refused("a\tb\nno pair\n"), {"train.tsv:2", "byte 4", "source TAB target"});
  expect_parts(refused("a\tb\tc\n"), {"train.tsv:1", "one TAB"});
  expect_parts(refused("\tb\n"), {"train.tsv:1"});
  expect_parts(refused("a\t\n"), {"train.tsv:1"});
  expect_parts(refused("a\tb\n\n"), {"train.tsv:2"});
  expect_parts(refused(fmt::format("{}\tb\n", "The quick brown fox jumps on")), {"no pair", "24 source", "1 left out"});
}

TEST(PairsTest, Refusals) {
  const Folder folder;
  folder.write("train.tsv", kTrain);
  expect_parts(message_of([&] { open_in(folder, 24, R"(, "evaluate": "train.tsv")"); }),
               {"train.tsv", "data.evaluate"});
  expect_parts(message_of([&] { open_in(folder, 1); }), {"at least 2"});
  expect_parts(message_of([&] {
                 open_datasets(parse_json(R"({"source": "pairs", "train": "train.tsv",
                                              "tokenizer": {"kind": "wordpiece", "file": "v"}})",
                                          "test"),
                               24, folder.path());
               }),
               {"wordpiece", "bpe"});
}

}  // namespace
}  // namespace quadrille
