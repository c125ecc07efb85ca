// SPDX-License-Identifier: Apache-2.0
#include <archive.h>
#include <archive_entry.h>

#include <array>
#include <memory>

#include "core/error.h"
#include "datasets/mapped_file.h"
#include "datasets/package.h"

namespace quadrille {
namespace {

constexpr std::size_t kLimit = std::size_t{1}
                               << 30;  // what unpacking may take: a guard against damaged or hostile files

struct Close {
  void operator()(archive* a) const { archive_read_free(a); }
};
using Archive = std::unique_ptr<archive, Close>;

// libarchive gives no words for some failures.
std::string_view reason(archive* reader) {
  const char* words = archive_error_string(reader);
  return words ? words : "libarchive does not say why";
}

Archive open_memory(std::string_view data, bool outer, const std::string& name) {
  Archive reader(archive_read_new());
  require(reader != nullptr, "no memory to unpack {}", name);
  if (outer) {
    archive_read_support_format_ar(reader.get());
  } else {
    archive_read_support_format_tar(reader.get());
    archive_read_support_filter_xz(reader.get());
    archive_read_support_filter_zstd(reader.get());
    archive_read_support_filter_gzip(reader.get());
  }
  require(archive_read_open_memory(reader.get(), data.data(), data.size()) == ARCHIVE_OK,
          "{} is truncated or damaged, or packed in a way unknown here: {}", name, reason(reader.get()));
  return reader;
}

// The next file's path, or "" at the end.
std::string next_path(archive* reader, const std::string& name) {
  archive_entry* entry = nullptr;
  const int state = archive_read_next_header(reader, &entry);
  if (state == ARCHIVE_EOF) return "";
  require(state == ARCHIVE_OK, "{} is truncated or damaged: {}", name, reason(reader));
  const char* path = archive_entry_pathname(entry);
  require(path && *path, "{} holds a file without a name", name);
  return path;
}

std::string content(archive* reader, const std::string& name) {
  std::string text;
  std::array<char, 1 << 16> room;
  for (;;) {
    const la_ssize_t n = archive_read_data(reader, room.data(), room.size());
    require(n >= 0, "{} is truncated or damaged: {}", name, reason(reader));
    if (n == 0) return text;
    text.append(room.data(), static_cast<std::size_t>(n));
    require(text.size() <= kLimit, "{} unpacks to more than {} bytes", name, kLimit);
  }
}

}  // namespace

std::map<std::string, std::string> unpack_package(const std::string& path, const std::vector<std::string>& endings) {
  return unpack_package(MappedFile(path).text(), path, endings);
}

std::map<std::string, std::string> unpack_package(std::string_view package, const std::string& path,
                                                  const std::vector<std::string>& endings) {
  require(package.starts_with("!<arch>\ndebian-binary"),
          "{} is no Debian package: it does not begin like an ar archive with debian-binary", path);
  const Archive outer = open_memory(package, true, path);
  std::string member = next_path(outer.get(), path);
  while (!member.empty() && !member.starts_with("data.tar")) member = next_path(outer.get(), path);
  require(!member.empty(), "{} holds no data.tar: it is truncated or no Debian package", path);
  const std::string data = content(outer.get(), path), name = path + ": " + member;
  require(!data.empty(), "{} is empty: the package is truncated", name);
  const Archive inner = open_memory(data, false, name);
  std::map<std::string, std::string> files;
  for (std::string at = next_path(inner.get(), name); !at.empty(); at = next_path(inner.get(), name)) {
    for (const std::string& ending : endings) {
      if (at.ends_with(ending)) files[at] = content(inner.get(), name);
    }
  }
  return files;
}

std::map<std::string, std::string> unpack_tar(const std::string& path,
                                              const std::function<bool(std::string_view)>& wanted) {
  const MappedFile file(path);
  require(file.size() > 0, "{} is empty: the package is truncated", path);
  const Archive archive = open_memory(file.text(), false, path);
  std::map<std::string, std::string> files;
  for (std::string at = next_path(archive.get(), path); !at.empty(); at = next_path(archive.get(), path)) {
    if (wanted(at)) files[at] = content(archive.get(), path);
  }
  return files;
}

}  // namespace quadrille
