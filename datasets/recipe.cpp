// SPDX-License-Identifier: Apache-2.0
// See recipe.h: packages in, files with a manifest out, in place whole or not at all.
#include "datasets/recipe.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "datasets/child.h"
#include "datasets/manifest.h"
#include "datasets/package.h"
#include "datasets/sha256.h"

namespace quadrille {
namespace {

namespace fs = std::filesystem;

PackedFiles unpacked(const Ingredient& what, const std::string& path) {
  PackedFiles files = what.npm ? unpack_tar(path,
                                            [&](std::string_view name) {
                                              return std::ranges::any_of(what.endings, [&](const std::string& ending) {
                                                return name.ends_with(ending);
                                              });
                                            })
                               : unpack_package(path, what.endings);
  require(!files.empty(), "{} holds no file *{}: it is not the package {}, or is truncated", path, what.endings[0],
          what.name);
  return files;
}

std::string package_in(const Ingredient& what, const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(what.file_stem()) && name.ends_with(what.file_ending()))
      found.push_back(entry.path().string());
  }
  std::ranges::sort(found);
  return found.empty() ? "" : found.back();
}

std::string downloaded(const Recipe& recipe, const Ingredient& what, const std::string& folder,
                       const Progress& progress) {
  const std::string tool = what.npm ? "npm" : "apt-get";
  progress(fmt::format("downloading {} ({}) with {}", what.name, what.size, tool));
  const ChildResult child =
      what.npm ? run_child({"npm", "pack", "--silent", fmt::format("{}@{}", what.name, what.version)}, folder)
               : run_child({"apt-get", "download", "-q", what.name}, folder);
  const std::string last = child.output.substr(0, child.output.find_last_not_of("\n ") + 1);
  const std::string remedy = fmt::format(
      "{}without a network get {}*{} on another machine (`{} {}`), put {} into a folder and run `quadrille data fetch "
      "{} "
      "--from FOLDER`",
      what.npm ? "" : "Try `apt-get update` as root first; ", what.file_stem(), what.file_ending(),
      what.npm ? "npm pack" : "apt-get download", what.npm ? fmt::format("{}@{}", what.name, what.version) : what.name,
      recipe.ingredients.size() > 1 ? "all packages" : "it", recipe.name);
  require(child.status < 128, "the download was interrupted (signal {}); nothing was kept", child.status - 128);
  require(child.status != 127, "{} is not on this machine. {}", tool, remedy);
  require(child.status == 0, "the download of {} with {} ended with status {}:\n{}\n{}", what.name, tool, child.status,
          last, remedy);
  const std::string path = package_in(what, folder);
  require(!path.empty(), "{} left no {}*{}:\n{}\n{}", tool, what.file_stem(), what.file_ending(), last, remedy);
  return path;
}

std::string given(const Recipe& recipe, const Ingredient& what, const std::string& from) {
  if (!fs::is_directory(from)) {
    require(recipe.ingredients.size() == 1,
            "--from {}: {} is made of {} packages, so a folder that holds all of them "
            "was wanted ({}*{}, ...)",
            from, recipe.name, recipe.ingredients.size(), what.file_stem(), what.file_ending());
    return from;
  }
  const std::string path = package_in(what, from);
  require(!path.empty(), "{} holds no {}*{}, the package {} that {} is made of", from, what.file_stem(),
          what.file_ending(), what.name, recipe.name);
  return path;
}

Json written(const Recipe& recipe, const std::map<std::string, std::string>& files, const std::string& folder) {
  Json manifest = new_manifest(recipe.name);
  manifest.set("title", recipe.title);
  manifest.set("source", recipe.source);
  manifest.set("licence", recipe.licence);
  for (const auto& [name, text] : files) {
    write_file_whole((fs::path(folder) / name).string(), text);
    set_manifest_entry(manifest, text_entry(name, text));
  }
  write_file_whole((fs::path(folder) / kManifestName).string(), manifest.text(2) + "\n");
  return manifest;
}

Json existing(const Recipe& recipe, const std::string& folder) {
  const std::optional<Json> manifest = read_manifest(folder);
  const std::string remedy = fmt::format("Move {} away and fetch again", folder);
  require(manifest && manifest->at("name").string() == recipe.name && manifest->at("files").size() > 0,
          "{} is there but has no {} of {}. {}", folder, kManifestName, recipe.name, remedy);
  try {
    for (const auto& [name, sum] : recipe.sums) {
      const Json* entry = manifest_entry(*manifest, name);
      require(entry && entry->at("sha256").string() == sum, "{} is not listed as it should be", name);
    }
    for (const Json& entry : manifest->at("files").items()) check_against_entry(folder, entry);
  } catch (const Error& error) {
    fail("{}. {}", error.what(), remedy);
  }
  return *manifest;
}

void check_sums(const Recipe& recipe, const std::map<std::string, std::string>& files) {
  for (const auto& [name, wanted] : recipe.sums) {
    const std::string found = sha256_of(files.at(name));
    require(found == wanted,
            "{}: {} came out with SHA-256 {}, {} was wanted: another version of {}. Scores on other "
            "data cannot be compared",
            recipe.name, name, found, wanted, recipe.ingredients[0].name);
  }
}

}  // namespace

std::string Ingredient::file_stem() const {
  if (!npm) return name + "_";
  std::string stem = name;
  if (stem.starts_with('@')) stem.erase(0, 1);
  std::ranges::replace(stem, '/', '-');
  return fmt::format("{}-{}", stem, version);
}

std::vector<Recipe> recipes() { return {libreoffice_help_recipe(), sotu_recipe(), bert_vocabulary_recipe()}; }

int hundredth_of(std::string_view text) {
  int rest = 0;
  for (char digit : sha256_of(text)) rest = (rest * 16 + (digit <= '9' ? digit - '0' : digit - 'a' + 10)) % 100;
  return rest;
}

Fetched fetch_recipe(const Recipe& recipe, const FetchOptions& options, const Progress& progress) {
  Fetched result;
  result.directory = (fs::path(options.data_root) / recipe.name).lexically_normal().string();
  if (fs::exists(result.directory)) {
    result.manifest = existing(recipe, result.directory);
    result.already_there = true;
    progress(fmt::format("{} is there already and undamaged: nothing to do", result.directory));
    return result;
  }
  std::error_code error;
  require(options.from.empty() || fs::exists(options.from, error), "--from {}: no such file or folder", options.from);
  const TemporaryFolder work(options.data_root, recipe.name);
  const std::string download_folder = work.path() + "/download", files_folder = work.path() + "/files";
  fs::create_directory(download_folder);
  fs::create_directory(files_folder);
  std::vector<PackedFiles> packed;
  for (const Ingredient& what : recipe.ingredients) {
    const std::string path =
        options.from.empty() ? downloaded(recipe, what, download_folder, progress) : given(recipe, what, options.from);
    progress(fmt::format("reading {}", path));
    packed.push_back(unpacked(what, path));
  }
  const auto files = recipe.make(packed);
  check_sums(recipe, files);
  result.manifest = written(recipe, files, files_folder);
  fs::rename(files_folder, result.directory, error);
  if (error && fs::exists(result.directory)) existing(recipe, result.directory);  // another fetch was faster
  require(!error || fs::exists(result.directory), "cannot put {} in its place: {}", result.directory, error.message());
  progress(fmt::format("{} files in {}", files.size(), result.directory));
  return result;
}

}  // namespace quadrille
