// SPDX-License-Identifier: Apache-2.0
// `data fetch` without a network: refusals leave nothing behind, folders and packages serve, a second call does
// nothing. With QUADRILLE_AUSTEN or QUADRILLE_FASHION_MNIST naming the real .deb (or a folder with it) the whole way is
// walked.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/build.h"
#include "datasets/commands.h"
#include "datasets/manifest.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

void quiet(std::string_view) {}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(folder)) names.push_back(item.path().filename().string());
  std::ranges::sort(names);
  return names;
}

TEST(Fetch, RefusalsLeaveNothing) {
  const Folder root, other;
  const auto refused = [&](const std::string& from) {
    return message_of([&] { fetch_data({"austen", from, root.path()}, quiet); });
  };
  expect_parts(message_of([&] { fetch_data({"austin", "", root.path()}, quiet); }), {"austin", "Did you mean austen?"});
  expect_parts(refused("/nowhere/x.deb"), {"--from /nowhere/x.deb", "no such file"});
  expect_parts(refused(other.path()), {"neither the files of the set (emma.txt, ...)", "r-cran-janeaustenr_*.deb",
                                       "janeaustenr/data/Rdata.rdx"});
  expect_parts(
      refused(test_data() + "small-xz.deb"),
      {build_part("libarchive").built && build_part("zlib").built ? "small-xz.deb has no emma.txt" : "small-xz.deb"});
  expect_parts(refused(test_data()), {"neither the files of the set"});
  EXPECT_TRUE(names_in(root.path()).empty());
}

TEST(Fetch, TextsThatAreOthersAreRefused) {
  const Folder root, other;
  for (const char* name :
       {"emma", "mansfieldpark", "northangerabbey", "prideprejudice", "sensesensibility", "persuasion"}) {
    other.write(fmt::format("{}.txt", name), "It is a truth universally acknowledged\n");
  }
  expect_parts(message_of([&] {
                 fetch_data({"austen", other.path(), root.path()}, quiet);
               }),
               {"emma.txt has 39 bytes", "883028", "SHA-256"});
  EXPECT_TRUE(names_in(root.path()).empty());
}

TEST(Fetch, AFolderThatIsNotWholeIsLeftAlone) {
  const Folder root;
  std::filesystem::create_directory(root / "austen");
  root.write("austen/emma.txt", "mine");
  expect_parts(message_of([&] {
                 fetch_data({"austen", "", root.path()}, quiet);
               }),
               {"austen", "manifest.json", "Move"});
  EXPECT_EQ(read_all(root / "austen/emma.txt"), "mine");
}

TEST(Fetch, LeftoversOfDeadProcessesAreRemoved) {
  const Folder root;
  std::filesystem::create_directories(root / ".austen-999999999-abcdef/texts");
  const std::string living = root / fmt::format(".austen-{}-abcdef", 1);
  std::filesystem::create_directory(living);
  EXPECT_THROW(fetch_data({"austen", test_data(), root.path()}, quiet), Error);
  EXPECT_EQ(names_in(root.path()), std::vector<std::string>{".austen-1-abcdef"});
}

TEST(Fetch, RealPackage) {
  const char* from = std::getenv("QUADRILLE_AUSTEN");
  if (!from) GTEST_SKIP() << "QUADRILLE_AUSTEN does not name the package";
  const Folder root;
  const Fetched first = fetch_data({"austen", from, root.path()}, quiet);
  EXPECT_FALSE(first.already_there);
  EXPECT_EQ(names_in(root.path()), std::vector<std::string>{"austen"});
  EXPECT_EQ(names_in(first.directory).size(), 7u);
  EXPECT_EQ(std::filesystem::file_size(first.directory + "/persuasion.txt"), 466854u);
  EXPECT_TRUE(fetch_data({"austen", "", root.path()}, quiet).already_there);
  const Folder again;  // the texts themselves serve as a source
  EXPECT_EQ(fetch_data({"austen", first.directory, again.path()}, quiet).manifest, first.manifest);
  root.write("austen/emma.txt", read_all(first.directory + "/emma.txt").substr(0, 1000));
  expect_parts(message_of([&] {
                 fetch_data({"austen", "", root.path()}, quiet);
               }),
               {"emma.txt has 1000 bytes", "Move"});
}

TEST(Fetch, FashionMnistIsProvenToo) {
  const Folder root, other;
  const auto refused = [&] {
    return message_of([&] { fetch_data({"fashion_mnist", other.path(), root.path()}, quiet); });
  };
  expect_parts(message_of([&] { fetch_data({"fashion", "", root.path()}, quiet); }), {"known: austen, fashion_mnist"});
  expect_parts(refused(),
               {"neither the files of the set (train-images-idx3-ubyte.gz, ...)", "dataset-fashion-mnist_*.deb"});
  expect_parts(
      message_of([&] {
        fetch_data({"fashion_mnist", test_data() + "small-xz.deb", root.path()}, quiet);
      }),
      {build_part("libarchive").built ? "holds no file *datasets/fashion-mnist/train-images" : "small-xz.deb"});
  for (const char* name : {"train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"})
    other.write(fmt::format("{}-ubyte.gz", name), "\x1f\x8b nothing of the kind");
  expect_parts(refused(), {"train-images-idx3-ubyte.gz", build_part("zlib").built ? "damaged" : "no zlib"});
  EXPECT_TRUE(names_in(root.path()).empty());
}

TEST(Fetch, RealFashionMnist) {
  const char* from = std::getenv("QUADRILLE_FASHION_MNIST");
  if (!from) GTEST_SKIP() << "QUADRILLE_FASHION_MNIST does not name the package";
  const Folder root, again;
  const Fetched first = fetch_data({"fashion_mnist", from, root.path()}, quiet);
  EXPECT_EQ(names_in(first.directory).size(), 5u);
  EXPECT_TRUE(fetch_data({"fashion_mnist", "", root.path()}, quiet).already_there);
  EXPECT_EQ(fetch_data({"fashion_mnist", first.directory, again.path()}, quiet).manifest, first.manifest);
  EXPECT_EQ(verify_directory(first.directory, quiet).at("files").size(), 4u);
  const Datasets sets = open_datasets(parse_json(R"({"source": "idx", "directory": "fashion_mnist", "classes": 10,
                     "train": ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"],
                     "evaluate": ["t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]})",
                                                 "test"),
                                      0, root.path());
  EXPECT_EQ(sets.train->size(), 60000);
  std::array<std::int64_t, 10> counts{};
  for (std::int64_t n = 0; n < sets.evaluate->size(); ++n)
    ++counts[static_cast<std::size_t>(single_sample(*sets.evaluate, 0, n).integers("labels")[0])];
  for (std::int64_t count : counts) EXPECT_EQ(count, 1000);
}

TEST(Child, ArgumentsAreNotReadByAShell) {
  const Folder folder;
  const ChildResult result = run_child({"printf", "%s", "$(touch x); `touch y` > z"}, folder.path());
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.output, "$(touch x); `touch y` > z");
  EXPECT_TRUE(names_in(folder.path()).empty());
  EXPECT_EQ(run_child({"sh", "-c", "echo no >&2; exit 3"}, folder.path()).status, 3);
  EXPECT_EQ(run_child({"sh", "-c", "kill -INT $$"}, folder.path()).status, 130);
  EXPECT_EQ(run_child({"/nowhere/program"}, folder.path()).status, 127);
}

}  // namespace
}  // namespace quadrille
