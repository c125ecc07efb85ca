// SPDX-License-Identifier: Apache-2.0
// What `quadrille data fetch|prepare|verify|show` do, as functions: the program parses its options, calls one of these
// and prints what comes back. All of them throw Error with a message for the person at the terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dataset.h"

namespace quadrille {

using Progress = std::function<void(std::string_view line)>;

// fetch: DATA_ROOT/NAME with its files and manifest.json, made beside its place and then renamed, so that it is there
// whole or not at all. Once there and undamaged, nothing is done.
struct FetchOptions {
  std::string name = "austen";
  std::string from;  // "" downloads; else a .deb, or a folder (the files, unpacked package, .deb)
  std::string data_root = "data";
};
struct Fetched {
  bool already_there = false;
  std::string directory;
  Json manifest;
};
Fetched fetch_data(const FetchOptions&, const Progress&);
std::vector<std::string> fetchable();  // the names that fetch knows

// prepare: text files through a tokenizer into one llm.c file, with its entry in the manifest beside it.
struct PrepareOptions {
  std::string data_root = "data";
  std::string directory;  // of the texts, below data_root
  std::vector<std::string> files;
  std::vector<std::string> learn_from;            // what a compact alphabet or byte pairs come from; default: `files`
  Json tokenizer = Json::object();                // as in a workload: {"kind": "bpe", "vocabulary": 512}
  bool blank_lines = false, end_of_text = false;  // see encoded_text in text.h
  std::string output;                             // the .bin, a new file in data_root/directory
};
Json prepare_data(const PrepareOptions&, const Progress&);  // the manifest's entry

// verify: every file of a folder against its manifest (presence, bytes, SHA-256, and what the kind of file adds: UTF-8,
// characters, alphabet; or tokens, id width, byte order, vocabulary; or dimensions). Returns {"files": [...],
// "unlisted": [...]}.
Json verify_directory(const std::string& directory, const Progress&);
// Proves the order of samples by walking it: over all ranks each training window once per epoch, each evaluation label
// once. Also reads and checks all data. Returns the counts.
struct CoverageOptions {
  std::uint64_t seed = 1;
  std::int64_t batch_size = 1, ranks = 1, epochs = 2;
};
Json verify_coverage(const Datasets&, const CoverageOptions&, const Progress&);

// show: the first `count` ids of a text or token file and what they stand for, one line each. The kind of file is told
// by its manifest or, failing that, by its content; ids without a known tokenizer are shown as numbers. The name is
// looked up below `data_root` first, then taken as a path.
std::string show_file(const std::string& name, std::int64_t count, const std::string& data_root);

}  // namespace quadrille
