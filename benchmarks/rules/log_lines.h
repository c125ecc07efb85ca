// SPDX-License-Identifier: Apache-2.0
// The lines of an event log, read as leniently as a judge must: whatever is wrong with one is told, and the others are
// still read. Used by the log checker, which was written from the rules and shares nothing with what writes our logs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace quadrille {

struct LogLine {
  std::int64_t number = 0;  // in the file, from 1
  double time_ms = 0;
  std::string key;
  Json value, metadata;
};

struct Finding {
  std::int64_t line = 0;  // 0: of an empty file
  bool warning = false;   // told, but the log is good all the same
  std::string key;        // "" when it has none
  std::string rule;       // "lars_epsilon.equals"; planted faults are held against these names
  std::string text;
};

struct LogText {
  std::vector<LogLine> lines;
  std::int64_t last_line = 0;
  std::vector<Finding> findings;
};

// Never throws for what stands in the text. A line counts when it holds ":::MLLOG "; anything may stand before that.
LogText read_log_text(std::string_view text);

}  // namespace quadrille
