// SPDX-License-Identifier: Apache-2.0
#include "datasets/tokens.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace quadrille {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and are read as they lie");

template <class T>
std::int64_t load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<std::int64_t>(value);
}

std::int64_t load(const std::byte* at, IdType type) {
  switch (type) {
    case IdType::u8:
      return load<std::uint8_t>(at);
    case IdType::i8:
      return load<std::int8_t>(at);
    case IdType::u16:
      return load<std::uint16_t>(at);
    case IdType::i16:
      return load<std::int16_t>(at);
    case IdType::u32:
      return load<std::uint32_t>(at);
    case IdType::i32:
      return load<std::int32_t>(at);
    case IdType::i64:
      return load<std::int64_t>(at);
  }
  fail("unknown id type {}", static_cast<int>(type));
}

std::int64_t swapped(std::int64_t id, IdType type) {
  const auto bytes = static_cast<std::size_t>(size_of(type));
  std::array<unsigned char, 8> raw{};
  std::memcpy(raw.data(), &id, bytes);
  std::reverse(raw.begin(), raw.begin() + static_cast<std::ptrdiff_t>(bytes));
  std::int64_t value = 0;
  std::memcpy(&value, raw.data(), bytes);
  return value;
}

}  // namespace

void Tokens::scan() const {
  std::vector<std::int32_t> ids(1 << 16);
  for (std::int64_t first = 0; first < count(); first += static_cast<std::int64_t>(ids.size())) {
    const auto n = std::min(static_cast<std::int64_t>(ids.size()), count() - first);
    read(first, std::span(ids).first(static_cast<std::size_t>(n)));
  }
}

std::int64_t size_of(IdType type) {
  switch (type) {
    case IdType::u8:
    case IdType::i8:
      return 1;
    case IdType::u16:
    case IdType::i16:
      return 2;
    case IdType::u32:
    case IdType::i32:
      return 4;
    case IdType::i64:
      return 8;
  }
  fail("unknown id type {}", static_cast<int>(type));
}

FileTokens::FileTokens(std::vector<Piece> pieces, IdType type, std::int64_t vocabulary, Json description)
    : pieces_(std::move(pieces)), type_(type), vocabulary_(vocabulary), description_(std::move(description)) {
  require(vocabulary >= 1 && vocabulary <= (std::int64_t{1} << 31), "a vocabulary of {} ids: wanted 1 to 2^31",
          vocabulary);
  for (Piece& piece : pieces_) {
    const std::int64_t bytes = piece.file->size();
    require(piece.offset >= 0 && piece.offset <= bytes && piece.count >= 0 &&
                piece.count <= (bytes - piece.offset) / size_of(type_),
            "{}: {} ids of {} bytes from byte {} on do not fit in its {} bytes", piece.file->path(), piece.count,
            size_of(type_), piece.offset, bytes);
    piece.first = count_;
    count_ += piece.count;
  }
}

std::string FileTokens::name() const {
  if (pieces_.empty()) return "a set without files";
  const std::string& path = pieces_.front().file->path();
  const bool single = std::ranges::all_of(pieces_, [&](const Piece& p) { return p.file->path() == path; });
  return single ? path : path + " and the files after it";
}

void FileTokens::read(std::int64_t first, std::span<std::int32_t> ids) const {
  const auto wanted = static_cast<std::int64_t>(ids.size());
  require(first >= 0 && first <= count_ - wanted, "tokens [{}, {}) of {}, which holds {}", first, first + wanted,
          name(), count_);
  const std::int64_t width = size_of(type_);
  auto piece = std::ranges::upper_bound(pieces_, first, {}, &Piece::first);
  if (piece != pieces_.begin()) --piece;
  for (std::int64_t done = 0; done < wanted; ++piece) {
    const std::int64_t within = first + done - piece->first;
    const std::int64_t n = std::min(wanted - done, piece->count - within);
    const std::byte* at = piece->file->data() + piece->offset + within * width;
    for (std::int64_t i = 0; i < n; ++i, at += width) {
      const std::int64_t id = load(at, type_);
      if (id < 0 || id >= vocabulary_) refuse(*piece, within + i, id);
      ids[static_cast<std::size_t>(done + i)] = static_cast<std::int32_t>(id);
    }
    done += n;
  }
}

void FileTokens::refuse(const Piece& piece, std::int64_t position, std::int64_t id) const {
  const std::int64_t other = swapped(id, type_);
  const bool maybe_swapped = size_of(type_) > 1 && other >= 0 && other < vocabulary_;
  fail("{}: id {} at token {} (byte {}), but the vocabulary has {} ids (0 to {}){}", piece.file->path(), id,
       position + (piece.offset - piece.base) / size_of(type_), piece.offset + position * size_of(type_), vocabulary_,
       vocabulary_ - 1,
       maybe_swapped
           ? fmt::format(". With its bytes the other way round it would be {}: is the file byte-swapped?", other)
           : std::string(". Was the file made with another tokenizer?"));
}

}  // namespace quadrille
