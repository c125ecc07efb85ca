// SPDX-License-Identifier: Apache-2.0
// The data of an R package: two bytes for the length of the index, the index, the values. Both hold zlib streams, which
// random changes never get past; so the first byte may ask that the rest is compressed here before it is read.
#include <zlib.h>

#include <algorithm>

#include "datasets/rdata.h"
#include "tests/fuzz/fuzz.h"

using namespace quadrille;

namespace {

std::string deflate_bytes(std::string_view plain) {
  uLongf size = compressBound(plain.size());
  std::string out(size, '\0');
  compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(plain.data()), plain.size(), 1);
  out.resize(size);
  return out;
}

// A value in the .rdb: its length in four bytes, the highest first, then the stream.
std::string framed(std::string_view plain) {
  std::string out;
  for (int shift : {24, 16, 8, 0}) out += static_cast<char>(plain.size() >> shift & 0xff);
  return out + deflate_bytes(plain);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const bool compressed = input.byte() % 2 == 1;
  const std::size_t wanted = input.byte() + 256 * input.byte();
  const std::size_t length = std::min(wanted, input.rest().size());
  std::string index(input.rest().substr(0, length)), values(input.rest().substr(length));
  if (compressed) {
    index = deflate_bytes(index);
    values = framed(values);
  }
  answers([&] { parse_r_character_vectors(index, values, "input"); });
  return 0;
}
