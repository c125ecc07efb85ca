// SPDX-License-Identifier: Apache-2.0
#include "datasets/recipe.h"

#include <algorithm>

#include "core/error.h"
#include "datasets/sha256.h"

namespace quadrille {

std::vector<Recipe> recipes() {
  return {austen_recipe(), fashion_mnist_recipe(), libreoffice_help_recipe(), sotu_recipe(), bert_vocabulary_recipe()};
}

namespace {

// How the file of a package begins: npm writes @scope/name as scope-name.
std::string stem(const Ingredient& what) {
  if (!what.npm) return what.name + "_";
  std::string name = what.name;
  if (name.starts_with('@')) name.erase(0, 1);
  std::ranges::replace(name, '/', '-');
  return fmt::format("{}-{}", name, what.version);
}
std::string_view ending(const Ingredient& what) { return what.npm ? ".tgz" : ".deb"; }

}  // namespace

std::string Ingredient::package() const { return fmt::format("{}*{}", stem(*this), ending(*this)); }

bool Ingredient::is_package(std::string_view file_name) const {
  return file_name.starts_with(stem(*this)) && file_name.ends_with(ending(*this));
}

const std::string& packed_file(const PackedFiles& files, std::string_view ending) {
  const auto found = std::ranges::find_if(files, [&](const auto& file) { return file.first.ends_with(ending); });
  require(found != files.end(), "the package holds no {}: it is another one, or is truncated", ending);
  return found->second;
}

int hundredth_of(std::string_view text) {
  int rest = 0;
  for (char digit : sha256_of(text)) rest = (rest * 16 + (digit <= '9' ? digit - '0' : digit - 'a' + 10)) % 100;
  return rest;
}

}  // namespace quadrille
