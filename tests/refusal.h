// SPDX-License-Identifier: Apache-2.0
// For refusal tests: the message of the Error that `action` throws, so that a test can hold the words a user would
// read.
#pragma once

#include <string>
#include <string_view>

#include "core/error.h"

namespace quadrille {

template <class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing was refused)";
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace quadrille
