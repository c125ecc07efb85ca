// SPDX-License-Identifier: Apache-2.0
// See tfrecord.h: the file.
#include "datasets/tfrecord.h"

#include <array>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "datasets/inflate.h"

namespace quadrille {
namespace {

constexpr std::size_t kHead = 12, kTail = 4;  // length and its checksum; checksum of the data
constexpr std::size_t kLimit = std::size_t{1} << 33;

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) ? (c >> 1) ^ 0x82f63b78u : c >> 1;
    table[i] = c;
  }
  return table;
}

template <class T>
T little(std::string_view text, std::size_t at) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, text.data() + at, sizeof value);
  return value;
}

constexpr const char* kRemedy = "the file is damaged or no TFRecord file; make or fetch it again";

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = crc_table();
  std::uint32_t c = ~0u;
  for (char byte : bytes) c = kTable[(c ^ static_cast<unsigned char>(byte)) & 0xff] ^ (c >> 8);
  return ~c;
}

RecordFile::RecordFile(const std::string& path) : path_(path), file_(std::make_unique<MappedFile>(path)) {
  text_ = file_->text();
  // A length of 0x...8b1f with a right checksum is no gzip header: its third byte, the method, is 8 and the record
  // would have 559,903 bytes. The checksum decides.
  const bool plain = text_.size() >= kHead && masked_crc(crc32c(text_.substr(0, 8))) == little<std::uint32_t>(text_, 8);
  if (!plain && text_.starts_with("\x1f\x8b")) {
    unpacked_ = inflate_bytes(text_, kLimit, path);
    text_ = unpacked_;
    file_.reset();
  }
  require(!text_.empty(), "{} is empty: a TFRecord file has at least one record", path);
  for (std::size_t at = 0; at < text_.size();) {
    const std::size_t left = text_.size() - at, number = records_.size();
    require(left >= kHead, "{}: record {} begins at byte {} and {} bytes are left, {} were wanted: {}", path, number,
            at, left, kHead, kRemedy);
    const auto sum = little<std::uint32_t>(text_, at + 8), found = masked_crc(crc32c(text_.substr(at, 8)));
    require(sum == found, "{}: record {} (byte {}): the length has checksum {:08x}, {:08x} was wanted: {}", path,
            number, at, found, sum, kRemedy);
    const auto bytes = little<std::uint64_t>(text_, at);
    require(left - kHead >= kTail && bytes <= left - kHead - kTail,
            "{}: record {} (byte {}) has {} bytes, but the file ends {} bytes further on: {}", path, number, at, bytes,
            left - kHead, kRemedy);
    records_.push_back({at + kHead, static_cast<std::size_t>(bytes)});
    at += kHead + static_cast<std::size_t>(bytes) + kTail;
  }
}

std::string RecordFile::name(std::int64_t i) const {
  return fmt::format("{}, record {} (byte {})", path_, i, records_[static_cast<std::size_t>(i)].at - kHead);
}

std::string_view RecordFile::record(std::int64_t i) const {
  require(i >= 0 && i < size(), "{}: record {} of {} was asked for", path_, i, size());
  const Place& place = records_[static_cast<std::size_t>(i)];
  const std::string_view data = text_.substr(place.at, place.bytes);
  const auto sum = little<std::uint32_t>(text_, place.at + place.bytes), found = masked_crc(crc32c(data));
  require(sum == found, "{}: the data have checksum {:08x}, {:08x} was wanted: {}", name(i), found, sum, kRemedy);
  return data;
}

}  // namespace quadrille
