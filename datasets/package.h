// SPDX-License-Identifier: Apache-2.0
// Files out of a Debian package, without dpkg: an ar archive that holds a compressed tar archive, both read by
// libarchive (which knows xz, zstd and gzip). Without it package_absent.cpp refuses. Used by fetch.cpp.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace quadrille {

// Content by path of all files whose path ends with one of `endings`. Throws Error: no package, truncated, too large.
std::map<std::string, std::string> unpack_package(const std::string& path, const std::vector<std::string>& endings);
// The same of a package in memory; `name` stands in messages.
std::map<std::string, std::string> unpack_package(std::string_view package, const std::string& name,
                                                  const std::vector<std::string>& endings);

// The files of a tar archive, packed or not, whose path is `wanted`: npm's packages are such.
std::map<std::string, std::string> unpack_tar(const std::string& path,
                                              const std::function<bool(std::string_view path)>& wanted);

}  // namespace quadrille
