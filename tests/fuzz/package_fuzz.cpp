// SPDX-License-Identifier: Apache-2.0
// A Debian package in memory, through libarchive. The first byte asks for the input as it is, or for a package made
// here around it: its member data.tar then is the input, so that changes reach the tar reader.
#include "datasets/package.h"
#include "tests/fuzz/fuzz.h"

using namespace quadrille;

namespace {

std::string member(std::string name, std::string_view content) {
  name.resize(16, ' ');
  std::string size = std::to_string(content.size());
  size.resize(10, ' ');
  std::string out = name + "0           0     0     100644  " + size + "`\n";
  out += content;
  if (content.size() % 2 == 1) out += '\n';
  return out;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  std::string package;
  if (input.byte() % 2 == 0) {
    package = input.rest();
  } else {
    package = "!<arch>\n" + member("debian-binary", "2.0\n") + member("data.tar", input.rest());
  }
  answers([&] { unpack_package(package, "input", {".txt", ".rdb"}); });
  return 0;
}
