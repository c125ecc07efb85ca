// SPDX-License-Identifier: Apache-2.0
// A build without libarchive: packages cannot be unpacked, folders still can be read.
#include "core/error.h"
#include "datasets/package.h"

namespace quadrille {

std::map<std::string, std::string> unpack_package(const std::string& path, const std::vector<std::string>&) {
  fail(
      "{} is a package and this build has no libarchive: install libarchive-dev and configure again, or unpack it "
      "(dpkg-deb -x) "
      "and give --from the folder",
      path);
}

std::map<std::string, std::string> unpack_package(std::string_view, const std::string& name,
                                                  const std::vector<std::string>& endings) {
  return unpack_package(name, endings);
}

std::map<std::string, std::string> unpack_tar(const std::string& path, const std::function<bool(std::string_view)>&) {
  return unpack_package(path, {});
}

}  // namespace quadrille
