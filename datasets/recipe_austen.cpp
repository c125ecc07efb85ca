// SPDX-License-Identifier: Apache-2.0
// Six novels by Jane Austen, public domain, as Debian's r-cran-janeaustenr carries them: character vectors in R's
// format, one string a line.
#include "core/error.h"
#include "datasets/manifest.h"
#include "datasets/rdata.h"
#include "datasets/recipe.h"

namespace quadrille {
namespace {

std::string lines_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line, text += '\n';
  return text;
}

MadeFiles make(const std::vector<PackedFiles>& packed) {
  MadeFiles texts;
  for (const RVector& vector :
       parse_r_character_vectors(packed_file(packed[0], "Rdata.rdx"), packed_file(packed[0], "Rdata.rdb"), "Rdata"))
    texts[vector.name + ".txt"] = lines_of(vector.lines);
  return texts;
}

}  // namespace

Recipe austen_recipe() {
  Recipe recipe;
  recipe.name = "austen";
  recipe.title = "Six novels by Jane Austen";
  recipe.source = "Debian package r-cran-janeaustenr, data of the R package janeaustenr 1.0.0";
  recipe.licence = "texts: public domain; the package around them: MIT, 2016-2017 Julia Silge";
  recipe.ingredients = {
      {false, "r-cran-janeaustenr", "", "1.6 MB", {"janeaustenr/data/Rdata.rdx", "janeaustenr/data/Rdata.rdb"}}};
  recipe.make = make;
  recipe.files = {
      // of version 1.0.0-1, each line followed by a line end
      {"emma.txt", 883028, "7c67b5985c6d0de1efaeb5d342d52cb82c38083c40e2295129e30e87ee690ebe"},
      {"mansfieldpark.txt", 883280, "98bc90519cdf4ef663ad7de2734bb529435ef24f7abbde6bb1a50898871dafe9"},
      {"northangerabbey.txt", 433411, "51f91bbe0517db8e65cff009b097ce0a1836124c4e0532ac19e6c0cad982abed"},
      {"persuasion.txt", 466854, "8061549557aebd2fd6e353d18d9197cb707029112bd52d4d8b174583a925848a"},
      {"prideprejudice.txt", 684768, "dfc684d4f857fa938268f9ab9c5567b64bd0691251eca959644adeabe6287a4d"},
      {"sensesensibility.txt", 673688, "105e1651fe93bed7130078578efd31e0c557d68667ba672ddc876f735b30fe09"},
  };
  return recipe;
}

}  // namespace quadrille
