// SPDX-License-Identifier: Apache-2.0
// TFRecord files, and the messages inside them. Promise: every record lies inside the file and has its checksum.
#include "datasets/tfrecord.h"
#include "tests/fuzz/fuzz.h"

using namespace quadrille;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const bool message = input.byte() & 1;
  if (message) {
    answers([&] { integers_of(parse_example(input.rest(), "x"), "input_ids", "x"); });
    return 0;
  }
  answers([&] {
    const std::string path = file_of("x.tfrecord", input.rest());
    const RecordFile file(path);
    std::size_t bytes = 0;
    for (std::int64_t i = 0; i < file.size(); ++i) {
      const std::string_view record = file.record(i);
      bytes += record.size() + 16;
      answers([&] { parse_example(record, file.name(i)); });
    }
    promise(input.rest().starts_with("\x1f\x8b") || bytes == input.rest().size(), "records fill the file");
  });
  return 0;
}
