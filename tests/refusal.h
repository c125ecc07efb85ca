// SPDX-License-Identifier: Apache-2.0
// For refusal tests: the message of the Error that `action` throws, so that a test can hold the words a user would
// read.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

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

// For whole tables of parts: each must be said.
inline void says(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "wanted \"" << part << "\" in: " << message;
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace quadrille
