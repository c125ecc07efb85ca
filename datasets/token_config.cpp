// SPDX-License-Identifier: Apache-2.0
// The "data" object of a workload on files of ids: which files, how many ids, what the manifest knows of them.
#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "datasets/manifest.h"
#include "datasets/text.h"
#include "datasets/token_files.h"

namespace quadrille {
namespace {

class ListedTokens : public FileTokens {
 public:
  ListedTokens(std::vector<Piece> pieces, IdType type, std::int64_t vocabulary, Json description, std::string directory,
               std::vector<Json> entries)
      : FileTokens(std::move(pieces), type, vocabulary, std::move(description)),
        directory_(std::move(directory)),
        entries_(std::move(entries)) {}
  std::string unit() const override { return characters() ? "character" : "token"; }
  double units(Slice tokens) const override {
    const Json* all = characters();
    if (!all) return FileTokens::units(tokens);
    return all->number() * static_cast<double>(tokens.count) / static_cast<double>(count() - 1);
  }
  void scan() const override {
    for (const Json& entry : entries_) check_against_entry(directory_, entry);
    FileTokens::scan();
  }

 private:
  const Json* characters() const {
    return pieces().size() == 1 && entries_.size() == 1 && count() > 1
               ? entries_[0].find("characters_after_first_token")
               : nullptr;
  }
  std::string directory_;
  std::vector<Json> entries_;  // of the files that a manifest lists
};

TokenFile open_one(const std::string& source, const std::string& path) {
  if (source == "llmc") return open_llmc(path);
  if (source == "megatron") return open_megatron(path);
  return open_nanogpt(path);
}

// Files of one set that hold the same bytes: a shard was copied in place of another.
void refuse_twins(const std::vector<Piece>& pieces) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      require(pieces[i].file->text() != pieces[j].file->text(), "{} and {} hold the same bytes: the same shard twice",
              pieces[j].file->path(), pieces[i].file->path());
    }
  }
}

std::shared_ptr<const Tokens> open_set(const std::string& source, const std::string& directory,
                                       const std::vector<std::string>& names, std::optional<std::int64_t>& vocabulary,
                                       const std::string& where) {
  const std::optional<Json> manifest = read_manifest(directory);
  std::vector<Piece> pieces;
  std::vector<Json> entries;
  std::optional<IdType> type;
  Json files = Json::array();
  for (const std::string& name : names) {
    const TokenFile file = open_one(source, (std::filesystem::path(directory) / name).lexically_normal().string());
    const std::string& path = file.piece.file->path();
    require(!type || *type == file.type, "{} holds ids of {} bytes, the files before it of {}", path,
            size_of(file.type), type ? size_of(*type) : 0);
    type = file.type;
    std::optional<std::int64_t> known = file.vocabulary;
    Json described = Json::object();
    described.set("file", name);
    described.set("bytes", file.piece.file->size());
    described.set("tokens", file.piece.count);
    if (const Json* entry =
            manifest ? manifest_entry(*manifest, std::filesystem::path(path).filename().string()) : nullptr) {
      require(entry->at("bytes").integer() == file.piece.file->size(),
              "{} has {} bytes, its manifest says {}: it is truncated or another file", path, file.piece.file->size(),
              entry->at("bytes").integer());
      if (const Json* listed = entry->find("vocabulary")) known = listed->integer();
      described.set("sha256", entry->at("sha256"));
      entries.push_back(*entry);
    }
    if (!vocabulary) vocabulary = known;
    require(vocabulary.has_value(), "{}.vocabulary is missing: a {} file does not tell how many ids there are", where,
            source);
    pieces.push_back(file.piece);
    files.push(std::move(described));
  }
  refuse_twins(pieces);
  Json description = Json::object();
  description.set("source", source);
  description.set("files", std::move(files));
  description.set("vocabulary", *vocabulary);
  return std::make_shared<ListedTokens>(std::move(pieces), *type, *vocabulary, std::move(description), directory,
                                        std::move(entries));
}

}  // namespace

Datasets open_token_files(const Json& config, std::int64_t tokens, const std::string& data_root) {
  Reader reader(config, "data");
  const std::string source = reader.choice("source", {"llmc", "megatron", "nanogpt"});
  const std::string directory = read_directory(reader, data_root);
  const std::vector<std::string> train = names_of(reader.needed("train"), "data.train");
  const Json* evaluate = reader.value("evaluate");
  std::optional<std::int64_t> vocabulary;
  if (config.find("vocabulary")) vocabulary = reader.integer("vocabulary");
  reader.done();
  Datasets sets;
  sets.train = training_windows(open_set(source, directory, train, vocabulary, "data"), tokens);
  sets.train->size();  // too few tokens are refused here and now
  if (evaluate) {
    const std::vector<std::string> names = names_of(*evaluate, "data.evaluate");
    for (const std::string& name : names) {
      require(std::ranges::find(train, name) == train.end(),
              "{} is in data.train and in data.evaluate: a model is not judged on what it was trained on", name);
    }
    sets.evaluate = evaluation_windows(open_set(source, directory, names, vocabulary, "data"), tokens);
    sets.evaluate->size();
  }
  sets.resolved = reader.resolved();
  sets.resolved.set("vocabulary", *vocabulary);
  return sets;
}

}  // namespace quadrille
