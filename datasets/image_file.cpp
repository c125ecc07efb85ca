// SPDX-License-Identifier: Apache-2.0
// One file of an image set: see images.h.
#include <filesystem>

#include "core/error.h"
#include "datasets/images.h"
#include "datasets/inflate.h"
#include "datasets/manifest.h"
#include "datasets/sha256.h"

namespace quadrille {

ImageFile::ImageFile(std::string directory, const std::string& name)
    : directory_(std::move(directory)),
      name_(name),
      file_((std::filesystem::path(directory_) / name).lexically_normal().string()) {
  require(file_.size() > 0, "{} is empty: wanted a file of images or labels", path());
  const std::optional<Json> manifest = read_manifest(directory_);
  const Json* entry = manifest ? manifest_entry(*manifest, name) : nullptr;
  if (!entry) return;
  require(entry->at("bytes").integer() == file_.size(),
          "{} has {} bytes, its manifest says {}: it is truncated or another file. Fetch it again", path(),
          file_.size(), entry->at("bytes").integer());
  entry_ = *entry;
}

bool ImageFile::packed() const { return file_.text().starts_with("\x1f\x8b"); }

std::string_view ImageFile::as_told() const { return packed() ? " unpacked, as its last four bytes say" : ""; }

std::int64_t ImageFile::content_bytes() const {
  if (!packed()) return file_.size();
  constexpr std::size_t kLeast = 18;  // header and trailer
  const std::string_view text = file_.text();
  require(text.size() >= kLeast, "{} begins like a gzip file and has {} bytes: it is truncated", path(), text.size());
  std::int64_t bytes = 0;
  for (std::size_t i = 1; i <= 4; ++i) bytes = bytes << 8 | static_cast<unsigned char>(text[text.size() - i]);
  return bytes;
}

std::string ImageFile::start(std::size_t bytes) const {
  return packed() ? inflate_start(file_.text(), bytes, path()) : std::string(file_.text().substr(0, bytes));
}

std::string ImageFile::content() const {
  if (!packed()) return std::string(file_.text());
  std::string content = inflate_bytes(file_.text(), static_cast<std::size_t>(content_bytes()), path());
  require(static_cast<std::int64_t>(content.size()) == content_bytes(), "{} unpacks to {} bytes, its end says {}",
          path(), content.size(), content_bytes());
  return content;
}

void ImageFile::check() const {
  if (!entry_.is_null()) check_against_entry(directory_, entry_);
}

Json ImageFile::description() const {
  Json json = Json::object();
  json.set("file", name_);
  json.set("bytes", file_.size());
  json.set("sha256", entry_.is_null() ? sha256_of(file_.text()) : entry_.at("sha256").string());
  return json;
}

}  // namespace quadrille
