// SPDX-License-Identifier: Apache-2.0
// BERT's samples: from text (segments, masks, addresses, split), and from MLPerf's records.
#include "datasets/bert.h"

#include <algorithm>
#include <cmath>

#include "core/json.h"
#include "datasets/tfrecord.h"
#include "datasets/wordpiece.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr std::int64_t kTokens = 64;

Json text_config(const std::string& more = "") {
  return parse_json(R"({"source": "bert_text", "train": ["sotu-sentences.txt"], "evaluate_every": 3,
    "tokenizer": {"kind": "wordpiece", "file": "bert-uncased-vocab.txt"})" +
                        more + "}",
                    "test");
}
Datasets text_sets(const std::string& more = "") { return open_datasets(text_config(more), kTokens, test_data()); }
Batch sample(const Dataset& data, std::int64_t epoch, std::int64_t index) { return single_sample(data, epoch, index); }

// The row as it was before anything was masked.
Ids restored(const Batch& row) {
  Ids ids = row.integers("ids");
  const auto &places = row.integers("places"), &labels = row.integers("labels");
  for (std::size_t i = 0; i < places.size() && places[i] >= 0; ++i)
    ids[static_cast<std::size_t>(places[i])] = labels[i];
  return ids;
}

TEST(BertText, FieldsAndForm) {
  const Datasets sets = text_sets();
  EXPECT_EQ(text_of(sets.train->fields()),
            "ids [64] i32, segments [64] i32, places [10] i32, labels [10] i32, next [1] i32");
  EXPECT_EQ(sets.train->vocabulary(), 30522);
  for (std::int64_t i = 0; i < sets.train->size(); ++i) {
    const Batch row = sample(*sets.train, 1, i);
    const auto &ids = row.integers("ids"), &segments = row.integers("segments"), &places = row.integers("places"),
               &labels = row.integers("labels");
    const auto length = std::ranges::find(ids, -1) - ids.begin();
    EXPECT_EQ(ids[0], 101);
    EXPECT_EQ(ids[static_cast<std::size_t>(length - 1)], 102);
    EXPECT_EQ(std::ranges::count(ids, 102), 2);
    const auto first = std::ranges::find(ids, 102) - ids.begin();
    for (std::ptrdiff_t k = 0; k < kTokens; ++k) {
      EXPECT_EQ(segments[static_cast<std::size_t>(k)], k >= length ? -1 : k > first);
      EXPECT_EQ(ids[static_cast<std::size_t>(k)] == -1, k >= length);
    }
    const auto masks = std::ranges::find(places, -1) - places.begin();
    EXPECT_EQ(masks, std::clamp<std::int64_t>(std::llround(0.15 * static_cast<double>(length)), 1, 10));
    for (std::ptrdiff_t k = 0; k < masks; ++k) {
      const auto at = static_cast<std::size_t>(k);
      EXPECT_TRUE(k == 0 || places[at - 1] < places[at]);
      EXPECT_TRUE(places[at] > 0 && places[at] < length - 1 && places[at] != first);
      EXPECT_GE(labels[at], 0);
    }
    for (std::ptrdiff_t k = masks; k < 10; ++k) EXPECT_EQ(labels[static_cast<std::size_t>(k)], -1);
  }
}

// Every id of the training documents is in the first segment or second of some sample, in order, unless cut off.
TEST(BertText, SegmentsAreTextOfOneDocument) {
  const Datasets sets = text_sets();
  const WordPiece pieces(test_data() + "bert-uncased-vocab.txt");
  std::vector<Ids> documents(1);
  std::ifstream file(test_data() + "sotu-sentences.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) documents.emplace_back();
    pieces.encode(line, "x", 0, documents.back());
  }
  ASSERT_EQ(documents.size(), 6u);
  const auto document_of = [&](Ids::const_iterator from, Ids::const_iterator to) {
    for (std::size_t d = 0; d < documents.size(); ++d) {
      if (std::search(documents[d].begin(), documents[d].end(), from, to) != documents[d].end())
        return static_cast<int>(d);
    }
    return -1;
  };
  int replaced = 0;
  for (const bool evaluation : {false, true}) {
    const Dataset& data = evaluation ? *sets.evaluate : *sets.train;
    for (std::int64_t i = 0; i < data.size(); ++i) {
      const Batch row = sample(data, 0, i);
      const Ids ids = restored(row);
      const auto first = std::ranges::find(ids, 102), second = std::find(first + 1, ids.end(), 102);
      const int a = document_of(ids.begin() + 1, first), b = document_of(first + 1, second);
      EXPECT_TRUE(a >= 0 && b >= 0);
      EXPECT_EQ(a % 3 == 2, evaluation);
      EXPECT_EQ(b % 3 == 2, evaluation);
      if (second - first > 8 && first - ids.begin() > 8) {  // longer than what two addresses have in common
        EXPECT_EQ(row.integers("next")[0], a != b) << i;
      }
      replaced += row.integers("next")[0];
    }
  }
  const auto all = static_cast<int>(sets.train->size() + sets.evaluate->size());
  EXPECT_GT(replaced, all / 4);
  EXPECT_LT(replaced, all);
}

TEST(BertText, MasksAreEightyTenTen) {
  const Datasets sets = text_sets();
  double masks = 0, same = 0, all = 0;
  for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
    for (std::int64_t i = 0; i < sets.train->size(); ++i) {
      const Batch row = sample(*sets.train, epoch, i);
      const auto &ids = row.integers("ids"), &places = row.integers("places"), &labels = row.integers("labels");
      for (std::size_t k = 0; k < places.size() && places[k] >= 0; ++k) {
        const std::int32_t id = ids[static_cast<std::size_t>(places[k])];
        masks += id == 103, same += id == labels[k], all += 1;
      }
    }
  }
  ASSERT_GT(all, 20000);
  EXPECT_NEAR(masks / all, 0.8, 0.01);
  EXPECT_NEAR(same / all, 0.1, 0.01);
}

TEST(BertText, AddressesDecideAll) {
  const Datasets sets = text_sets(), again = text_sets(), seeded = text_sets(R"(, "seed": 7)");
  const auto ids = [](const Datasets& s, std::int64_t epoch) { return sample(*s.train, epoch, 5).integers("ids"); };
  EXPECT_EQ(ids(sets, 2), ids(again, 2));
  EXPECT_NE(ids(sets, 2), ids(sets, 3));
  EXPECT_NE(ids(sets, 2), ids(seeded, 2));
  EXPECT_EQ(sample(*sets.evaluate, 0, 1).integers("ids"), sample(*sets.evaluate, 9, 1).integers("ids"));
  // Rows of a batch do not depend on how they are shared out.
  const Batch whole = training_batch(*sets.train, 1, 3, 8, {0, 8}), part = training_batch(*sets.train, 1, 3, 8, {5, 3});
  const auto &a = whole.integers("ids"), &b = part.integers("ids");
  EXPECT_TRUE(std::equal(b.begin(), b.end(), a.begin() + 5 * kTokens));
}

TEST(BertText, CountedLabels) {
  const Datasets sets = text_sets();
  std::int64_t labels = 0;
  for (std::int64_t i = 0; i < sets.evaluate->size(); ++i)
    labels += std::ranges::count_if(sample(*sets.evaluate, 4, i).integers("labels"), [](auto l) { return l >= 0; });
  EXPECT_EQ(sets.evaluate->labels(), labels);
  EXPECT_TRUE(sets.train->holds(sets.train->size()));
  EXPECT_FALSE(sets.train->holds(sets.train->size() + 1));
}

TEST(BertText, OwnBytePairs) {
  const Folder folder;
  folder.write("t.txt", read_all(test_data() + "sotu-sentences.txt"));
  const Datasets sets = open_datasets(
      parse_json(R"({"source": "bert_text", "train": "t.txt", "tokenizer": {"kind": "bpe", "vocabulary": 600},
                     "evaluate_every": 2, "masked": 5})",
                 "test"),
      32, folder.path());
  EXPECT_EQ(sets.train->vocabulary(), 600);
  const Batch row = sample(*sets.train, 0, 0);
  EXPECT_EQ(row.integers("ids")[0], 597);
  EXPECT_EQ(std::ranges::count(row.integers("ids"), 598), 2);
  EXPECT_EQ(row.integers("places").size(), 5u);
}

TEST(BertText, Refusals) {
  const Folder folder;
  folder.write("v.txt", read_all(test_data() + "bert-uncased-vocab.txt"));
  folder.write("one.txt", "A sentence.\nAnother.\n");
  folder.write("bad.txt", "fine\n\nb\xff\n\nfine\n");
  const auto refused = [&](const std::string& rest, std::int64_t tokens = 32) {
    return message_of([&] {
      open_datasets(
          parse_json(R"({"source": "bert_text", "tokenizer": {"kind": "wordpiece", "file": "v.txt"}, )" + rest + "}",
                     "test"),
          tokens, folder.path())
          .train->scan();
    });
  };
  expect_parts(refused(R"("train": "one.txt")"), {"one.txt", "1 documents", "at least 2", "blank lines"});
  expect_parts(refused(R"("train": "bad.txt", "evaluate_every": 0)"), {"bad.txt", "UTF-8"});
  expect_parts(refused(R"("train": "one.txt", "evaluate_every": 1)"), {"evaluate_every", "2 or more"});
  expect_parts(refused(R"("train": "one.txt", "share": 1.5)"), {"data.share", "1.5"});
  expect_parts(refused(R"("train": "one.txt", "masked": 99)"), {"data.masked", "99", "29"});
  expect_parts(refused(R"("train": "one.txt")", 7), {"model.tokens is 7", "8"});
  expect_parts(refused(R"("train": "one.txt", "mask": 9)"), {"mask"});
  expect_parts(refused(R"("train": "one.txt", "evaluate": "one.txt")"), {"one.txt", "data.train and in data.evaluate"});
}

Datasets records(const std::string& directory, const std::string& file, const std::string& more = "",
                 std::int64_t tokens = 128) {
  return open_datasets(parse_json(fmt::format(R"({{"source": "bert_tfrecord", "train": "{}"{}}})", file, more), "test"),
                       tokens, directory);
}

TEST(BertRecords, RowsOfAnotherProgram) {
  const Datasets sets = records(test_data(), "sotu-bert.tfrecord");
  const RecordFile file(test_data() + "sotu-bert.tfrecord");
  EXPECT_EQ(sets.train->size(), 8);
  EXPECT_EQ(text_of(sets.train->fields()),
            "ids [128] i32, segments [128] i32, places [20] i32, labels [20] i32, next [1] i32");
  std::int64_t labels = 0;
  for (std::int64_t i = 0; i < 8; ++i) {
    const Example example = parse_example(file.record(i), "x");
    const auto &ids = integers_of(example, "input_ids", "x"), &mask = integers_of(example, "input_mask", "x"),
               &places = integers_of(example, "masked_lm_positions", "x");
    const auto& weights = std::get<std::vector<float>>(example.at("masked_lm_weights"));
    const Batch row = sample(*sets.train, i, i);
    for (std::size_t k = 0; k < 128; ++k) EXPECT_EQ(row.integers("ids")[k], mask[k] ? ids[k] : -1);
    for (std::size_t k = 0; k < 20; ++k) EXPECT_EQ(row.integers("places")[k], weights[k] > 0 ? places[k] : -1);
    for (float w : weights) labels += w > 0;
    EXPECT_EQ(row.integers("next")[0], integers_of(example, "next_sentence_labels", "x")[0]);
    EXPECT_EQ(restored(row)[0], 101);
  }
  EXPECT_EQ(sets.train->labels(), labels);
}

TEST(BertRecords, Refusals) {
  expect_parts(message_of([] { records(test_data(), "sotu-bert.tfrecord", "", 64); }),
               {"128 input_ids", "model.tokens is 64", "set it to 128"});
  expect_parts(message_of([] { records(test_data(), "sotu-bert.tfrecord", R"(, "vocabulary": 1000)").train->scan(); }),
               {"record 0", "input_ids[", "wanted 0 to 999", "vocabulary"});
  expect_parts(message_of([] { records(test_data(), "train.txt"); }), {"train.txt", "no TFRecord file"});
}

}  // namespace
}  // namespace quadrille
