// SPDX-License-Identifier: Apache-2.0
#include "datasets/manifest.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/error.h"
#include "datasets/mapped_file.h"
#include "datasets/sha256.h"

namespace quadrille {

Json new_manifest(std::string_view name) {
  Json json = Json::object();
  json.set("quadrille_manifest", 1);
  json.set("name", name);
  json.set("files", Json::array());
  return json;
}

std::optional<Json> read_manifest(const std::string& directory) {
  const auto path = std::filesystem::path(directory) / kManifestName;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  Json json = read_json(path.string());
  const std::int64_t version = json.at("quadrille_manifest").integer();
  require(version == 1, "{} is a manifest of version {}; this program reads version 1", path.string(), version);
  for (const Json& entry : json.at("files").items()) {
    entry.at("file").string();
    require(entry.at("bytes").integer() >= 0, "{}: a file of {} bytes", entry.at("bytes").origin(),
            entry.at("bytes").integer());
    const std::string& sum = entry.at("sha256").string();
    require(sum.size() == 64, "{}: a SHA-256 has 64 hexadecimal digits, this has {}", entry.at("sha256").origin(),
            sum.size());
  }
  return json;
}

const Json* manifest_entry(const Json& manifest, std::string_view file) {
  for (const Json& entry : manifest.at("files").items()) {
    if (entry.at("file").string() == file) return &entry;
  }
  return nullptr;
}

void set_manifest_entry(Json& manifest, Json entry) {
  Json files = Json::array();
  const std::string file = entry.at("file").string();
  for (const Json& old : manifest.at("files").items()) {
    if (old.at("file").string() != file) files.push(old);
  }
  files.push(std::move(entry));
  manifest.set("files", std::move(files));
}

Json text_entry(std::string_view file, std::string_view text) {
  Json json = Json::object();
  json.set("file", file);
  json.set("kind", "text");
  json.set("bytes", static_cast<std::int64_t>(text.size()));
  json.set("sha256", sha256_of(text));
  json.set("characters", count_characters(text));
  json.set("alphabet", to_hex(distinct_bytes(text)));
  return json;
}

void check_against_entry(const std::string& directory, const Json& entry) {
  const std::string path = (std::filesystem::path(directory) / entry.at("file").string()).string();
  const MappedFile file(path);
  require(file.size() == entry.at("bytes").integer(),
          "{} has {} bytes, its manifest says {}: it is truncated or another file", path, file.size(),
          entry.at("bytes").integer());
  Sha256 sum;
  sum.add(file.bytes());
  const std::string found = sum.hex();
  require(found == entry.at("sha256").string(),
          "{} has SHA-256 {}, its manifest says {}: the content changed. Fetch it again", path, found,
          entry.at("sha256").string());
}

std::int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string distinct_bytes(std::string_view text) {
  std::array<bool, 256> seen{};
  for (char c : text) seen[static_cast<unsigned char>(c)] = true;
  std::string bytes;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i]) bytes += static_cast<char>(i);
  }
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

std::string from_hex(std::string_view hex, std::string_view name) {
  const auto digit = [&](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    fail("{}: '{}' is not a hexadecimal digit", name, c);
  };
  require(hex.size() % 2 == 0, "{}: an odd number of hexadecimal digits ({})", name, hex.size());
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return bytes;
}

std::int64_t first_ill_formed(std::string_view text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  for (std::size_t i = 0; i < text.size();) {
    const int lead = at(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    // RFC 3629, section 4: the second byte's range excludes overlong forms, surrogates and what is above U+10FFFF.
    const std::size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                               : lead >= 0xe0 && lead <= 0xef ? 3
                               : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                              : 0;
    if (length == 0) return static_cast<std::int64_t>(i);
    const int low = lead == 0xe0   ? 0xa0
                    : lead == 0xf0 ? 0x90
                                   : 0x80,
              high = lead == 0xed   ? 0x9f
                     : lead == 0xf4 ? 0x8f
                                    : 0xbf;
    if (at(i + 1) < low || at(i + 1) > high) return static_cast<std::int64_t>(i);
    for (std::size_t j = 2; j < length; ++j) {
      if ((at(i + j) & 0xc0) != 0x80) return static_cast<std::int64_t>(i);
    }
    i += length;
  }
  return -1;
}

}  // namespace quadrille
