// SPDX-License-Identifier: Apache-2.0
// `data fetch`: brings the sets that the suites name out of Debian packages, proves that they are the very ones, and
// puts them in place whole or not at all. What is particular to a set stands in its corpus_NAME.cpp.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "core/error.h"
#include "datasets/child.h"
#include "datasets/commands.h"
#include "datasets/corpus.h"
#include "datasets/manifest.h"
#include "datasets/mapped_file.h"
#include "datasets/package.h"
#include "datasets/recipe.h"
#include "datasets/sha256.h"

namespace quadrille {
namespace {

namespace fs = std::filesystem;

std::vector<Corpus> corpora() { return {austen_corpus(), fashion_mnist_corpus()}; }

Corpus corpus_named(const std::string& name) {
  for (Corpus& corpus : corpora()) {
    if (corpus.name == name) return std::move(corpus);
  }
  std::string known;
  for (const std::string& other : fetchable()) known += (known.empty() ? "" : ", ") + other;
  const std::string near = nearest(name, fetchable());
  fail("no corpus is named \"{}\"; known: {}{}", name, known,
       near.empty() ? "" : fmt::format(". Did you mean {}?", near));
}

Contents from_package(const Corpus& corpus, const std::string& path) {
  std::vector<std::string> endings;
  for (const std::string& file : corpus.packaged_files) endings.push_back(corpus.package_folder + "/" + file);
  Contents packaged;
  for (auto& [name, content] : unpack_package(path, endings)) packaged[fs::path(name).filename()] = std::move(content);
  for (std::size_t i = 0; i < endings.size(); ++i)
    require(packaged.contains(corpus.packaged_files[i]), "{} holds no {}: it is not the package {}, or is truncated",
            path, endings[i], corpus.package);
  return corpus.unpack(packaged, path);
}

// The named files of `folder`; none unless all are there.
std::optional<Contents> all_of(const fs::path& folder, const std::vector<std::string>& names) {
  Contents contents;
  std::error_code error;
  for (const std::string& name : names) {
    const fs::path file = folder / name;
    if (!fs::is_regular_file(file, error)) return {};
    contents[name] = std::string(MappedFile(file.string()).text());
  }
  return contents;
}

Contents from_folder(const Corpus& corpus, const std::string& path) {
  std::vector<std::string> names;
  for (const CorpusFile& file : corpus.files) names.push_back(file.name);
  if (auto whole = all_of(path, names)) return *whole;
  std::error_code error;
  std::set<std::string> folders, packages;  // in order, so that the choice does not depend on the file system
  for (fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error)) {
    const fs::path& file = at->path();
    if (file.filename() == corpus.packaged_files.back()) folders.insert(file.parent_path().string());
    if (file.extension() == ".deb" && file.filename().string().starts_with(corpus.package + "_"))
      packages.insert(file.string());
  }
  for (const std::string& folder : folders) {
    if (folders.size() > 1 && !folder.ends_with(corpus.package_folder)) continue;
    if (auto packaged = all_of(folder, corpus.packaged_files)) return corpus.unpack(*packaged, folder);
  }
  if (!packages.empty()) return from_package(corpus, *packages.begin());
  fail("{} holds neither {}, nor the unpacked package {} ({}), nor its .deb", path, corpus.files_are, corpus.package,
       corpus.packaged_files.back());
}

Contents download(const Corpus& corpus, const std::string& folder, const Progress& progress) {
  const std::string& package = corpus.package;
  progress(fmt::format("downloading {} ({}) with apt-get", package, corpus.size));
  const ChildResult child = run_child({"apt-get", "download", "-q", package}, folder);
  const std::string last = child.output.substr(0, child.output.find_last_not_of("\n ") + 1);
  const std::string remedy = fmt::format(
      "Try `apt-get update` as root first; without a network get the file {}_{}_all.deb on another machine and run "
      "`quadrille data fetch {} --from FILE.deb`",
      package, corpus.version, corpus.name);
  require(child.status < 128, "the download was interrupted (signal {}); nothing was kept", child.status - 128);
  require(child.status != 127, "apt-get is not on this machine. {}", remedy);
  require(child.status == 0, "`apt-get download {}` ended with status {}:\n{}\n{}", package, child.status, last,
          remedy);
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".deb") return from_package(corpus, entry.path().string());
  }
  fail("`apt-get download {}` left no .deb:\n{}\n{}", package, last, remedy);
}

void check(const Corpus& corpus, const Contents& files, const std::string& origin) {
  for (const CorpusFile& file : corpus.files) {
    const auto found = files.find(file.name);
    require(found != files.end(), "{} has no {}", origin, file.name);
    const std::string content = corpus.content(found->second, fmt::format("{}: {}", origin, file.name));
    const auto bytes = static_cast<std::int64_t>(content.size());
    const std::string sum = sha256_of(content);
    require(bytes == file.bytes && sum == file.sha256,
            "{}: {} has {} bytes and SHA-256 {}; {} bytes and {} were wanted (package version {}). Scores on other "
            "data cannot be compared",
            origin, file.name, bytes, sum, file.bytes, file.sha256, corpus.version);
  }
}

Json write_files(const Corpus& corpus, const Contents& files, const std::string& folder) {
  Json manifest = new_manifest(corpus.name);
  manifest.set("title", corpus.title);
  manifest.set("source", corpus.source);
  manifest.set("licence", corpus.licence);
  for (const CorpusFile& file : corpus.files) {
    write_file_whole((fs::path(folder) / file.name).string(), files.at(file.name));
    set_manifest_entry(manifest, corpus.entry(file, files.at(file.name)));
  }
  write_file_whole((fs::path(folder) / kManifestName).string(), manifest.text(2) + "\n");
  return manifest;
}

// The manifest of a folder that holds all files undamaged.
Json existing(const Corpus& corpus, const std::string& folder) {
  const std::optional<Json> manifest = read_manifest(folder);
  const std::string remedy = fmt::format("Move {} away and fetch again", folder);
  require(manifest.has_value(), "{} is there but has no {}. {}", folder, kManifestName, remedy);
  for (const CorpusFile& file : corpus.files) {
    const Json* entry = manifest_entry(*manifest, file.name);
    const Json* digest = entry ? entry->find(corpus.digest) : nullptr;
    require(digest && digest->string() == file.sha256, "{}/{} does not list {} as it should be. {}", folder,
            kManifestName, file.name, remedy);
    try {
      check_against_entry(folder, *entry);
    } catch (const Error& error) {
      fail("{}. {}", error.what(), remedy);
    }
  }
  return *manifest;
}

}  // namespace

std::vector<std::string> fetchable() {
  std::vector<std::string> names;
  for (const Corpus& corpus : corpora()) names.push_back(corpus.name);
  for (const Recipe& recipe : recipes()) names.push_back(recipe.name);
  return names;
}

Fetched fetch_data(const FetchOptions& options, const Progress& progress) {
  for (const Recipe& recipe : recipes()) {
    if (recipe.name == options.name) return fetch_recipe(recipe, options, progress);
  }
  const Corpus corpus = corpus_named(options.name);
  Fetched result;
  result.directory = (fs::path(options.data_root) / options.name).lexically_normal().string();
  if (fs::exists(result.directory)) {
    result.manifest = existing(corpus, result.directory);
    result.already_there = true;
    progress(fmt::format("{} is there already and undamaged: nothing to do", result.directory));
    return result;
  }
  std::error_code error;
  require(options.from.empty() || fs::exists(options.from, error), "--from {}: no such file or folder", options.from);
  const TemporaryFolder work(options.data_root, options.name);
  const std::string download_folder = work.path() + "/download", files_folder = work.path() + "/files";
  fs::create_directory(download_folder);
  fs::create_directory(files_folder);
  if (!options.from.empty()) progress(fmt::format("reading {}", options.from));
  const Contents files = options.from.empty()             ? download(corpus, download_folder, progress)
                         : fs::is_directory(options.from) ? from_folder(corpus, options.from)
                                                          : from_package(corpus, options.from);
  check(corpus, files, options.from.empty() ? corpus.package : options.from);
  result.manifest = write_files(corpus, files, files_folder);
  fs::rename(files_folder, result.directory, error);
  if (error && fs::exists(result.directory)) existing(corpus, result.directory);  // another fetch was faster
  require(!error || fs::exists(result.directory), "cannot put {} in its place: {}", result.directory, error.message());
  progress(fmt::format("{} files in {}", corpus.files.size(), result.directory));
  return result;
}

}  // namespace quadrille
