// SPDX-License-Identifier: Apache-2.0
// UTF-8 text files as tokens. Bytes are read where they lie, at any size; byte pairs are made once, in memory, when the
// first of them is wanted. What a manifest knows (checksums, alphabets) is taken from it and checked by scan().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/tokenizer.h"
#include "datasets/tokens.h"

namespace quadrille {

// Text files of one directory in the order named. Throws Error: missing, empty, named twice, not of the manifest's
// size.
class TextFiles {
 public:
  TextFiles(std::string directory, std::vector<std::string> names);
  const std::string& directory() const { return directory_; }
  std::size_t size() const { return files_.size(); }
  const MappedFile& file(std::size_t i) const { return *files_[i]; }
  std::shared_ptr<const MappedFile> shared(std::size_t i) const { return files_[i]; }
  std::vector<std::string_view> texts() const;
  std::string name() const;
  std::string alphabet() const;             // distinct bytes, from the manifest where it knows them
  std::string sha256(std::size_t i) const;  // from the manifest, else computed
  void scan() const;                        // UTF-8? the manifest's checksums?
  Json description() const;

 private:
  std::string directory_;
  std::vector<std::string> names_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<Json> entries_;  // of the manifest; null where it has none
};

enum class Documents : std::uint8_t { files, blank_lines };

// A refusal of every byte that `tokenizer` lacks is part of encoding.
std::shared_ptr<const Tokens> byte_text(TextFiles, std::shared_ptr<const Tokenizer>);
// Each file, or each part of a file between blank lines, is a document; with `end_of_text` its id stands before each.
// The two line ends that close a part stay with it (as in llm.c's dev/data/tinyshakespeare.py). Empty documents are
// refused.
std::shared_ptr<const Tokens> encoded_text(TextFiles, std::shared_ptr<const Tokenizer>, Documents, bool end_of_text);

// The tokenizer that a "tokenizer" object names. `train`: what compact alphabets and learned merges come from.
// The object with every default goes to `resolved`.
std::shared_ptr<const Tokenizer> open_tokenizer(const Json& config, const std::string& path, const TextFiles& train,
                                                const std::string& data_root, Json& resolved);
// {"source": "text", ...} of dataset.h.
Datasets open_text(const Json& config, std::int64_t tokens, const std::string& data_root);

// Throws Error when a name leads out of the folder that it is to be found in. `path` is whose name it is, for messages.
void require_below(const std::string& name, const std::string& path);
// A string or an array of strings, none twice, all below.
std::vector<std::string> names_of(const Json& value, const std::string& path);
// Below data_root, as "directory" of a data set says.
std::string read_directory(Reader&, const std::string& data_root);
// What sources of text files name; "evaluate" may be left out. Throws Error when a file is in both, with `remedy`.
struct TextNames {
  std::string directory;
  std::vector<std::string> train, evaluate;
};
TextNames read_text_names(Reader&, const std::string& data_root, std::string_view remedy = "");

}  // namespace quadrille
