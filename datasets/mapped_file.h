// SPDX-License-Identifier: Apache-2.0
// A whole file as bytes, mapped read-only: nothing is read before it is looked at, whatever the size. Used by all
// sources that live in files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quadrille {

class MappedFile {
 public:
  explicit MappedFile(std::string path);  // throws Error: missing, not a regular file, unreadable
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }
  const std::byte* data() const { return data_; }  // null when the file is empty
  std::span<const std::byte> bytes() const { return {data_, static_cast<std::size_t>(size_)}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), static_cast<std::size_t>(size_)}; }

 private:
  std::string path_;
  std::int64_t size_ = 0;
  const std::byte* data_ = nullptr;
};

}  // namespace quadrille
