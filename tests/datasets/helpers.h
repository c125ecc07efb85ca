// SPDX-License-Identifier: Apache-2.0
// What the tests of datasets share: a folder that goes away, files in it, and a look at the message of an Error.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "core/error.h"
#include "datasets/child.h"
#include "tests/datasets/places.h"

namespace quadrille {

class Folder {
 public:
  std::string operator/(std::string_view name) const { return (std::filesystem::path(folder_.path()) / name).string(); }
  const std::string& path() const { return folder_.path(); }
  std::string write(std::string_view name, std::string_view text) const {
    const std::string path = *this / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

 private:
  TemporaryFolder folder_{std::filesystem::temp_directory_path().string(), "quadrille-test"};
};

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string bytes;
  for (T value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}

// The message of the Error that `act` throws; "" and a failure when it throws none.
template <class Act>
std::string message_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

inline void expect_parts(const std::string& message, std::initializer_list<std::string_view> parts) {
  for (std::string_view part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "\"" << part << "\" is not in: " << message;
}

}  // namespace quadrille
