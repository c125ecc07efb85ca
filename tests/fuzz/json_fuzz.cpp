// SPDX-License-Identifier: Apache-2.0
// Strict JSON, Reader and set_by_path. A document, then assignments. Promises: what is written is read back equal.
#include <cmath>

#include "core/json.h"
#include "tests/fuzz/fuzz.h"

using namespace quadrille;

namespace {

void read_everything(const Json& document) {
  if (!document.is_object()) return;
  Reader reader(document, "document");
  for (const auto& [key, value] : document.members()) {
    answers([&] { reader.integer(key, 1); });
    answers([&] { reader.number(key); });
    answers([&] { reader.boolean(key); });
    answers([&] { reader.choice(key, {"cosine", "linear"}); });
  }
  answers([&] { reader.integer("batch_size"); });
  reader.done();
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::string_view text = input.piece();
  Json document;
  if (!answers([&] { document = parse_json(text, "document"); })) return 0;
  for (int indent : {0, 2}) promise(parse_json(document.text(indent), "copy") == document, "written JSON is read back");
  answers([&] { read_everything(document); });
  while (!input.rest().empty()) {
    const std::string_view assignment = input.piece();
    answers([&] { set_by_path(document, assignment); });
  }
  answers([&] { parse_json(document.text(), "changed"); });  // may have become too deep
  return 0;
}
