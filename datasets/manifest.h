// SPDX-License-Identifier: Apache-2.0
// manifest.json beside the data: for each file its size, checksum and what is known of its content, written by `data
// fetch` and `data prepare`. It lets a run know a vocabulary without reading the text, and tells damaged data apart.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"

namespace quadrille {

inline constexpr const char* kManifestName = "manifest.json";

Json new_manifest(std::string_view name);
std::optional<Json> read_manifest(const std::string& directory);  // none when there is none; throws Error when broken
// The entry of `file`, null when there is none.
const Json* manifest_entry(const Json& manifest, std::string_view file);
void set_manifest_entry(Json& manifest, Json entry);  // replaces the entry of the same file
// What a text file's entry holds: file, kind "text", bytes, sha256, characters, alphabet (its distinct bytes in hex).
Json text_entry(std::string_view file, std::string_view text);
// Throws Error when the file's size or checksum is not the entry's.
void check_against_entry(const std::string& directory, const Json& entry);

std::int64_t count_characters(std::string_view text);  // code points: bytes that do not continue one
std::string distinct_bytes(std::string_view text);     // ascending
std::string to_hex(std::string_view bytes);
std::string from_hex(std::string_view hex, std::string_view name);
// The position of the first byte that is not UTF-8 (RFC 3629: no surrogates, no overlong forms), or -1.
std::int64_t first_ill_formed(std::string_view text);

}  // namespace quadrille
