// SPDX-License-Identifier: Apache-2.0
// Byte pairs: our own, learned from the input, and GPT-2's, from a file of merges. Promise: decode(encode(text)) is
// text, and every id is below the vocabulary.
#include <vector>

#include "datasets/tokenizer.h"
#include "tests/fuzz/fuzz.h"

using namespace quadrille;

namespace {

void round_trip(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  if (!answers([&] { tokenizer.encode(text, "text", 0, ids); })) return;
  for (std::int32_t id : ids) promise(id >= 0 && id < tokenizer.vocabulary(), "ids are below the vocabulary");
  promise(tokenizer.decode(ids) == text, "decode(encode(text)) is text");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::int64_t vocabulary = 256 + input.byte();
  const std::string_view first = input.piece(), second = input.rest();
  answers([&] {
    const std::string_view texts[] = {first, second};
    const auto own = make_bpe_tokenizer(learn_merges(texts, vocabulary));
    round_trip(*own, first);
    round_trip(*own, second);
  });
  round_trip(*make_byte_tokenizer(), second);
  answers([&] { round_trip(*make_compact_tokenizer(std::string(first)), second); });
  answers([&] { round_trip(*read_gpt2_tokenizer(file_of("merges.bpe", first)), second); });
  return 0;
}
