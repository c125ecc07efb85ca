// SPDX-License-Identifier: Apache-2.0
// WordPiece with any vocabulary on any text. Promise: every id is below the vocabulary, words are UTF-8 without white
// space, and ids are no more than the decomposed characters.
#include "datasets/wordpiece.h"

#include "datasets/bleu.h"
#include "datasets/manifest.h"
#include "tests/fuzz/fuzz.h"

using namespace quadrille;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::string_view vocabulary = input.piece(), text = input.rest();
  answers([&] {
    for (const std::string& word : bert_words(text, "x", 0)) {
      promise(!word.empty() && first_ill_formed(word) < 0, "words are UTF-8");
      promise(word.find_first_of(" \t\n\r") == std::string::npos, "words have no white space");
    }
  });
  answers([&] {
    const WordPiece pieces(file_of("vocab.txt", vocabulary));
    std::vector<std::int32_t> ids;
    pieces.encode(text, "x", 0, ids);
    for (std::int32_t id : ids) promise(id >= 0 && id < pieces.vocabulary(), "ids are below the vocabulary");
    promise(ids.size() <= 4 * text.size(), "a character gives four pieces at most");
  });
  for (const std::string& token : tokens_13a(text)) promise(!token.empty(), "tokens are not empty");
  return 0;
}
