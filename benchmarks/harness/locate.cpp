// SPDX-License-Identifier: Apache-2.0
// See locate.h. The two fixed roots are given by CMake to this file alone.
#include "benchmarks/harness/locate.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "core/json.h"

namespace quadrille {

namespace {

namespace fs = std::filesystem;

std::array<fs::path, 3> roots() { return {".", QUADRILLE_SOURCE_FOLDER, QUADRILLE_SHARE_FOLDER}; }

std::string tidy(const fs::path& path) { return path.lexically_normal().string(); }

}  // namespace

std::string locate_document(std::string_view what, std::string_view folder, const std::string& name_or_path) {
  const bool is_path = name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json");
  if (is_path) {
    require(!fs::is_directory(name_or_path), "{} {} is a folder, wanted a .json file", what, name_or_path);
    require(fs::is_regular_file(name_or_path), "{} {}: no such file", what, name_or_path);
    return tidy(name_or_path);
  }
  for (const fs::path& root : roots()) {
    const fs::path path = root / folder / (name_or_path + ".json");
    if (fs::is_regular_file(path)) return tidy(path);
  }
  const std::vector<std::string> known = document_names(folder);
  const std::string near = nearest(name_or_path, known);
  fail("no {} named '{}'{}; known: {}; or give the path of a .json file", what, name_or_path,
       near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
       known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
}

std::string locate_file(const std::string& relative) {
  for (const fs::path& root : roots())
    if (fs::is_regular_file(root / relative)) return tidy(root / relative);
  fail("{} was not found in the working folder, in the source tree or in {}", relative, QUADRILLE_SHARE_FOLDER);
}

std::string locate_folder(const std::string& relative) {
  for (const fs::path& root : roots())
    if (fs::is_directory(root / relative)) return tidy(root / relative);
  fail("{} was not found in the working folder, in the source tree or in {}", relative, QUADRILLE_SHARE_FOLDER);
}

std::vector<std::string> document_names(std::string_view folder) {
  std::set<std::string> names;
  for (const fs::path& root : roots()) {
    if (!fs::is_directory(root / folder)) continue;
    for (const auto& entry : fs::directory_iterator(root / folder))
      if (entry.path().extension() == ".json") names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

}  // namespace quadrille
