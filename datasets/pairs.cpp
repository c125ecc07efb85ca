// SPDX-License-Identifier: Apache-2.0
// See pairs.h.
#include "datasets/pairs.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace quadrille {

Pairs::Pairs(TextFiles files, MarkedTokenizer tokenizer, std::int64_t source_tokens, std::int64_t tokens)
    : files_(std::move(files)), tokenizer_(std::move(tokenizer)), source_tokens_(source_tokens), tokens_(tokens) {}

Fields Pairs::fields() const {
  return {{"source", {source_tokens_}, DType::i32}, {"ids", {tokens_}, DType::i32}, {"labels", {tokens_}, DType::i32}};
}

Pairs::Encoded Pairs::encode() const {
  Encoded result;
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const std::string_view text = files_.file(f).text();
    const std::string& path = files_.file(f).path();
    std::int64_t line_number = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      std::string_view line = text.substr(at, end - at);
      if (line.ends_with('\r')) line.remove_suffix(1);
      ++line_number;
      const std::size_t tab = line.find('\t');
      require(tab != std::string_view::npos && tab > 0 && tab + 1 < line.size() &&
                  line.find('\t', tab + 1) == std::string_view::npos,
              "{}:{} (byte {}) is no pair: wanted source TAB target, both of them there and one TAB; fetch the file "
              "again or mend the line",
              path, line_number, at);
      Place place{f, at, tab, line.size() - tab - 1, static_cast<std::int64_t>(result.ids.size()), 0, 0};
      const auto offset = static_cast<std::int64_t>(at);
      tokenizer_.tokenizer->encode(line.substr(0, tab), path, offset, result.ids);
      place.source_ids = static_cast<std::int64_t>(result.ids.size()) - place.source_at;
      tokenizer_.tokenizer->encode(line.substr(tab + 1), path, offset + static_cast<std::int64_t>(tab) + 1, result.ids);
      place.target_ids = static_cast<std::int64_t>(result.ids.size()) - place.source_at - place.source_ids;
      if (place.source_ids + 1 > source_tokens_ || place.target_ids + 1 > tokens_) {
        ++result.left_out;
        result.ids.resize(static_cast<std::size_t>(place.source_at));
      } else {
        result.pairs.push_back(place);
        result.labels += place.target_ids + 1;
      }
      at = end + 1;
    }
  }
  require(!result.pairs.empty(),
          "no pair of {} fits into {} source and {} target tokens (all {} left out): set larger "
          "source_tokens and model.tokens",
          files_.name(), source_tokens_, tokens_, result.left_out);
  return result;
}

const Pairs::Encoded& Pairs::encoded() const {
  std::call_once(once_, [this] { encoded_ = encode(); });
  return encoded_;
}

bool Pairs::holds(std::int64_t samples) const {
  std::int64_t lines = 0;
  for (std::size_t i = 0; i < files_.size(); ++i)
    lines += std::ranges::count(files_.file(i).text(), '\n') + !files_.file(i).text().ends_with('\n');
  return lines >= samples && static_cast<std::int64_t>(encode().pairs.size()) >= samples;
}

void Pairs::read(std::int64_t epoch, std::int64_t index, const Row& row) const {
  require(epoch >= 0 && index >= 0 && index < size(), "pair {} of epoch {} of {}: it has pairs 0 to {}", index, epoch,
          files_.name(), size() - 1);
  const Place& place = encoded().pairs[static_cast<std::size_t>(index)];
  const auto all = std::span(encoded().ids).subspan(static_cast<std::size_t>(place.source_at));
  const auto source = all.first(static_cast<std::size_t>(place.source_ids));
  const auto target = all.subspan(source.size(), static_cast<std::size_t>(place.target_ids));
  row.pad();
  const auto to = row.integers("source"), ids = row.integers("ids"), labels = row.integers("labels");
  std::ranges::copy(source, to.begin());
  to[source.size()] = end();
  ids[0] = begin();
  std::ranges::copy(target, ids.begin() + 1);
  std::ranges::copy(target, labels.begin());
  labels[target.size()] = end();
}

void Pairs::scan() const {
  files_.scan();
  encoded();
}

Json Pairs::description() const {
  Json json = Json::object();
  json.set("source", "pairs");
  json.set("files", files_.description());
  json.set("tokenizer", tokenizer_.description());
  json.set("pairs", size());
  json.set("pairs_left_out", encoded().left_out);
  return json;
}

std::string Pairs::text_of_ids(std::span<const std::int32_t> ids) const {
  std::vector<std::int32_t> words;
  for (std::int32_t id : ids) {
    if (id == end() || id < 0) break;
    if (id != begin()) words.push_back(id);
  }
  return tokenizer_.tokenizer->decode(words);
}

std::string Pairs::target(std::int64_t index) const {
  const Place& place = encoded().pairs.at(static_cast<std::size_t>(index));
  return std::string(files_.file(place.file).text().substr(place.source + place.source_bytes + 1, place.target_bytes));
}

Datasets open_pairs(const Json& config, std::int64_t tokens, const std::string& data_root) {
  Reader reader(config, "data");
  reader.choice("source", {"pairs"});
  const auto [directory, train_names, evaluate_names] = read_text_names(reader, data_root);
  const std::int64_t source_tokens = reader.integer("source_tokens", tokens);
  require(source_tokens >= 2 && source_tokens <= (std::int64_t{1} << 24) && tokens >= 2,
          "data.source_tokens is {} and model.tokens {}: a sentence and its mark take at least 2", source_tokens,
          tokens);
  const Json named = reader.needed("tokenizer");
  reader.done();
  require(
      named.at("kind").string() == "bpe",
      "data.tokenizer.kind (from {}) is \"{}\": translations are written out again, and of the tokenizers with marks "
      "only bpe gives text back",
      named.at("kind").origin(), named.at("kind").string());
  TextFiles train(directory, train_names);
  Datasets sets;
  sets.resolved = reader.resolved();
  const MarkedTokenizer tokenizer = open_marked_tokenizer(named, "data.tokenizer", train, data_root, {"begin", "end"});
  sets.resolved.set("tokenizer", tokenizer.resolved);
  if (!evaluate_names.empty())
    sets.evaluate = std::make_unique<Pairs>(TextFiles(directory, evaluate_names), tokenizer, source_tokens, tokens);
  sets.train = std::make_unique<Pairs>(std::move(train), tokenizer, source_tokens, tokens);
  return sets;
}

}  // namespace quadrille
