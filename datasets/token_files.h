// SPDX-License-Identifier: Apache-2.0
// Files of ready-made ids: llm.c's .bin (read and written), Megatron's .bin/.idx, nanoGPT's headerless .bin. Headers
// are checked against the file's size when it is opened, ids against the vocabulary as they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/tokens.h"

namespace quadrille {

// What one file holds, by its header and size.
struct TokenFile {
  Piece piece;
  IdType type = IdType::u16;
  std::optional<std::int64_t> vocabulary;  // where the format implies one
};

// 1,024 bytes of header (magic 20240520 version 1: 16-bit ids of GPT-2; 20240801 version 7: 32-bit ids of Llama 3),
// then the ids (llm.c, dev/data/data_common.py and llmc/dataloader.h).
TokenFile open_llmc(const std::string& path);
bool looks_like_llmc(const MappedFile&);  // by the magic number, in either byte order
void write_llmc(const std::string& path, std::span<const std::int32_t> ids, std::int64_t vocabulary);
// PREFIX.bin and PREFIX.idx (Megatron-LM, megatron/core/datasets/indexed_dataset.py). The sequences are read as one row
// in the order they lie; document boundaries are checked, then ignored.
TokenFile open_megatron(const std::string& prefix);
// 16-bit ids and nothing else (nanoGPT, data/*/prepare.py).
TokenFile open_nanogpt(const std::string& path);

// {"source": "llmc" | "megatron" | "nanogpt", "directory": ..., "train": ..., "evaluate": ..., "vocabulary": ...}. The
// vocabulary may come from the manifest or, for llm.c, from the format. Where a manifest tells how many characters a
// single file stands for, that is its unit (a part of it counts in proportion), else the token is.
Datasets open_token_files(const Json& config, std::int64_t tokens, const std::string& data_root);

}  // namespace quadrille
