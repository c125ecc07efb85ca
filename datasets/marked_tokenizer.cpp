// SPDX-License-Identifier: Apache-2.0
// See marked_tokenizer.h.
#include "datasets/marked_tokenizer.h"

#include <filesystem>

#include "core/error.h"
#include "datasets/merges_cache.h"
#include "datasets/wordpiece.h"

namespace quadrille {

Json MarkedTokenizer::description() const {
  Json json = tokenizer->description();
  json.set("vocabulary_with_marks", vocabulary);
  return json;
}

MarkedTokenizer open_marked_tokenizer(const Json& config, const std::string& path, const TextFiles& train,
                                      const std::string& data_root, const std::vector<std::string>& marks) {
  Reader reader(config, path);
  MarkedTokenizer result;
  if (reader.choice("kind", {"bpe", "wordpiece"}) == "bpe") {
    reader.value("vocabulary");
    reader.done();
    const std::int64_t vocabulary = reader.integer("vocabulary"), least = 256 + static_cast<std::int64_t>(marks.size());
    require(vocabulary >= least && vocabulary <= 65536, "{} (from {}) is {}: wanted {} (bytes and {} marks) to 65536",
            reader.path_of("vocabulary"), reader.origin_of("vocabulary"), vocabulary, least, marks.size());
    const std::int64_t pairs = vocabulary - static_cast<std::int64_t>(marks.size());
    result.tokenizer = make_bpe_tokenizer(learned_merges(train, pairs));
    result.vocabulary = vocabulary;
    for (std::size_t i = 0; i < marks.size(); ++i)
      result.marks.push_back(static_cast<std::int32_t>(pairs) + static_cast<std::int32_t>(i));
  } else {
    reader.value("file");
    reader.done();
    const std::string file = reader.string("file");
    require_below(file, reader.path_of("file"));
    auto pieces = std::make_shared<WordPiece>((std::filesystem::path(data_root) / file).string());
    for (const std::string& mark : marks) result.marks.push_back(pieces->id_of(mark));
    result.vocabulary = pieces->vocabulary();
    result.tokenizer = std::move(pieces);
  }
  result.resolved = reader.resolved();
  return result;
}

}  // namespace quadrille
