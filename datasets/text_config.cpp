// SPDX-License-Identifier: Apache-2.0
// The "data" object of a text workload: which files, which tokenizer.
#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "datasets/merges_cache.h"
#include "datasets/text.h"

namespace quadrille {
namespace {

// The first byte of `files` outside `alphabet`, refused with name and position.
void require_alphabet(const TextFiles& files, const Tokenizer& tokenizer, const std::string& alphabet) {
  const std::string used = files.alphabet();
  if (std::ranges::all_of(used, [&](char c) { return alphabet.find(c) != std::string::npos; })) return;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string_view text = files.file(i).text();
    const std::size_t at = text.find_first_not_of(alphabet);
    if (at == std::string_view::npos) continue;
    std::vector<std::int32_t> none;
    tokenizer.encode(text.substr(at, 1), files.file(i).path(), static_cast<std::int64_t>(at), none);
  }
  fail("the manifest of {} lists bytes that its text does not have: fetch it again", files.directory());
}

struct TextPlan {
  std::shared_ptr<const Tokenizer> tokenizer;
  Documents documents = Documents::files;
  bool bytes = false, end_of_text = false;
};

std::unique_ptr<Dataset> cut(TextFiles files, const TextPlan& plan, bool training, std::int64_t tokens) {
  auto source = plan.bytes ? byte_text(std::move(files), plan.tokenizer)
                           : encoded_text(std::move(files), plan.tokenizer, plan.documents, plan.end_of_text);
  auto windows = training ? training_windows(std::move(source), tokens) : evaluation_windows(std::move(source), tokens);
  if (!windows->holds(1)) windows->size();  // has the message: too short a text is refused here and now
  return windows;
}

}  // namespace

std::shared_ptr<const Tokenizer> open_tokenizer(const Json& config, const std::string& path, const TextFiles& train,
                                                const std::string& data_root, Json& resolved) {
  Reader reader(config, path);
  const std::string kind = reader.choice("kind", {"byte", "bpe", "gpt2"}, "byte");
  std::shared_ptr<const Tokenizer> tokenizer;
  if (kind == "byte") {
    const bool compact = reader.choice("alphabet", {"full", "compact"}, "full") == "compact";
    reader.done();
    tokenizer = compact ? make_compact_tokenizer(train.alphabet()) : make_byte_tokenizer();
  } else if (kind == "bpe") {
    reader.value("vocabulary");
    reader.done();  // before what is missing: it may be misspelt
    const std::int64_t vocabulary = reader.integer("vocabulary");
    require(vocabulary >= 256 && vocabulary <= 65536, "{} (from {}) is {}: wanted 256 (bytes only) to 65536",
            reader.path_of("vocabulary"), reader.origin_of("vocabulary"), vocabulary);
    tokenizer = make_bpe_tokenizer(learned_merges(train, vocabulary));
  } else {
    reader.value("merges");
    reader.done();
    const std::string merges = reader.string("merges");
    require_below(merges, reader.path_of("merges"));
    tokenizer = read_gpt2_tokenizer((std::filesystem::path(data_root) / merges).string());
  }
  resolved = reader.resolved();
  return tokenizer;
}

Datasets open_text(const Json& config, std::int64_t tokens, const std::string& data_root) {
  Reader reader(config, "data");
  reader.choice("source", {"text"});
  const auto [directory, train_names, evaluate_names] = read_text_names(reader, data_root);
  TextPlan plan;
  const Json* named = reader.value("tokenizer");
  const Json tokenizer_config = named ? *named : Json::object();
  plan.documents = reader.choice("documents", {"files", "blank_lines"}, "files") == "files" ? Documents::files
                                                                                            : Documents::blank_lines;
  plan.end_of_text = reader.boolean("end_of_text", false);
  reader.done();

  TextFiles train(directory, train_names);
  Datasets sets;
  sets.resolved = reader.resolved();
  Json resolved;
  plan.tokenizer = open_tokenizer(tokenizer_config, "data.tokenizer", train, data_root, resolved);
  plan.bytes = resolved.at("kind").string() == "byte";
  require(!plan.end_of_text || plan.tokenizer->end_of_text(),
          "data.end_of_text (from {}) asks for an id that the {} tokenizer does not have: only gpt2 has one",
          reader.origin_of("end_of_text"), resolved.at("kind").string());
  require(
      !plan.bytes || plan.documents == Documents::files,
      "data.documents (from {}) is \"blank_lines\": that matters only where documents are encoded apart (bpe, gpt2)",
      reader.origin_of("documents"));
  if (!evaluate_names.empty()) {
    TextFiles evaluate(directory, evaluate_names);
    if (const Json* alphabet = resolved.find("alphabet"); alphabet && alphabet->string() == "compact") {
      require_alphabet(evaluate, *plan.tokenizer, train.alphabet());
    }
    sets.evaluate = cut(std::move(evaluate), plan, false, tokens);
  }
  sets.resolved.erase("tokenizer");  // so that its place does not depend on whether it was given
  sets.resolved.set("tokenizer", std::move(resolved));
  sets.train = cut(std::move(train), plan, true, tokens);
  return sets;
}

}  // namespace quadrille
