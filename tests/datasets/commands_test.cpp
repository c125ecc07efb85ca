// SPDX-License-Identifier: Apache-2.0
// `data prepare`, `verify` and `show` on small texts.
#include "datasets/commands.h"

#include "datasets/manifest.h"
#include "datasets/token_files.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

void quiet(std::string_view) {}

class Commands : public testing::Test {
 protected:
  Commands() {
    std::filesystem::create_directory(root_ / "set");
    root_.write("set/train.txt", read_all(test_data() + "train.txt"));
    root_.write("set/evaluate.txt", read_all(test_data() + "evaluate.txt"));
  }
  Json prepare(const std::string& text, const std::string& tokenizer, const std::string& output) {
    PrepareOptions options;
    options.data_root = root_.path();
    options.directory = "set";
    options.files = {text};
    options.learn_from = {"train.txt"};
    options.tokenizer = parse_json(tokenizer, "test");
    options.output = output;
    return prepare_data(options, quiet);
  }
  std::string set() const { return root_ / "set"; }
  Folder root_;
};

TEST_F(Commands, PreparedTokensAreTheTextsTokens) {
  for (const char* tokenizer :
       {R"({"kind": "byte"})", R"({"kind": "byte", "alphabet": "compact"})", R"({"kind": "bpe", "vocabulary": 500})"}) {
    prepare("train.txt", tokenizer, "t.bin");
    const Json entry = prepare("evaluate.txt", tokenizer, "e.bin");
    const std::string text = fmt::format(
        R"({{"source": "text", "directory": "set", "train": "train.txt", "evaluate": "evaluate.txt", "tokenizer": {}}})",
        tokenizer);
    const Datasets direct = open_datasets(parse_json(text, "test"), 64, root_.path());
    const Datasets files = open_datasets(
        parse_json(R"({"source": "llmc", "directory": "set", "train": "t.bin", "evaluate": "e.bin"})", "test"), 64,
        root_.path());
    EXPECT_EQ(files.train->vocabulary(), direct.train->vocabulary());
    EXPECT_EQ(files.evaluate->unit(), "character");
    EXPECT_EQ(files.evaluate->units(), direct.evaluate->units());
    EXPECT_EQ(files.evaluate->labels(), direct.evaluate->labels());
    EXPECT_EQ(evaluation_batch(*files.evaluate, 0, {0, 20}).integers("ids"),
              evaluation_batch(*direct.evaluate, 0, {0, 20}).integers("ids"));
    EXPECT_EQ(training_batch(*files.train, 1, 9, 16, {0, 16}).integers("ids"),
              training_batch(*direct.train, 1, 9, 16, {0, 16}).integers("ids"));
    files.train->scan();
    files.evaluate->scan();
    EXPECT_EQ(entry.at("tokens").integer(), direct.evaluate->labels() + 1);
    EXPECT_NO_THROW(verify_directory(set(), quiet));
    const std::string shown = show_file(set() + "/e.bin", 3, root_.path());
    expect_parts(shown, {"llm.c", "\"C\""});
    for (const char* made : {"t.bin", "e.bin"}) std::filesystem::remove(set() + "/" + made);
  }
}

TEST_F(Commands, DamageIsFoundByVerify) {
  prepare("evaluate.txt", R"({"kind": "byte"})", "e.bin");
  const Json report = verify_directory(set(), quiet);
  EXPECT_EQ(report.at("files").items(), (Json::Array{"e.bin"}));
  EXPECT_EQ(report.at("unlisted").size(), 2u);
  const std::string good = read_all(set() + "/e.bin");
  std::string bad = good;
  bad[1024 + 7] = 1;
  root_.write("set/e.bin", bad);
  expect_parts(message_of([&] { verify_directory(set(), quiet); }), {"e.bin", "SHA-256"});
  root_.write("set/e.bin", good.substr(0, good.size() - 2));
  expect_parts(message_of([&] { verify_directory(set(), quiet); }), {"e.bin", "truncated"});
  std::filesystem::remove(set() + "/e.bin");
  expect_parts(message_of([&] { verify_directory(set(), quiet); }), {"e.bin", "No such file"});
  root_.write("set/e.bin", good);
  for (const auto& [key, value, parts] :
       {std::tuple{"tokens", Json(5), "tokens is 14991"}, std::tuple{"id_bytes", Json(4), "id_bytes is 2"},
        std::tuple{"byte_order", Json("big"), "byte order big"},
        std::tuple{"vocabulary", Json(100), "vocabulary has 100"}}) {
    Json manifest = *read_manifest(set());
    Json entry = *manifest_entry(manifest, "e.bin");
    const Json whole = entry;
    entry.set(key, value);
    set_manifest_entry(manifest, entry);
    root_.write("set/manifest.json", manifest.text());
    expect_parts(message_of([&] { verify_directory(set(), quiet); }), {"e.bin", parts});
    set_manifest_entry(manifest, whole);
    root_.write("set/manifest.json", manifest.text());
  }
  EXPECT_NO_THROW(verify_directory(set(), quiet));
  std::filesystem::remove(set() + "/manifest.json");
  expect_parts(message_of([&] { verify_directory(set(), quiet); }), {"manifest.json", "data fetch"});
}

TEST_F(Commands, CoverageForAnyRanks) {
  const Datasets sets = open_datasets(
      parse_json(R"({"source": "text", "directory": "set", "train": "train.txt", "evaluate": "evaluate.txt"})", "test"),
      128, root_.path());
  for (std::int64_t ranks : {1, 2, 3, 7, 40}) {
    const Json report = verify_coverage(sets, {3, 24, ranks, 3}, quiet);
    EXPECT_EQ(report.at("training_samples").integer(), 59997 / 128);
    EXPECT_EQ(report.at("evaluation_labels").integer(), 14990);
  }
  expect_parts(message_of([&] {
                 verify_coverage(sets, {1, 500, 2, 1}, quiet);
               }),
               {"468 samples", "500 x 128 + 1 = 64001 tokens"});
}

TEST_F(Commands, ShowTellsTheKindOfFile) {
  expect_parts(show_file(set() + "/train.txt", 4, root_.path()), {"text", "59998 tokens", "\"N\"", "\"O\""});
  expect_parts(show_file(test_data() + "persuasion.bin", 2, root_.path()), {"Megatron", "115081 tokens"});
  root_.write("set/n.bin", raw<std::uint16_t>({7, 8}));
  expect_parts(show_file(set() + "/n.bin", 9, root_.path()), {"nanoGPT", "2 tokens", "7"});
  expect_parts(message_of([&] { show_file(set() + "/gone.bin", 2, root_.path()); }), {"gone.bin", "No such file"});
}

TEST_F(Commands, ShowLooksBelowTheDataFolder) {
  root_.write("set/only_here.txt", "Yes");
  expect_parts(show_file("set/only_here.txt", 4, root_.path()), {"3 tokens", "\"Y\""});
  expect_parts(message_of([&] { show_file("set/nowhere.txt", 4, root_.path()); }),
               {"No such file", root_ / "set/nowhere.txt"});
}

TEST_F(Commands, NothingIsWrittenOverOrOutside) {
  const std::string bytes = R"({"kind": "byte"})";
  prepare("evaluate.txt", bytes, "e.bin");
  const std::string good = read_all(set() + "/e.bin");
  expect_parts(message_of([&] { prepare("train.txt", bytes, "e.bin"); }), {"e.bin is there already", "--output"});
  EXPECT_EQ(read_all(set() + "/e.bin"), good);
  for (const std::string name : {"../z.bin", "../../z.bin", "a/z.bin", "../set/z.bin"})
    expect_parts(message_of([&] { prepare("train.txt", bytes, name); }), {"--output " + name, "without a path"});
  expect_parts(message_of([&] { prepare("train.txt", bytes, root_ / "z.bin"); }), {"without a path"});
  EXPECT_FALSE(std::filesystem::exists(root_ / "z.bin"));
  expect_parts(message_of([&] { prepare("../set/train.txt", bytes, "x.bin"); }), {"../set/train.txt", "below"});
}

TEST_F(Commands, NamesStayBelowTheDataFolder) {
  const std::string outside = root_.write("outside.txt", std::string(5000, 'a'));
  for (const std::string& name : {std::string("../outside.txt"), std::string("a/../../outside.txt"), outside}) {
    for (const std::string source : {"text", "llmc", "nanogpt"})
      expect_parts(message_of([&] {
                     const std::string config = fmt::format(
                         R"({{"source": "{}", "directory": "set", "train": ["{}"], "vocabulary": 9}})", source, name);
                     Json parsed = parse_json(config, "test");
                     if (source == "text") parsed.erase("vocabulary");
                     open_datasets(parsed, 8, root_.path());
                   }),
                   {"data.train names " + name, "below the data folder"});
  }
  for (const std::string& folder : {std::string(".."), root_.path()})
    expect_parts(
        message_of([&] {
          open_datasets(
              parse_json(fmt::format(R"({{"source": "text", "directory": "{}", "train": "outside.txt"}})", folder),
                         "test"),
              8, set());
        }),
        {"data.directory names " + folder});
  expect_parts(message_of([&] {
                 open_datasets(parse_json(R"({"source": "text", "directory": "set", "train": "train.txt",
                                              "tokenizer": {"kind": "gpt2", "merges": "../vocab.bpe"}})",
                                          "test"),
                               8, root_.path());
               }),
               {"data.tokenizer.merges names ../vocab.bpe"});
}

TEST_F(Commands, MisspeltKeysComeBeforeMissingOnes) {
  expect_parts(message_of([&] { prepare("train.txt", R"({"kind": "bpe", "vocab": 300})", "x.bin"); }),
               {"unknown key \"tokenizer.vocab\"", "kind, vocabulary"});
  expect_parts(message_of([&] { prepare("train.txt", R"({"kind": "gpt2", "merge": "m"})", "x.bin"); }),
               {"unknown key \"tokenizer.merge\"", "merges"});
  expect_parts(message_of([&] { prepare("train.txt", R"({"kind": "bpe"})", "x.bin"); }), {"vocabulary", "missing"});
}

TEST_F(Commands, PrepareRefuses) {
  expect_parts(message_of([&] { prepare("train.txt", R"({"kind": "byte"})", "x.txt"); }), {"x.txt", ".bin"});
  expect_parts(message_of([&] { prepare("gone.txt", R"({"kind": "byte"})", "x.bin"); }), {"gone.txt"});
  root_.write("set/latin.txt", "caf\xe9");
  expect_parts(message_of([&] { prepare("latin.txt", R"({"kind": "byte"})", "x.bin"); }), {"latin.txt", "not UTF-8"});
  root_.write("set/odd.txt", "abc \x01 def");
  expect_parts(message_of([&] { prepare("odd.txt", R"({"alphabet": "compact"})", "x.bin"); }),
               {"odd.txt", "0x01", "position 4"});
  EXPECT_FALSE(std::filesystem::exists(set() + "/x.bin"));
}

}  // namespace
}  // namespace quadrille
