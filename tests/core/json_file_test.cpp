// SPDX-License-Identifier: Apache-2.0
// Documents on disk: named in messages, written whole or not at all.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/json.h"
#include "tests/refusal.h"

namespace quadrille {
namespace {

class JsonFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  const std::string folder_ = testing::TempDir() + "quadrille_json_" + std::to_string(getpid());
};

TEST_F(JsonFile, IsReadWithItsNameInEveryPosition) {
  std::ofstream(path("a.json")) << "{\n \"x\": 1}";
  EXPECT_EQ(read_json(path("a.json")).at("x").origin(), path("a.json") + ":2:7");
  std::ofstream(path("b.json")) << "{\n \"x\": }";
  EXPECT_TRUE(message_of([&] { read_json(path("b.json")); }).starts_with(path("b.json") + ":2:7: not valid JSON"));
  std::ofstream(path("empty.json")).flush();
  EXPECT_TRUE(
      message_of([&] { read_json(path("empty.json")); }).starts_with(path("empty.json") + ":1:1: not valid JSON"));
}

TEST_F(JsonFile, MissingFilesAndFoldersAreRefused) {
  EXPECT_EQ(message_of([&] { read_json(path("none.json")); }), path("none.json") + ": there is no such file");
  EXPECT_EQ(message_of([&] { read_json(folder_); }), folder_ + ": is a folder, wanted a JSON file");
}

TEST_F(JsonFile, IsReplacedWholeAndLeavesNothingBeside) {
  write_file_whole(path("r.json"), std::string(100'000, 'a'));
  write_file_whole(path("r.json"), "{}");
  EXPECT_EQ(read_json(path("r.json")), Json::object());
  EXPECT_EQ(files(), 1u);
}

TEST_F(JsonFile, FailedWritesLeaveNothing) {
  EXPECT_EQ(message_of([&] { write_file_whole(path("no/such/r.json"), "{}"); }),
            path("no/such/r.json") + ": cannot be written: No such file or directory");
  std::filesystem::create_directory(path("taken"));
  EXPECT_TRUE(contains(message_of([&] { write_file_whole(path("taken"), "{}"); }), "cannot be written"));
  EXPECT_EQ(files(), 1u);  // the folder itself, no partial file
}

}  // namespace
}  // namespace quadrille
