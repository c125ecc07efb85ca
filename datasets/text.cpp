// SPDX-License-Identifier: Apache-2.0
#include "datasets/text.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "core/error.h"
#include "datasets/manifest.h"
#include "datasets/sha256.h"

namespace quadrille {
namespace {

Json describe(const TextFiles& files, const Tokenizer& tokenizer) {
  Json json = Json::object();
  json.set("source", "text");
  json.set("files", files.description());
  json.set("tokenizer", tokenizer.description());
  return json;
}

std::vector<Piece> whole_files(const TextFiles& files) {
  std::vector<Piece> pieces(files.size());
  for (std::size_t i = 0; i < files.size(); ++i)
    pieces[i].file = files.shared(i), pieces[i].count = files.file(i).size();
  return pieces;
}

class ByteText : public FileTokens {
 public:
  ByteText(TextFiles files, std::shared_ptr<const Tokenizer> tokenizer)
      : FileTokens(whole_files(files), IdType::u8, 256, describe(files, *tokenizer)),
        files_(std::move(files)),
        tokenizer_(std::move(tokenizer)) {
    ids_.fill(-1);
    for (std::int32_t id = 0; id < vocabulary(); ++id)
      ids_[static_cast<unsigned char>(tokenizer_->bytes_of(id)[0])] = id;
  }
  std::int64_t vocabulary() const override { return tokenizer_->vocabulary(); }
  std::string name() const override { return files_.name(); }
  std::string unit() const override { return "character"; }
  double units(Slice tokens) const override {
    std::int64_t characters = 0;
    for (const Piece& piece : pieces()) {
      const std::int64_t from = std::clamp<std::int64_t>(tokens.first - piece.first, 0, piece.count);
      const std::int64_t to = std::clamp<std::int64_t>(tokens.end() - piece.first, 0, piece.count);
      characters += count_characters(
          piece.file->text().substr(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)));
    }
    return static_cast<double>(characters);
  }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    FileTokens::read(first, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids_[static_cast<std::size_t>(ids[i])] < 0) refuse(first + static_cast<std::int64_t>(i));
      ids[i] = ids_[static_cast<std::size_t>(ids[i])];
    }
  }
  void scan() const override {
    files_.scan();
    FileTokens::scan();
  }

 private:
  [[noreturn]] void refuse(std::int64_t token) const {  // the tokenizer has the message
    const Piece& piece = *std::prev(std::ranges::upper_bound(pieces(), token, {}, &Piece::first));
    std::vector<std::int32_t> none;
    const std::int64_t position = token - piece.first;
    tokenizer_->encode(piece.file->text().substr(static_cast<std::size_t>(position), 1), piece.file->path(), position,
                       none);
    fail("byte {} of {} is not in the alphabet", position, piece.file->path());
  }
  TextFiles files_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::array<std::int32_t, 256> ids_{};
};

class EncodedText : public Tokens {
 public:
  EncodedText(TextFiles files, std::shared_ptr<const Tokenizer> tokenizer, Documents documents, bool end_of_text)
      : files_(std::move(files)), tokenizer_(std::move(tokenizer)), documents_(documents), end_of_text_(end_of_text) {}
  std::int64_t count() const override { return static_cast<std::int64_t>(encoded().size()); }
  // A token is at least one byte, and at most as long as the longest of the vocabulary. Between these bounds only
  // encoding can tell; such a text is no longer than `tokens` of the longest.
  bool holds(std::int64_t tokens) const override {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < files_.size(); ++i) bytes += files_.file(i).size();
    if (bytes / longest_token() >= tokens) return true;
    if (bytes < tokens && !end_of_text_) return false;
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < files_.size() && static_cast<std::int64_t>(ids.size()) < tokens; ++i)
      encode(files_.file(i), ids);
    return static_cast<std::int64_t>(ids.size()) >= tokens;
  }
  std::int64_t vocabulary() const override { return tokenizer_->vocabulary(); }
  std::string name() const override { return files_.name(); }
  std::string unit() const override { return "character"; }
  double units(Slice tokens) const override {
    const std::int32_t end = tokenizer_->end_of_text().value_or(-1);
    std::int64_t characters = 0;
    for (std::int32_t id : part_of(tokens)) characters += id == end ? 0 : count_characters(tokenizer_->bytes_of(id));
    return static_cast<double>(characters);
  }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    std::ranges::copy(part_of({first, static_cast<std::int64_t>(ids.size())}), ids.begin());
  }
  void scan() const override {
    files_.scan();
    encoded();
  }
  Json description() const override { return describe(files_, *tokenizer_); }

 private:
  std::span<const std::int32_t> part_of(Slice tokens) const {
    const auto& ids = encoded();
    require(tokens.first >= 0 && tokens.count >= 0 && tokens.end() <= static_cast<std::int64_t>(ids.size()),
            "tokens [{}, {}) of {}, which holds {}", tokens.first, tokens.end(), name(), ids.size());
    return std::span(ids).subspan(static_cast<std::size_t>(tokens.first), static_cast<std::size_t>(tokens.count));
  }
  std::int64_t longest_token() const {  // in bytes
    std::size_t longest = 1;
    for (std::int32_t id = 0; id < vocabulary(); ++id) longest = std::max(longest, tokenizer_->bytes_of(id).size());
    return static_cast<std::int64_t>(longest);
  }
  const std::vector<std::int32_t>& encoded() const {
    std::call_once(once_, [this] {
      std::vector<std::int32_t> ids;
      for (std::size_t i = 0; i < files_.size(); ++i) encode(files_.file(i), ids);
      ids.shrink_to_fit();
      ids_ = std::move(ids);
    });
    return ids_;
  }
  void encode(const MappedFile& file, std::vector<std::int32_t>& ids) const {
    const std::string_view text = file.text();
    std::size_t from = 0;
    for (std::int64_t document = 0; from <= text.size(); ++document) {
      std::size_t gap = documents_ == Documents::blank_lines ? text.find("\n\n", from) : std::string_view::npos;
      const bool last = gap == std::string_view::npos;
      if (last) gap = text.size();
      require(gap > from, "document {} of {} (byte {}) is empty. Remove the {}", document, file.path(), from,
              documents_ == Documents::blank_lines ? "extra blank line, or use \"documents\": \"files\"" : "file");
      if (end_of_text_) ids.push_back(*tokenizer_->end_of_text());
      const std::size_t to = last ? gap : gap + 2;
      tokenizer_->encode(text.substr(from, to - from), file.path(), static_cast<std::int64_t>(from), ids);
      if (last) break;
      from = to;
    }
  }
  TextFiles files_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  Documents documents_;
  bool end_of_text_;
  mutable std::once_flag once_;
  mutable std::vector<std::int32_t> ids_;
};

}  // namespace

void require_below(const std::string& name, const std::string& path) {
  const std::filesystem::path tidy = std::filesystem::path(name).lexically_normal();
  require(tidy.is_relative() && (tidy.empty() || *tidy.begin() != ".."),
          "{} names {}: wanted a name below the data folder, no absolute path and no \"..\" that leads out of it; "
          "--data says where that folder is",
          path, name);
}

std::vector<std::string> names_of(const Json& value, const std::string& path) {
  std::vector<std::string> names;
  if (value.is_string()) names.push_back(value.string());
  if (!value.is_string()) {
    for (const Json& item : value.items()) names.push_back(item.string());
  }
  require(!names.empty(), "{} names no file", path);
  std::set<std::string> seen;
  for (const std::string& name : names) {
    require(!name.empty(), "{} names a file \"\"", path);
    require_below(name, path);
    require(seen.insert(name).second, "{} names {} twice: the same text would count double", path, name);
  }
  return names;
}

std::string read_directory(Reader& reader, const std::string& data_root) {
  const std::string folder = reader.string("directory", "");
  require_below(folder, "data.directory");
  return (std::filesystem::path(data_root) / folder).lexically_normal().string();
}

TextNames read_text_names(Reader& reader, const std::string& data_root, std::string_view remedy) {
  TextNames names{read_directory(reader, data_root), names_of(reader.needed("train"), "data.train"), {}};
  if (const Json* value = reader.value("evaluate")) names.evaluate = names_of(*value, "data.evaluate");
  for (const std::string& name : names.evaluate)
    require(std::ranges::find(names.train, name) == names.train.end(),
            "{} is in data.train and in data.evaluate: a model is not judged on what it was trained on{}", name,
            remedy);
  return names;
}

TextFiles::TextFiles(std::string directory, std::vector<std::string> names)
    : directory_(std::move(directory)), names_(std::move(names)) {
  const std::optional<Json> manifest = read_manifest(directory_);
  for (const std::string& name : names_) {
    files_.push_back(
        std::make_shared<MappedFile>((std::filesystem::path(directory_) / name).lexically_normal().string()));
    const MappedFile& file = *files_.back();
    require(file.size() > 0, "{} is empty: a text must hold at least one byte", file.path());
    const Json* entry = manifest ? manifest_entry(*manifest, name) : nullptr;
    require(!entry || entry->at("bytes").integer() == file.size(),
            "{} has {} bytes, its manifest says {}: it is truncated or another file. Fetch it again", file.path(),
            file.size(), entry ? entry->at("bytes").integer() : 0);
    entries_.push_back(entry ? *entry : Json());
  }
}

std::vector<std::string_view> TextFiles::texts() const {
  std::vector<std::string_view> texts;
  texts.reserve(files_.size());
  for (const auto& file : files_) texts.push_back(file->text());
  return texts;
}

std::string TextFiles::name() const {
  if (files_.size() == 1) return files_[0]->path();
  return fmt::format("{} and {} more", files_[0]->path(), files_.size() - 1);
}

std::string TextFiles::alphabet() const {
  std::string bytes;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const Json* known = entries_[i].is_null() ? nullptr : entries_[i].find("alphabet");
    bytes += known ? from_hex(known->string(), known->origin()) : distinct_bytes(files_[i]->text());
  }
  return distinct_bytes(bytes);
}

std::string TextFiles::sha256(std::size_t i) const {
  if (!entries_[i].is_null()) return entries_[i].at("sha256").string();
  return sha256_of(files_[i]->text());
}

void TextFiles::scan() const {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::int64_t bad = first_ill_formed(files_[i]->text());
    require(
        bad < 0, "{} is not UTF-8 text: byte 0x{:02x} at position {}. Convert it (iconv -t UTF-8)", files_[i]->path(),
        static_cast<unsigned char>(files_[i]->text()[static_cast<std::size_t>(std::max<std::int64_t>(bad, 0))]), bad);
    if (!entries_[i].is_null()) check_against_entry(directory_, entries_[i]);
  }
}

Json TextFiles::description() const {
  Json list = Json::array();
  for (std::size_t i = 0; i < files_.size(); ++i) {
    Json json = Json::object();
    json.set("file", names_[i]);
    json.set("bytes", files_[i]->size());
    if (!entries_[i].is_null()) json.set("sha256", entries_[i].at("sha256"));
    list.push(std::move(json));
  }
  return list;
}

std::shared_ptr<const Tokens> byte_text(TextFiles files, std::shared_ptr<const Tokenizer> tokenizer) {
  return std::make_shared<ByteText>(std::move(files), std::move(tokenizer));
}

std::shared_ptr<const Tokens> encoded_text(TextFiles files, std::shared_ptr<const Tokenizer> tokenizer,
                                           Documents documents, bool end_of_text) {
  require(!end_of_text || tokenizer->end_of_text(), "this tokenizer has no end of text to put before each document");
  return std::make_shared<EncodedText>(std::move(files), std::move(tokenizer), documents, end_of_text);
}

}  // namespace quadrille
