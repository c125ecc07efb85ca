// SPDX-License-Identifier: Apache-2.0
// `data prepare` and `data show`: text to files of ids, and ids back to something one can read.
#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "datasets/commands.h"
#include "datasets/manifest.h"
#include "datasets/sha256.h"
#include "datasets/text.h"
#include "datasets/token_files.h"

namespace quadrille {
namespace {

namespace fs = std::filesystem;

Json names_json(const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const std::string& name : names) list.push(name);
  return list;
}

std::shared_ptr<const Tokens> tokens_of(TextFiles files, std::shared_ptr<const Tokenizer> tokenizer,
                                        const PrepareOptions& options) {
  const bool plain =
      !options.blank_lines && !options.end_of_text && tokenizer->description().at("kind").string() == "byte";
  if (plain) return byte_text(std::move(files), std::move(tokenizer));
  return encoded_text(std::move(files), std::move(tokenizer),
                      options.blank_lines ? Documents::blank_lines : Documents::files, options.end_of_text);
}

// How ids are written where whoever reads shall see each of them: line ends and other controls as escapes.
std::string readable(std::string_view bytes) {
  std::string text;
  const bool whole = first_ill_formed(bytes) < 0;
  for (char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      text += "\\n";
    } else if (c == '\\' || c == '"') {
      text += '\\', text += c;
    } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !whole)) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text;
}

std::shared_ptr<const Tokenizer> tokenizer_of(const Json& entry, const std::string& directory,
                                              const std::string& data_root) {
  const Json* config = entry.find("tokenizer");
  if (!config) return nullptr;
  std::vector<std::string> learned_from = names_of(entry.at("learned_from"), "learned_from");
  Json resolved;
  return open_tokenizer(*config, "tokenizer", TextFiles(directory, std::move(learned_from)), data_root, resolved);
}

struct Shown {
  std::shared_ptr<const Tokens> tokens;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string kind;
};

Shown open_shown(const std::string& path, const std::string& data_root) {
  const std::string directory = fs::path(path).parent_path().string(), name = fs::path(path).filename().string();
  const std::optional<Json> manifest = read_manifest(directory);
  const Json* entry = manifest ? manifest_entry(*manifest, name) : nullptr;
  const MappedFile file(path);
  const bool index = file.text().starts_with("MMIDIDX") ||
                     (name.ends_with(".bin") && fs::exists(path.substr(0, path.size() - 4) + ".idx"));
  if (!index && !name.ends_with(".bin")) {
    std::shared_ptr<const Tokenizer> bytes = make_byte_tokenizer();
    return {byte_text(TextFiles(directory, {name}), bytes), bytes, "text, byte by byte"};
  }
  const bool headed = !index && looks_like_llmc(file);
  const TokenFile opened = index ? open_megatron(path) : headed ? open_llmc(path) : open_nanogpt(path);
  auto tokens = std::make_shared<FileTokens>(std::vector{opened.piece}, opened.type, std::int64_t{1} << 31, Json());
  return {tokens, entry ? tokenizer_of(*entry, directory, data_root) : nullptr,
          index    ? "Megatron"
          : headed ? "llm.c"
                   : "nanoGPT (16-bit ids)"};
}

}  // namespace

Json prepare_data(const PrepareOptions& options, const Progress& progress) {
  require(!options.output.empty(), "prepare takes the name of the file to write");
  require(fs::path(options.output).filename() == options.output,
          "--output {}: wanted the name of a file in the folder of the texts, without a path", options.output);
  require_below(options.directory, "prepare");
  const std::string directory = (fs::path(options.data_root) / options.directory).lexically_normal().string();
  const fs::path output = fs::path(directory) / options.output;
  require(std::ranges::find(options.files, options.output) == options.files.end(), "{} is both text and output",
          options.output);
  require(output.extension() == ".bin", "{}: a file of ids is named .bin", output.string());
  require(!fs::exists(fs::symlink_status(output)),
          "{} is there already: give --output another name, or remove it first", output.string());
  const std::vector<std::string> learn_from = options.learn_from.empty() ? options.files : options.learn_from;
  TextFiles files(directory, names_of(names_json(options.files), "prepare"));
  files.scan();
  Json resolved;
  std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(
      options.tokenizer, "tokenizer", TextFiles(directory, names_of(names_json(learn_from), "--learn-from")),
      options.data_root, resolved);
  progress(fmt::format("encoding {} into {}", files.name(), output.string()));
  const std::shared_ptr<const Tokens> tokens = tokens_of(files, tokenizer, options);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens->count()));
  tokens->read(0, ids);
  write_llmc(output.string(), ids, tokenizer->vocabulary());

  Json entry = Json::object();
  entry.set("file", output.filename().string());
  entry.set("kind", "llmc");
  entry.set("bytes", static_cast<std::int64_t>(fs::file_size(output)));
  entry.set("sha256", sha256_of_file(output.string()));
  entry.set("tokens", tokens->count());
  entry.set("id_bytes", size_of(open_llmc(output.string()).type));
  entry.set("byte_order", "little");
  entry.set("vocabulary", tokenizer->vocabulary());
  entry.set("tokenizer", std::move(resolved));
  entry.set("learned_from", names_json(learn_from));
  entry.set("texts", files.description());
  entry.set("documents", options.blank_lines ? "blank_lines" : "files");
  entry.set("end_of_text", options.end_of_text);
  entry.set("characters_after_first_token", tokens->units({1, tokens->count() - 1}));
  const std::string folder = output.parent_path().string();
  Json manifest = read_manifest(folder).value_or(new_manifest(output.parent_path().filename().string()));
  set_manifest_entry(manifest, entry);
  write_file_whole((fs::path(folder) / kManifestName).string(), manifest.text(2) + "\n");
  progress(fmt::format("{} tokens of a vocabulary of {}", tokens->count(), tokenizer->vocabulary()));
  return entry;
}

std::string show_file(const std::string& name, std::int64_t count, const std::string& data_root) {
  require(count >= 0, "{} tokens cannot be shown", count);
  const std::string below = (fs::path(data_root) / name).lexically_normal().string();
  const std::string path = fs::exists(below) ? below : name;
  require(fs::exists(path), "No such file: neither {} nor {}", below, name);
  const Shown shown = open_shown(path, data_root);
  std::string text = fmt::format("{}: {}, {} tokens\n", path, shown.kind, shown.tokens->count());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(count, shown.tokens->count())));
  shown.tokens->read(0, ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    text += shown.tokenizer
                ? fmt::format("{:>6} {:>6} \"{}\"\n", i, ids[i], readable(shown.tokenizer->bytes_of(ids[i])))
                : fmt::format("{:>6} {:>6}\n", i, ids[i]);
  }
  return text;
}

}  // namespace quadrille
