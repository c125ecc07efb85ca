// SPDX-License-Identifier: Apache-2.0
// The headers of llm.c's and nanoGPT's files of ids.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "datasets/token_files.h"

namespace quadrille {
namespace {

constexpr std::int64_t kHeaderBytes = 1024;
constexpr std::int32_t kGpt2Magic = 20240520, kLlamaMagic = 20240801, kEvaluationMagic = 20240522,
                       kTokenizerMagic = 20240328;

template <class T>
T load_at(const MappedFile& file, std::int64_t byte) {
  T value;
  std::memcpy(&value, file.data() + byte, sizeof value);
  return value;
}

std::int32_t reversed(std::int32_t value) {
  return static_cast<std::int32_t>(__builtin_bswap32(static_cast<std::uint32_t>(value)));
}

const char* other_kind(std::int32_t magic) {
  if (magic == kEvaluationMagic) return "an llm.c file of multiple-choice examples, not of text";
  if (magic == kTokenizerMagic) return "an llm.c tokenizer, not text";
  return "no llm.c file of tokens";
}

void check_size(const MappedFile& file, std::int64_t count, std::int64_t width) {
  const std::int64_t wanted = kHeaderBytes + count * width;
  require(file.size() == wanted,
          "{} has {} bytes; its header says {} tokens of {} bytes: {} + {} x {} = {} bytes. It is {}", file.path(),
          file.size(), count, width, kHeaderBytes, count, width, wanted,
          file.size() < wanted ? "truncated" : "longer than it should be");
}

}  // namespace

bool looks_like_llmc(const MappedFile& file) {
  if (file.size() < 4) return false;
  const auto magic = load_at<std::int32_t>(file, 0);
  return std::ranges::any_of(std::array{magic, reversed(magic)},
                             [](std::int32_t m) { return m == kGpt2Magic || m == kLlamaMagic; });
}

TokenFile open_llmc(const std::string& path) {
  auto file = std::make_shared<MappedFile>(path);
  require(file->size() >= kHeaderBytes,
          "{} has {} bytes; an llm.c file begins with a header of {}: it is truncated or another file", path,
          file->size(), kHeaderBytes);
  const auto magic = load_at<std::int32_t>(*file, 0), version = load_at<std::int32_t>(*file, 4),
             count = load_at<std::int32_t>(*file, 8);
  require(reversed(magic) != kGpt2Magic && reversed(magic) != kLlamaMagic,
          "{} is byte-swapped: its magic number is {}, that is {} with its bytes reversed. Write it on a little-endian "
          "machine",
          path, magic, reversed(magic));
  require(magic == kGpt2Magic || magic == kLlamaMagic,
          "{} is {}: its magic number is {}, wanted {} (16-bit ids) or {} (32-bit ids)", path, other_kind(magic), magic,
          kGpt2Magic, kLlamaMagic);
  const std::int32_t wanted = magic == kGpt2Magic ? 1 : 7;
  require(version == wanted, "{} is an llm.c file of version {}, wanted {} for magic number {}", path, version, wanted,
          magic);
  require(count >= 0, "{} says it holds {} tokens: the header is damaged", path, count);
  const IdType type = magic == kGpt2Magic ? IdType::u16 : IdType::u32;
  check_size(*file, count, size_of(type));
  return {{file, kHeaderBytes, count, kHeaderBytes, 0}, type, magic == kGpt2Magic ? 50257 : 128256};
}

void write_llmc(const std::string& path, std::span<const std::int32_t> ids, std::int64_t vocabulary) {
  require(ids.size() <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()),
          "{} tokens do not fit in one llm.c file, whose header counts to {}. Prepare fewer text files at a time",
          ids.size(), std::numeric_limits<std::int32_t>::max());
  const bool narrow = vocabulary <= 65536;
  std::array<std::int32_t, kHeaderBytes / 4> header{};
  header[0] = narrow ? kGpt2Magic : kLlamaMagic;
  header[1] = narrow ? 1 : 7;
  header[2] = static_cast<std::int32_t>(ids.size());
  std::string text(reinterpret_cast<const char*>(header.data()), kHeaderBytes);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    require(ids[i] >= 0 && ids[i] < vocabulary, "id {} at token {} is beyond the vocabulary of {} ids", ids[i], i,
            vocabulary);
    text.append(reinterpret_cast<const char*>(&ids[i]), narrow ? 2 : 4);
  }
  write_file_whole(path, text);
}

TokenFile open_nanogpt(const std::string& path) {
  auto file = std::make_shared<MappedFile>(path);
  require(file->size() > 0, "{} is empty", path);
  require(file->size() % 2 == 0,
          "{} has {} bytes, an odd number: 16-bit ids were wanted. It is truncated or another file", path,
          file->size());
  require(!looks_like_llmc(*file), "{} begins like an llm.c file: use \"source\": \"llmc\"", path);
  require(!file->text().starts_with("MMIDIDX"), "{} is the index of a Megatron data set: use \"source\": \"megatron\"",
          path);
  return {{file, 0, file->size() / 2, 0, 0}, IdType::u16, {}};
}

}  // namespace quadrille
