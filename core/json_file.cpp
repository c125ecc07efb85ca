// SPDX-License-Identifier: Apache-2.0
// Documents on disk. A file is either written whole or not at all, so that nothing half-written looks like a result.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "core/error.h"
#include "core/json.h"

namespace quadrille {

namespace {
std::string reason(int code) { return std::generic_category().message(code); }
}  // namespace

Json read_json(const std::string& path) {
  std::error_code code;
  require(std::filesystem::exists(path, code), "{}: there is no such file", path);
  require(!std::filesystem::is_directory(path, code), "{}: is a folder, wanted a JSON file", path);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  require(in.is_open(), "{}: cannot be opened: {}", path, reason(errno));
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  require(!in.bad(), "{}: cannot be read", path);
  return parse_json(text, path);
}

void write_file_whole(const std::string& path, std::string_view text) {
  // The process number keeps two writers of one path apart; the last rename wins, whole.
  const std::string partial = fmt::format("{}.partial-{}", path, getpid());
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  require(file != nullptr, "{}: cannot be written: {}", path, reason(errno));
  bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  good = good && std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  int code = good ? 0 : errno;
  if (std::fclose(file) != 0 && code == 0) code = errno;
  if (code == 0 && std::rename(partial.c_str(), path.c_str()) != 0) code = errno;
  if (code == 0) return;
  std::remove(partial.c_str());
  fail("{}: cannot be written: {}", path, reason(code));
}

}  // namespace quadrille
