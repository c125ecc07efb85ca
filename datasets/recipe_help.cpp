// SPDX-License-Identifier: Apache-2.0
// LibreOffice's help in English and German: the pages are built from one source, so the blocks of text (headings and
// paragraphs) of a page stand in the same order in both languages. Blocks are paired, cut into sentences where both
// have as many, filtered, made unique, and split by their checksum.
#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "core/error.h"
#include "datasets/manifest.h"
#include "datasets/recipe.h"
#include "datasets/unicode.h"

namespace quadrille {
namespace {

void append_entity(std::string_view name, std::string& out) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNames = {
      {{"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}, {"nbsp", " "}}};
  for (const auto& [known, text] : kNames) {
    if (name == known) {
      out += text;
      return;
    }
  }
  std::uint32_t c = 0;
  const bool hex = name.starts_with("#x") || name.starts_with("#X");
  if (name.starts_with('#')) {
    const std::string_view digits = name.substr(hex ? 2 : 1);
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), c, hex ? 16 : 10);
    if (code == std::errc() && end == digits.data() + digits.size() && c > 0 && c < 0x110000 &&
        (c < 0xd800 || c > 0xdfff))
      return append_utf8(c == 0xa0 ? ' ' : c, out);
  }
  ((out += '&') += name) += ';';
}

// The text between tags, on one line.
std::string plain(std::string_view html) {
  std::string out;
  const auto space = [&] {
    if (!out.empty() && out.back() != ' ') out += ' ';
  };
  for (std::size_t at = 0; at < html.size();) {
    const char c = html[at];
    if (c == '<') {
      const std::size_t end = html.find('>', at);
      if (html.substr(at).starts_with("<br")) space();
      at = end == std::string_view::npos ? html.size() : end + 1;
    } else if (c == '&') {
      const std::size_t end = html.find(';', at);
      if (end == std::string_view::npos || end - at > 10) {
        out += html[at++];
      } else {
        append_entity(html.substr(at + 1, end - at - 1), out);
        at = end + 1;
      }
    } else {
      const CodePoint point = code_point_at(html, at);
      if (is_white_space(point.value))
        space();
      else
        out.append(html.substr(at, point.bytes));
      at += point.bytes;
    }
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

std::size_t characters(std::string_view text) { return static_cast<std::size_t>(count_characters(text)); }

std::map<std::string, const std::string*> pages_by_name(const PackedFiles& files, std::string_view language) {
  std::map<std::string, const std::string*> pages;
  const std::string folder = fmt::format("/{}/", language);
  for (const auto& [path, text] : files) {
    const std::size_t at = path.find(folder);
    if (at != std::string::npos) pages[path.substr(at + folder.size())] = &text;
  }
  return pages;
}

using Pair = std::pair<std::string, std::string>;

void pair_up(const std::string& english, const std::string& german, std::set<Pair>& pairs) {
  const auto add = [&](const std::string& a, const std::string& b) {
    if (is_good_pair(a, b)) pairs.emplace(a, b);
  };
  const auto first = sentences_of(english), second = sentences_of(german);
  if (first.size() != second.size()) return add(english, german);
  for (std::size_t i = 0; i < first.size(); ++i) add(first[i], second[i]);
}

MadeFiles split(const std::set<Pair>& pairs) {
  MadeFiles files = {{"train.tsv", ""}, {"valid.tsv", ""}, {"test.tsv", ""}, {"test.en.txt", ""}, {"test.de.txt", ""}};
  std::vector<std::pair<Pair, int>> held;
  std::set<std::string> sources;
  for (const Pair& pair : pairs) {
    const std::string line = fmt::format("{}\t{}", pair.first, pair.second);
    const int part = hundredth_of(line);
    if (part < 4) {
      held.emplace_back(pair, part);
    } else {
      (files["train.tsv"] += line) += '\n';
      sources.insert(lower_case(pair.first));
    }
  }
  for (const auto& [pair, part] : held) {
    if (sources.contains(lower_case(pair.first))) continue;  // its translation could be known by heart
    (files[part < 2 ? "test.tsv" : "valid.tsv"] += fmt::format("{}\t{}", pair.first, pair.second)) += '\n';
    if (part >= 2) continue;
    (files["test.en.txt"] += pair.first) += '\n';
    (files["test.de.txt"] += pair.second) += '\n';
  }
  return files;
}

MadeFiles make(const std::vector<PackedFiles>& packed) {
  const auto english = pages_by_name(packed[0], "en-US"), german = pages_by_name(packed[1], "de");
  std::set<Pair> pairs;
  std::size_t aligned = 0;
  for (const auto& [name, page] : english) {
    const auto found = german.find(name);
    if (found == german.end()) continue;
    const auto first = html_blocks(*page), second = html_blocks(*found->second);
    if (first.size() != second.size()) continue;
    ++aligned;
    for (std::size_t i = 0; i < first.size(); ++i) pair_up(first[i], second[i], pairs);
  }
  auto files = split(pairs);
  const auto lines = std::ranges::count(files["train.tsv"], '\n');
  // Debian's security updates change single sentences, so content is held by its amount.
  require(aligned >= 2400 && lines >= 30000 && lines <= 50000,
          "the two help packages have {} pages whose blocks fit together and give {} pairs to train on; 2561 and about "
          "37000 are usual. Take both packages in the same version",
          aligned, lines);
  return files;
}

}  // namespace

std::vector<std::string> html_blocks(std::string_view page) {
  const std::size_t start = page.find("id=\"DisplayArea\"");
  if (start == std::string_view::npos) return {};
  page = page.substr(start, std::min(page.find("id=\"SearchFrame\"", start), page.size()) - start);
  std::vector<std::string> blocks;
  for (std::size_t at = 0; (at = page.find('<', at)) != std::string_view::npos;) {
    const std::string_view rest = page.substr(at + 1);
    const bool heading = rest.size() > 2 && rest[0] == 'h' && rest[1] >= '1' && rest[1] <= '6';
    const std::size_t name = heading ? 2 : 1;
    const bool block =
        (heading || rest.starts_with('p')) && rest.size() > name && (rest[name] == ' ' || rest[name] == '>');
    if (!block) {
      ++at;
      continue;
    }
    const std::string closing = fmt::format("</{}>", rest.substr(0, name));
    const std::size_t open_end = page.find('>', at), end = page.find(closing, at);
    if (open_end == std::string_view::npos || end == std::string_view::npos || end < open_end) break;
    blocks.push_back(plain(page.substr(open_end + 1, end - open_end - 1)));
    at = end + closing.size();
  }
  return blocks;
}

// Not the same on both sides, 2 to 300 characters with letters, no tab, and not much longer than the other: at most by
// half and 15 characters.
bool is_good_pair(std::string_view source, std::string_view target) {
  if (source == target) return false;
  const auto letters = [](std::string_view text) {
    return std::ranges::count_if(text,
                                 [](char c) { return (c & 0x80) != 0 || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); });
  };
  const std::size_t a = characters(source), b = characters(target);
  if (std::min(a, b) < 2 || std::max(a, b) > 300 || letters(source) < 2 || letters(target) < 2) return false;
  if (source.find('\t') != std::string_view::npos || target.find('\t') != std::string_view::npos) return false;
  return 2 * std::max(a, b) <= 3 * std::min(a, b) + 30;
}

Recipe libreoffice_help_recipe() {
  Recipe recipe;
  recipe.name = "libreoffice_help";
  recipe.title = "Sentences of LibreOffice's help, English and German";
  recipe.source = "Debian packages libreoffice-help-en-us and libreoffice-help-de, aligned by blocks of the same page";
  recipe.licence = "MPL-2.0, LibreOffice contributors";
  recipe.ingredients = {{false, "libreoffice-help-en-us", "", "1.8 MB", {".html"}},
                        {false, "libreoffice-help-de", "", "3.3 MB", {".html"}}};
  recipe.make = make;
  return recipe;
}

}  // namespace quadrille
