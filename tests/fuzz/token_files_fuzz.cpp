// SPDX-License-Identifier: Apache-2.0
// Headers of llm.c, Megatron and nanoGPT. Promise: a file that was opened can be read from end to end, but for ids
// beyond the vocabulary, which never come out.
#include <algorithm>
#include <vector>

#include "datasets/token_files.h"
#include "tests/fuzz/fuzz.h"

using namespace quadrille;

namespace {

void read_all(const TokenFile& file) {
  const FileTokens tokens({file.piece}, file.type, file.vocabulary.value_or(50257), Json());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min<std::int64_t>(tokens.count(), 4096)));
  for (const std::int64_t first : {std::int64_t{0}, tokens.count() - static_cast<std::int64_t>(ids.size())}) {
    if (!answers([&] { tokens.read(first, ids); })) continue;
    for (const std::int32_t id : ids) promise(id >= 0 && id < tokens.vocabulary(), "ids are below the vocabulary");
  }
  answers([&] { tokens.scan(); });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const unsigned format = input.byte() % 3;
  if (format == 0) answers([&] { read_all(open_llmc(file_of("llmc.bin", input.rest()))); });
  if (format == 1) answers([&] { read_all(open_nanogpt(file_of("nanogpt.bin", input.rest()))); });
  if (format == 2) {  // Megatron: the index and 2 * byte bytes of ids
    const std::string ids(2 * input.byte(), '\1');
    file_of("megatron.bin", ids);
    std::string prefix = file_of("megatron.idx", input.rest());
    prefix.resize(prefix.size() - 4);
    answers([&] { read_all(open_megatron(prefix)); });
  }
  return 0;
}
