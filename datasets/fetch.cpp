// SPDX-License-Identifier: Apache-2.0
// `data fetch`: brings the corpora that the suites name. So far one: six novels by Jane Austen, public domain, as
// Debian's r-cran-janeaustenr carries them.
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "core/error.h"
#include "datasets/child.h"
#include "datasets/commands.h"
#include "datasets/manifest.h"
#include "datasets/mapped_file.h"
#include "datasets/package.h"
#include "datasets/rdata.h"
#include "datasets/sha256.h"

namespace quadrille {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPackage = "r-cran-janeaustenr";
struct Novel {
  const char* name;
  std::int64_t bytes;
  const char* sha256;
};
// Of version 1.0.0-1, each line followed by a line end.
constexpr std::array<Novel, 6> kNovels = {{
    {"emma", 883028, "7c67b5985c6d0de1efaeb5d342d52cb82c38083c40e2295129e30e87ee690ebe"},
    {"mansfieldpark", 883280, "98bc90519cdf4ef663ad7de2734bb529435ef24f7abbde6bb1a50898871dafe9"},
    {"northangerabbey", 433411, "51f91bbe0517db8e65cff009b097ce0a1836124c4e0532ac19e6c0cad982abed"},
    {"persuasion", 466854, "8061549557aebd2fd6e353d18d9197cb707029112bd52d4d8b174583a925848a"},
    {"prideprejudice", 684768, "dfc684d4f857fa938268f9ab9c5567b64bd0691251eca959644adeabe6287a4d"},
    {"sensesensibility", 673688, "105e1651fe93bed7130078578efd31e0c557d68667ba672ddc876f735b30fe09"},
}};

using Texts = std::map<std::string, std::string>;  // by the novel's name

std::string lines_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line, text += '\n';
  return text;
}

Texts texts_of(const std::vector<RVector>& vectors) {
  Texts texts;
  for (const RVector& vector : vectors) texts[vector.name] = lines_of(vector.lines);
  return texts;
}

Texts from_package(const std::string& path) {
  const std::string stem = "janeaustenr/data/Rdata";
  const auto files = unpack_package(path, {stem + ".rdx", stem + ".rdb"});
  std::string_view rdx, rdb;
  for (const auto& [name, content] : files) (name.ends_with(".rdx") ? rdx : rdb) = content;
  require(!rdx.empty() && !rdb.empty(), "{} holds no {}.rdx and .rdb: it is not the package {}, or is truncated", path,
          stem, kPackage);
  return texts_of(parse_r_character_vectors(rdx, rdb, path + ": Rdata"));
}

Texts from_folder(const std::string& path) {
  Texts texts;
  std::error_code error;
  for (const Novel& novel : kNovels) {
    const fs::path file = fs::path(path) / fmt::format("{}.txt", novel.name);
    if (fs::is_regular_file(file, error)) texts[novel.name] = std::string(MappedFile(file.string()).text());
  }
  if (texts.size() == kNovels.size()) return texts;
  std::set<std::string> stems, packages;  // in order, so that the choice does not depend on the file system
  for (fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error)) {
    const fs::path& file = at->path();
    if (file.filename() == "Rdata.rdb") stems.insert((file.parent_path() / "Rdata").string());
    if (file.extension() == ".deb" && file.filename().string().starts_with(kPackage)) packages.insert(file.string());
  }
  for (const std::string& stem : stems) {
    if (stems.size() == 1 || stem.find("janeaustenr") != std::string::npos)
      return texts_of(read_r_character_vectors(stem));
  }
  if (!packages.empty()) return from_package(*packages.begin());
  fail("{} holds neither the six texts (emma.txt, ...), nor the unpacked package {} (Rdata.rdb), nor its .deb", path,
       kPackage);
}

Texts download(const std::string& folder, const Progress& progress) {
  progress(fmt::format("downloading {} (1.6 MB) with apt-get", kPackage));
  const ChildResult child = run_child({"apt-get", "download", "-q", kPackage}, folder);
  std::string last = child.output.substr(0, child.output.find_last_not_of("\n ") + 1);
  const std::string remedy = fmt::format(
      "Try `apt-get update` as root first; without a network get the file {}_1.0.0-1_all.deb on another machine and "
      "run "
      "`quadrille data fetch austen --from FILE.deb`",
      kPackage);
  require(child.status < 128, "the download was interrupted (signal {}); nothing was kept", child.status - 128);
  require(child.status != 127, "apt-get is not on this machine. {}", remedy);
  require(child.status == 0, "`apt-get download {}` ended with status {}:\n{}\n{}", kPackage, child.status, last,
          remedy);
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".deb") return from_package(entry.path().string());
  }
  fail("`apt-get download {}` left no .deb:\n{}\n{}", kPackage, last, remedy);
}

void check(const Texts& texts, const std::string& origin) {
  for (const Novel& novel : kNovels) {
    const auto found = texts.find(novel.name);
    require(found != texts.end(), "{} has no text {}", origin, novel.name);
    const auto bytes = static_cast<std::int64_t>(found->second.size());
    const std::string sum = sha256_of(found->second);
    require(bytes == novel.bytes && sum == novel.sha256,
            "{}: {} has {} bytes and SHA-256 {}; {} bytes and {} were wanted (package version 1.0.0-1). Scores on "
            "another text cannot be compared",
            origin, novel.name, bytes, sum, novel.bytes, novel.sha256);
  }
}

Json write_texts(const Texts& texts, const std::string& folder) {
  Json manifest = new_manifest("austen");
  manifest.set("title", "Six novels by Jane Austen");
  manifest.set("source", fmt::format("Debian package {}, data of the R package janeaustenr 1.0.0", kPackage));
  manifest.set("licence", "texts: public domain; the package around them: MIT, 2016-2017 Julia Silge");
  for (const Novel& novel : kNovels) {
    const std::string name = fmt::format("{}.txt", novel.name);
    write_file_whole((fs::path(folder) / name).string(), texts.at(novel.name));
    set_manifest_entry(manifest, text_entry(name, texts.at(novel.name)));
  }
  write_file_whole((fs::path(folder) / kManifestName).string(), manifest.text(2) + "\n");
  return manifest;
}

// The manifest of a folder that holds all six texts undamaged.
Json existing(const std::string& folder) {
  const std::optional<Json> manifest = read_manifest(folder);
  const std::string remedy = fmt::format("Move {} away and fetch again", folder);
  require(manifest.has_value(), "{} is there but has no {}. {}", folder, kManifestName, remedy);
  for (const Novel& novel : kNovels) {
    const Json* entry = manifest_entry(*manifest, fmt::format("{}.txt", novel.name));
    require(entry && entry->at("sha256").string() == novel.sha256, "{}/{} does not list {}.txt as it should be. {}",
            folder, kManifestName, novel.name, remedy);
    try {
      check_against_entry(folder, *entry);
    } catch (const Error& error) {
      fail("{}. {}", error.what(), remedy);
    }
  }
  return *manifest;
}

}  // namespace

std::vector<std::string> fetchable() { return {"austen"}; }

Fetched fetch_data(const FetchOptions& options, const Progress& progress) {
  const std::string near = nearest(options.name, fetchable());
  require(options.name == "austen", "no corpus is named \"{}\"; known: austen{}", options.name,
          near.empty() ? "" : ". Did you mean austen?");
  Fetched result;
  result.directory = (fs::path(options.data_root) / options.name).lexically_normal().string();
  if (fs::exists(result.directory)) {
    result.manifest = existing(result.directory);
    result.already_there = true;
    progress(fmt::format("{} is there already and undamaged: nothing to do", result.directory));
    return result;
  }
  std::error_code error;
  require(options.from.empty() || fs::exists(options.from, error), "--from {}: no such file or folder", options.from);
  const TemporaryFolder work(options.data_root, options.name);
  const std::string download_folder = work.path() + "/download", texts_folder = work.path() + "/texts";
  fs::create_directory(download_folder);
  fs::create_directory(texts_folder);
  if (!options.from.empty()) progress(fmt::format("reading {}", options.from));
  const Texts texts = options.from.empty()             ? download(download_folder, progress)
                      : fs::is_directory(options.from) ? from_folder(options.from)
                                                       : from_package(options.from);
  check(texts, options.from.empty() ? kPackage : options.from);
  result.manifest = write_texts(texts, texts_folder);
  fs::rename(texts_folder, result.directory, error);
  if (error && fs::exists(result.directory)) existing(result.directory);  // another fetch was faster
  require(!error || fs::exists(result.directory), "cannot put {} in its place: {}", result.directory, error.message());
  progress(fmt::format("{} texts in {}", kNovels.size(), result.directory));
  return result;
}

}  // namespace quadrille
