// SPDX-License-Identifier: Apache-2.0
#include "datasets/rdata.h"

#include <cstdint>

#include "core/error.h"
#include "datasets/inflate.h"
#include "datasets/mapped_file.h"

namespace quadrille {
namespace {

constexpr std::size_t kLimit = std::size_t{1} << 30;  // of one unpacked value: no text corpus of R comes near
constexpr int kMaxNesting = 64;

// SEXPTYPE codes and flags (R Internals, 1.8 and 1.1).
enum : std::uint32_t {
  kSymbol = 1,
  kPairs = 2,
  kCharacters = 9,
  kLogical = 10,
  kInteger = 13,
  kReal = 14,
  kStrings = 16,
  kList = 19,
  kNil = 254,
  kReference = 255,
  kHasAttributes = 1u << 9,
  kHasTag = 1u << 10,
};

struct Value {
  std::uint32_t type = kNil;
  std::vector<std::int32_t> integers;
  std::vector<std::string> strings;
  std::vector<Value> items;
  std::vector<std::string> attribute_names;
  std::vector<Value> attributes;
  const Value* attribute(std::string_view name) const {
    for (std::size_t i = 0; i < attributes.size(); ++i) {
      if (attribute_names[i] == name) return &attributes[i];
    }
    return nullptr;
  }
};

class Parser {
 public:
  Parser(std::string_view data, const std::string& name) : data_(data), name_(name) {
    require(data_.starts_with("X\n"), "{} is no R data in binary form (big-endian XDR)", name_);
    at_ = 2;
    const std::uint32_t version = number();
    require(version == 2 || version == 3, "{} is R serialisation version {}; 2 and 3 are known", name_, version);
    number();                           // the R that wrote it
    number();                           // the oldest R that reads it
    if (version == 3) bytes(number());  // the native encoding
  }
  Value value(int depth = 0);

 private:
  std::uint32_t number() {
    const std::string_view raw = bytes(4);
    std::uint32_t value = 0;
    for (char c : raw) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  std::string_view bytes(std::size_t count) {
    require(count <= data_.size() - at_, "{} is truncated: {} bytes wanted at byte {} of {}", name_, count, at_,
            data_.size());
    at_ += count;
    return data_.substr(at_ - count, count);
  }
  // A vector's length; each element takes at least `width` bytes.
  std::size_t length(std::size_t width) {
    const std::uint32_t count = number();
    require(count <= (data_.size() - at_) / width, "{} is truncated or damaged: a vector of {} at byte {} of {}", name_,
            count, at_, data_.size());
    return count;
  }
  std::string characters() {
    const std::uint32_t type = number() & 0xff;
    require(type == kCharacters, "{}: R type {} where characters were wanted", name_, type);
    const std::uint32_t size = number();
    require(size != 0xffffffffu, "{} has a missing string (NA)", name_);
    return std::string(bytes(size));
  }
  std::string symbol() {
    const std::uint32_t flags = number();
    if ((flags & 0xff) == kReference) {
      const std::uint32_t index = flags >> 8 ? flags >> 8 : number();
      require(index >= 1 && index <= symbols_.size(), "{}: reference to symbol {} of {}", name_, index,
              symbols_.size());
      return symbols_[index - 1];
    }
    require((flags & 0xff) == kSymbol, "{}: R type {} where a symbol was wanted", name_, flags & 0xff);
    symbols_.push_back(characters());
    return symbols_.back();
  }
  void pairs(std::uint32_t flags, int depth, Value& result) {
    for (; (flags & 0xff) == kPairs; flags = number()) {
      require(!(flags & kHasAttributes), "{}: a list of pairs with attributes", name_);
      result.attribute_names.push_back(flags & kHasTag ? symbol() : "");
      result.attributes.push_back(value(depth + 1));
    }
    require((flags & 0xff) == kNil, "{}: R type {} ends a list of pairs", name_, flags & 0xff);
  }
  std::string_view data_;
  const std::string& name_;
  std::size_t at_ = 0;
  std::vector<std::string> symbols_;
};

Value Parser::value(int depth) {
  require(depth < kMaxNesting, "{}: R values nested more than {} deep", name_, kMaxNesting);
  const std::uint32_t flags = number();
  Value result;
  result.type = flags & 0xff;
  switch (result.type) {
    case kNil:
      return result;
    case kPairs:
      pairs(flags, depth, result);
      return result;
    case kLogical:
    case kInteger:
      for (std::size_t n = length(4); n > 0; --n) result.integers.push_back(static_cast<std::int32_t>(number()));
      break;
    case kReal:
      for (std::size_t n = length(8); n > 0; --n) bytes(8);
      break;
    case kStrings:
      for (std::size_t n = length(8); n > 0; --n) result.strings.push_back(characters());
      break;
    case kList:
      for (std::size_t n = length(4); n > 0; --n) result.items.push_back(value(depth + 1));
      break;
    default:
      fail("{}: R type {} is not read here; wanted text", name_, result.type);
  }
  if (flags & kHasAttributes) pairs(number(), depth, result);
  return result;
}

const Value& named(const Value& list, std::string_view name, const std::string& file) {
  const Value* names = list.attribute("names");
  require(list.type == kList && names && names->strings.size() == list.items.size(),
          "{} is no index of R data: wanted a list with names", file);
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (names->strings[i] == name) return list.items[i];
  }
  fail("{} is no index of R data: it has no \"{}\"", file, name);
}

// A stored value: its unpacked size (4 bytes, big-endian), then zlib's stream; other methods have a letter between.
std::string unpack(std::string_view stored, const std::string& name) {
  require(stored.size() > 5, "{}: a stored value of {} bytes", name, stored.size());
  require(stored[4] != '2' && stored[4] != 'Z' && stored[4] != '0',
          "{} is compressed by method '{}' of R; only zlib is read", name, stored[4]);
  std::uint32_t size = 0;
  for (char c : stored.substr(0, 4)) size = size << 8 | static_cast<unsigned char>(c);
  std::string data = inflate_bytes(stored.substr(4), kLimit, name);
  require(data.size() == size, "{} unpacks to {} bytes, {} were promised", name, data.size(), size);
  return data;
}

}  // namespace

std::vector<RVector> parse_r_character_vectors(std::string_view rdx, std::string_view rdb, const std::string& name) {
  const std::string index_name = name + ".rdx";
  const std::string index_data = inflate_bytes(rdx, kLimit, index_name);
  const Value index = Parser(index_data, index_name).value();
  const Value& variables = named(index, "variables", index_name);
  require(named(index, "compressed", index_name).integers == std::vector<std::int32_t>{1},
          "{}: values that are not compressed by zlib", index_name);
  const Value* names = variables.attribute("names");
  require(variables.type == kList && names && names->strings.size() == variables.items.size(),
          "{} lists values without names", index_name);
  std::vector<RVector> vectors;
  for (std::size_t i = 0; i < variables.items.size(); ++i) {
    const auto& place = variables.items[i].integers;
    const std::string what = fmt::format("{}.rdb: {}", name, names->strings[i]);
    require(place.size() == 2 && place[0] >= 0 && place[1] >= 0, "{}: the index does not tell offset and size", what);
    const auto offset = static_cast<std::size_t>(place[0]), size = static_cast<std::size_t>(place[1]);
    require(offset <= rdb.size() && size <= rdb.size() - offset,
            "{} lies at bytes {} to {} of a file of {}: it is truncated", what, offset, offset + size, rdb.size());
    const std::string data = unpack(rdb.substr(offset, size), what);
    Value value = Parser(data, what).value();
    if (value.type == kStrings) vectors.push_back({names->strings[i], std::move(value.strings)});
  }
  return vectors;
}

std::vector<RVector> read_r_character_vectors(const std::string& stem) {
  const MappedFile rdx(stem + ".rdx"), rdb(stem + ".rdb");
  return parse_r_character_vectors(rdx.text(), rdb.text(), stem);
}

}  // namespace quadrille
