// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "datasets/rdata.h"

namespace quadrille {

std::string inflate_bytes(std::string_view compressed, std::size_t limit, const std::string& name) {
  z_stream stream{};
  require(inflateInit2(&stream, MAX_WBITS + 32) == Z_OK, "zlib cannot start");  // +32: gzip or zlib, by the header
  struct End {
    z_stream& stream;
    ~End() { inflateEnd(&stream); }
  } end{stream};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  stream.avail_in = static_cast<uInt>(std::min<std::size_t>(compressed.size(), 1u << 30));
  std::string out;
  std::array<char, 1 << 16> room;
  for (int state = Z_OK; state != Z_STREAM_END;) {
    stream.next_out = reinterpret_cast<Bytef*>(room.data());
    stream.avail_out = static_cast<uInt>(room.size());
    state = inflate(&stream, Z_NO_FLUSH);
    require(state == Z_OK || state == Z_STREAM_END, "{}: the compressed data are truncated or damaged ({})", name,
            stream.msg ? stream.msg : "they end too early");
    out.append(room.data(), room.size() - stream.avail_out);
    require(out.size() <= limit, "{}: the data unpack to more than {} bytes", name, limit);
  }
  return out;
}

}  // namespace quadrille
