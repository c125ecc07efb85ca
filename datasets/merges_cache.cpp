// SPDX-License-Identifier: Apache-2.0
#include "datasets/merges_cache.h"

#include <charconv>
#include <filesystem>

#include "core/error.h"
#include "datasets/sha256.h"

namespace quadrille {
namespace {

constexpr std::string_view kTitle = "quadrille byte pairs 1";

std::string checksum_of(const TextFiles& train) {
  Sha256 sum;
  for (std::size_t i = 0; i < train.size(); ++i) sum.add(train.sha256(i));
  return sum.hex();
}

std::string head_of(const std::string& text_sum, std::int64_t vocabulary) {
  return fmt::format("{}, vocabulary {}, text {}\n", kTitle, vocabulary, text_sum);
}

std::string written(const std::string& head, const std::vector<Merge>& merges) {
  std::string text = head;
  for (const auto& [left, right] : merges) text += fmt::format("{} {}\n", left, right);
  return text + fmt::format("sha256 {}\n", sha256_of(text));
}

std::vector<Merge> parsed(const MappedFile& file, const std::string& head, std::size_t count) {
  const std::string remedy = fmt::format("Delete {}: it is made anew from the text", file.path());
  const std::string_view text = file.text();
  const std::size_t tail = text.rfind("sha256 ");
  require(tail != std::string_view::npos &&
              text.substr(tail) == fmt::format("sha256 {}\n", sha256_of(text.substr(0, tail))),
          "{} is damaged: its content is not what its checksum says. {}", file.path(), remedy);
  require(text.starts_with(head), "{} begins with another line than \"{}\". {}", file.path(),
          head.substr(0, head.size() - 1), remedy);
  std::vector<Merge> merges;
  const char* at = text.data() + head.size();
  const char* const end = text.data() + tail;
  while (at < end) {
    Merge merge;
    const auto left = std::from_chars(at, end, merge.first);
    require(left.ec == std::errc() && left.ptr < end && *left.ptr == ' ', "{}: line {} is no merge. {}", file.path(),
            merges.size() + 2, remedy);
    const auto right = std::from_chars(left.ptr + 1, end, merge.second);
    require(right.ec == std::errc() && right.ptr < end && *right.ptr == '\n', "{}: line {} is no merge. {}",
            file.path(), merges.size() + 2, remedy);
    merges.push_back(merge);
    at = right.ptr + 1;
  }
  require(merges.size() == count, "{} holds {} merges, wanted {}. {}", file.path(), merges.size(), count, remedy);
  return merges;
}

std::string path_for(const TextFiles& train, const std::string& text_sum, std::int64_t vocabulary) {
  return (std::filesystem::path(train.directory()) /
          fmt::format("bpe-{}-{}.merges", vocabulary, text_sum.substr(0, 12)))
      .string();
}

}  // namespace

std::string merges_path(const TextFiles& train, std::int64_t vocabulary) {
  return path_for(train, checksum_of(train), vocabulary);
}

std::vector<Merge> learned_merges(const TextFiles& train, std::int64_t vocabulary) {
  const std::string text_sum = checksum_of(train), head = head_of(text_sum, vocabulary);
  const std::string path = path_for(train, text_sum, vocabulary);
  std::error_code error;
  if (std::filesystem::exists(path, error))
    return parsed(MappedFile(path), head, static_cast<std::size_t>(vocabulary - 256));
  const std::vector<std::string_view> texts = train.texts();
  std::vector<Merge> merges = learn_merges(texts, vocabulary);
  try {
    write_file_whole(path, written(head, merges));
  } catch (const Error&) {  // a folder that may only be read: the next run learns again, nothing is lost
  }
  return merges;
}

}  // namespace quadrille
