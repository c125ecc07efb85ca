// SPDX-License-Identifier: Apache-2.0
// What `data fetch` knows of one set: the packages (Debian's or npm's) that it is made of, how, and what must come out.
// A new set is a function here, a file of its own and a line in recipe.cpp; fetch.cpp does the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace quadrille {

using PackedFiles = std::map<std::string, std::string>;  // content by path
using MadeFiles = std::map<std::string, std::string>;    // content by name

struct Ingredient {
  bool npm = false;                  // else Debian
  std::string name, version, size;   // version: npm's, pinned; Debian gives what its release has
  std::vector<std::string> endings;  // of the paths wanted
  std::string package() const;       // of its file: "name_*.deb"
  bool is_package(std::string_view file_name) const;
};

struct WantedFile {
  std::string name;
  std::int64_t bytes = 0;  // of the content
  std::string sha256;      // of the content
  std::vector<std::int64_t> shape = {};
};

struct Recipe {
  std::string name, title, source, licence;
  std::vector<Ingredient> ingredients;
  // One PackedFiles per ingredient. Throws Error when these are not what they should be.
  std::function<MadeFiles(const std::vector<PackedFiles>&)> make;
  std::vector<WantedFile> files;  // what must come out, to the byte; none: what make has accepted
  // The content of a stored file, where it stays packed; null: the file itself.
  std::string (*content)(const std::string& stored, const std::string& name) = nullptr;
  // A file's entry in the manifest; null: that of a text.
  Json (*entry)(const WantedFile&, const std::string& stored) = nullptr;
  std::string digest = "sha256";  // the key of an entry that holds the SHA-256 of the content
};

std::vector<Recipe> recipes();
Recipe austen_recipe();
Recipe fashion_mnist_recipe();
Recipe libreoffice_help_recipe();
Recipe sotu_recipe();
Recipe bert_vocabulary_recipe();

// For the recipes and their tests. The content of the file whose path ends so; throws Error when there is none.
const std::string& packed_file(const PackedFiles&, std::string_view ending);
std::vector<std::string> html_blocks(std::string_view page);
std::vector<std::string> sentences_of(std::string_view text);
bool is_good_pair(std::string_view source, std::string_view target);
int hundredth_of(std::string_view text);  // SHA-256 as a number, modulo 100

}  // namespace quadrille
