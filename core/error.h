// SPDX-License-Identifier: Apache-2.0
// The one exception type of the house and the two ways to raise it. A message says what was found, what was wanted and
// what to change; it is written for the person at the terminal. Used everywhere.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace quadrille {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The message of a rank that stopped because another rank had failed: the launcher shows the first cause instead.
class Poisoned : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...));
}

// For a user's mistake and for invariants that would otherwise be silent; stays in release builds.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) fail(text, std::forward<Args>(args)...);
}

}  // namespace quadrille
