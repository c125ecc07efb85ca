// SPDX-License-Identifier: Apache-2.0
#include "datasets/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace quadrille {

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  require(file >= 0, "cannot open {}: {}", path_, std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(file, &status) == 0;
  const bool regular = known && S_ISREG(status.st_mode);
  void* address = nullptr;
  if (regular && status.st_size > 0) {
    address = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  }
  const int error = errno;
  ::close(file);
  require(regular, "{} is not a regular file", path_);
  require(address != MAP_FAILED, "cannot map {} ({} bytes): {}", path_, status.st_size, std::strerror(error));
  size_ = status.st_size;
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_));
}

}  // namespace quadrille
