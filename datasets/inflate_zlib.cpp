// SPDX-License-Identifier: Apache-2.0
// See inflate.h.
#include "datasets/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "core/error.h"

namespace quadrille {
namespace {

class Inflater {
 public:
  Inflater(std::string_view compressed, const std::string& name) : rest_(compressed), name_(name) {
    // +32: gzip or zlib, by the header
    require(inflateInit2(&stream_, MAX_WBITS + 32) == Z_OK, "zlib cannot start");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool ended() const { return ended_; }
  std::size_t left() const { return rest_.size() + stream_.avail_in; }
  void add_to(std::string& out) {
    if (stream_.avail_in == 0) {  // zlib counts in 32 bits
      const std::string_view piece = rest_.substr(0, std::size_t{1} << 30);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
      stream_.avail_in = static_cast<uInt>(piece.size());
      rest_.remove_prefix(piece.size());
    }
    stream_.next_out = reinterpret_cast<Bytef*>(room_.data());
    stream_.avail_out = static_cast<uInt>(room_.size());
    const int state = inflate(&stream_, Z_NO_FLUSH);
    require(state == Z_OK || state == Z_STREAM_END, "{}: the compressed data are truncated or damaged ({})", name_,
            stream_.msg ? stream_.msg : "they end too early");
    ended_ = state == Z_STREAM_END;
    out.append(room_.data(), room_.size() - stream_.avail_out);
  }

 private:
  std::string_view rest_;
  const std::string& name_;
  z_stream stream_{};
  bool ended_ = false;
  std::array<char, 1 << 16> room_;
};

}  // namespace

std::string inflate_bytes(std::string_view compressed, std::size_t limit, const std::string& name) {
  Inflater inflater(compressed, name);
  std::string out;
  while (!inflater.ended()) {
    inflater.add_to(out);
    require(out.size() <= limit, "{}: the data unpack to more than {} bytes", name, limit);
  }
  require(inflater.left() == 0, "{}: {} bytes follow the end of the compressed data", name, inflater.left());
  return out;
}

std::string inflate_start(std::string_view compressed, std::size_t bytes, const std::string& name) {
  Inflater inflater(compressed, name);
  std::string out;
  while (!inflater.ended() && out.size() < bytes) inflater.add_to(out);
  out.resize(std::min(out.size(), bytes));
  return out;
}

}  // namespace quadrille
