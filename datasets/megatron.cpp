// SPDX-License-Identifier: Apache-2.0
// Megatron's index: 9 bytes of magic, version, type of id, S sequences, D document boundaries, then int32 lengths[S],
// int64 byte offsets[S], int64 boundaries[D]. The arrays begin at byte 34 and are not aligned: every read copies.
#include <cstring>

#include "core/error.h"
#include "datasets/token_files.h"

namespace quadrille {
namespace {

constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
constexpr std::int64_t kHeaderBytes = 34;

class Index {
 public:
  explicit Index(const std::string& path) : file_(path) {
    require(file_.size() >= kHeaderBytes,
            "{} has {} bytes; a Megatron index begins with a header of {}: it is truncated or another file", path,
            file_.size(), kHeaderBytes);
    require(file_.text().starts_with(kMagic),
            "{} is no Megatron index: it does not begin with MMIDIDX and two zero bytes", path);
    const auto version = load<std::uint64_t>(9);
    require(version != __builtin_bswap64(1),
            "{} is byte-swapped: its version reads {}. Write it on a little-endian machine", path, version);
    require(version == 1, "{} is a Megatron index of version {}, wanted 1", path, version);
    sequences_ = load<std::int64_t>(18);
    boundaries_ = load<std::int64_t>(26);
    const std::int64_t rest = file_.size() - kHeaderBytes;
    require(
        sequences_ >= 1 && boundaries_ >= 2 && sequences_ <= rest / 12 && boundaries_ <= rest / 8 + 1,
        "{} says {} sequences and {} document boundaries; its {} bytes do not hold them: it is truncated or damaged",
        path, sequences_, boundaries_, file_.size());
    const std::int64_t wanted = kHeaderBytes + 12 * sequences_ + 8 * boundaries_;
    require(file_.size() != wanted + sequences_,
            "{} is a multimodal index (it ends with a mode per sequence): only text is read", path);
    require(file_.size() == wanted,
            "{} has {} bytes; {} + 12 x {} sequences + 8 x {} boundaries = {} bytes were wanted: it is {}", path,
            file_.size(), kHeaderBytes, sequences_, boundaries_, wanted,
            file_.size() < wanted ? "truncated" : "damaged");
  }

  IdType type() const {
    switch (load<std::uint8_t>(17)) {
      case 1:
        return IdType::u8;
      case 2:
        return IdType::i8;
      case 3:
        return IdType::i16;
      case 4:
        return IdType::i32;
      case 5:
        return IdType::i64;
      case 8:
        return IdType::u16;
      default:
        break;
    }
    fail("{} says its ids are of type {}: wanted an integer type (1 to 5, or 8)", file_.path(), load<std::uint8_t>(17));
  }

  // Total of the sequences, each of which must begin where the one before it ended.
  std::int64_t tokens() const {
    const std::int64_t width = size_of(type());
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < sequences_; ++i) {
      const auto length = static_cast<std::int64_t>(load<std::int32_t>(kHeaderBytes + 4 * i));
      const auto offset = load<std::int64_t>(kHeaderBytes + 4 * sequences_ + 8 * i);
      require(length > 0, "{}: sequence {} has {} tokens: empty documents must be left out when the file is made",
              file_.path(), i, length);
      require(offset == total * width, "{}: sequence {} begins at byte {}, wanted {} (after the {} tokens before it)",
              file_.path(), i, offset, total * width, total);
      total += length;
    }
    return total;
  }

  void check_boundaries() const {
    std::int64_t before = 0;
    for (std::int64_t i = 0; i < boundaries_; ++i) {
      const auto at = load<std::int64_t>(kHeaderBytes + 12 * sequences_ + 8 * i);
      require(i == 0 ? at == 0 : at > before, "{}: document boundary {} is sequence {}, wanted {} {}: {}", file_.path(),
              i, at, i == 0 ? "exactly" : "more than", before,
              at == before ? "the document is empty" : "the index is damaged");
      before = at;
    }
    require(before == sequences_, "{}: the last document ends at sequence {} of {}", file_.path(), before, sequences_);
  }

 private:
  template <class T>
  T load(std::int64_t byte) const {
    T value;
    std::memcpy(&value, file_.data() + byte, sizeof value);
    return value;
  }
  MappedFile file_;
  std::int64_t sequences_ = 0, boundaries_ = 0;
};

}  // namespace

TokenFile open_megatron(const std::string& name) {
  const bool has_end = name.ends_with(".bin") || name.ends_with(".idx");
  const std::string prefix = has_end ? name.substr(0, name.size() - 4) : name;
  const Index index(prefix + ".idx");
  auto file = std::make_shared<MappedFile>(prefix + ".bin");
  const IdType type = index.type();
  const std::int64_t tokens = index.tokens();
  index.check_boundaries();
  require(file->size() == tokens * size_of(type),
          "{} has {} bytes; its index says {} tokens of {} bytes = {} bytes: it is {}", file->path(), file->size(),
          tokens, size_of(type), tokens * size_of(type),
          file->size() < tokens * size_of(type) ? "truncated" : "another file");
  return {{file, 0, tokens, 0, 0}, type, {}};
}

}  // namespace quadrille
