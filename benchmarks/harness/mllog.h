// SPDX-License-Identifier: Apache-2.0
// The event log of a run, one JSON object a line behind ":::MLLOG ", in the format that public checkers of training
// logs read. One file per run, written by rank 0, flushed line by line, never appended to an older one.
#pragma once

#include <cstdint>
#include <fstream>
#include <source_location>
#include <string>
#include <string_view>

#include "core/json.h"

namespace quadrille {

// Wall clock at birth plus a monotonic clock since: differences of its times are exact even when the system time is
// set.
class RunClock {
 public:
  RunClock();
  explicit RunClock(double birth_unix);  // for logs whose times are given
  double seconds() const;                // since birth
  double unix_seconds(double seconds) const { return birth_unix_ + seconds; }
  double birth_unix() const { return birth_unix_; }

 private:
  double birth_unix_;
  std::int64_t birth_nanoseconds_;
};

std::string mllog_line(std::int64_t time_ms, std::string_view event_type, std::string_view key, const Json& value,
                       const Json& metadata);

class MlLog {
 public:
  MlLog(const std::string& path, const RunClock& clock);  // throws Error: exists already, or cannot be written
  using Where = std::source_location;
  // `at`: seconds of the clock; negative: now.
  void point(std::string_view key, const Json& value, Json metadata = Json::object(), double at = -1,
             Where where = Where::current());
  void start(std::string_view key, Json metadata = Json::object(), double at = -1, Where where = Where::current());
  void stop(std::string_view key, Json metadata = Json::object(), double at = -1, Where where = Where::current());

 private:
  void write(std::string_view event_type, std::string_view key, const Json& value, Json metadata, double at,
             Where where);
  std::string path_;
  const RunClock& clock_;
  std::ofstream file_;
};

}  // namespace quadrille
